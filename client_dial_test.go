package sluice

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

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
