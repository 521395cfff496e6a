package sluice

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// TestCallsTime: what a call whose time has run out says.
func TestCallsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clientCall
		c.Allow(time.Second)
		if c.err() != nil || c.explain(io.EOF) != io.EOF || c.explain(os.ErrDeadlineExceeded) != ErrTimeout || c.explain(nil) != nil {
			t.Errorf("before: %v, %v", c.err(), c.explain(io.EOF))
		}
		time.Sleep(time.Second)
		if c.err() != ErrTimeout || c.explain(io.EOF) != ErrTimeout || c.explain(nil) != nil {
			t.Errorf("after 1 of 1 s: %v, %v", c.err(), c.explain(io.EOF))
		}
	})
}

// A context that ends tells why, and where the call was.
func TestCallsContext(t *testing.T) {
	why := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(t.Context())
	c := clientCall{Bounds: clock.Bounds{Context: ctx}, phase: PhaseDial}
	if !c.IsBound() || c.HasEnded() || c.err() != nil || c.explain(io.EOF) != io.EOF {
		t.Error("it has ended before")
	}
	cancel(why)
	<-c.Done()
	for _, err := range []error{c.err(), c.explain(io.EOF)} {
		var phase *PhaseError
		if !errors.As(err, &phase) || phase.Phase != PhaseDial || !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
	}
	own := &PhaseError{Phase: PhaseDNS, Err: why}
	if got := c.explain(own); got != own {
		t.Errorf("the dialer's error became %v", got)
	}
}

// roundTripFunc is a RoundTripper.
type roundTripFunc func(hc *HostClient, req *Request, resp *Response) (bool, error)

func (f roundTripFunc) RoundTrip(hc *HostClient, req *Request, resp *Response) (bool, error) {
	return f(hc, req, resp)
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
