package sluice

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestDialContextOfClients: a dialer gets the trace and the deadline of the request, and
// the next address in turn.
func TestDialContextOfClients(t *testing.T) {
	var seen *ClientTrace
	var hasDeadline bool
	var dialed []string
	c := &HostClient{Addr: "a,b", DialContext: func(ctx context.Context, addr string) (net.Conn, error) {
		seen = traceOf(ctx)
		_, hasDeadline = ctx.Deadline()
		dialed = append(dialed, addr)
		return &stubConn{}, nil
	}}
	req, resp := newCall("POST", "http://h/")
	for _, trace := range []*ClientTrace{nil, {}} {
		c.Trace = trace
		if err := c.Do(req, resp); err != ErrTimeout || seen != trace || hasDeadline {
			t.Errorf("%v, trace %p, want %p, deadline %v", err, seen, trace, hasDeadline)
		}
	}
	if err := c.DoTimeout(req, resp, time.Hour); err != ErrTimeout || !hasDeadline {
		t.Errorf("%v, deadline %v", err, hasDeadline)
	}
	if !slices.Equal(dialed, []string{"a", "b", "a"}) {
		t.Errorf("dialed %q", dialed)
	}
}

func checkDialTimeout(t *testing.T, name, addr string, conn net.Conn, err error) {
	t.Helper()
	var dialErr *ErrDialWithUpstream
	if conn != nil || !errors.Is(err, ErrDialTimeout) || !errors.As(err, &dialErr) || dialErr.Upstream != addr ||
		err.Error() != "sluice: cannot connect to "+addr+": dialing timed out" {
		t.Errorf("%s: got %v, %v", name, conn, err)
	}
}

func TestDialTimeoutOfClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sharedDialer.dialer.Connect = func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		defer func() { sharedDialer.dialer.Connect = nil }()
		began := time.Now()
		req := &Request{}
		req.SetRequestURI("http://192.0.2.1/")
		err := (&HostClient{Addr: "192.0.2.1:80"}).Do(req, nil)
		checkDialTimeout(t, "a client", "192.0.2.1:80", nil, err)
		if took := time.Since(began); took != DefaultDialTimeout {
			t.Errorf("a client: took %v", took)
		}
	})
}

func TestDialDefaults(t *testing.T) {
	if got := new(TCPDialer).config().CacheDuration; got != DefaultDNSCacheDuration {
		t.Errorf("addresses are cached for %v", got)
	}
}
