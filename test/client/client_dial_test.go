package client_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// Clients dial IPv6 if DialDualStack says so.
func TestClientsDialIPv6(t *testing.T) {
	ln, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip(err)
	}
	p := harness.NewPeerOn(t, ln, closingUntil(0))
	for _, dual := range []bool{false, true} {
		for name, c := range map[string]interface {
			Do(*sluice.Request, *sluice.Response) error
		}{
			"Client":         &sluice.Client{DialDualStack: dual},
			"HostClient":     &sluice.HostClient{Addr: p.Addr(), DialDualStack: dual},
			"PipelineClient": &sluice.PipelineClient{Addr: p.Addr(), DialDualStack: dual},
		} {
			req, resp := harness.NewCall("GET", p.URL("/"))
			var addrErr *net.AddrError
			if err := c.Do(req, resp); dual && err != nil || !dual && !errors.As(err, &addrErr) {
				t.Errorf("%s, DialDualStack %v: %v", name, dual, err)
			}
		}
	}
}

// The time of the call is told as such, and a dialer's own time-out stays its
// error.
func TestTLSHandshakeAndOtherTimeouts(t *testing.T) {
	silent := harness.NewClientPeer(t, func(c *harness.PeerConn) { c.Gone() })
	c := &sluice.HostClient{Addr: silent.Addr(), IsTLS: true, WriteTimeout: time.Hour}
	req, resp := harness.NewCall("GET", "https://"+silent.Addr()+"/")
	if err := c.DoTimeout(req, resp, 20*time.Millisecond); err != sluice.ErrTimeout {
		t.Errorf("DoTimeout: %v", err)
	}
	c = &sluice.HostClient{Addr: silent.Addr(), IsTLS: true, WriteTimeout: time.Hour}
	c.Dial = func(string) (net.Conn, error) { return nil, harness.Timeout{IsOne: true} }
	var dialed *sluice.ErrDialWithUpstream
	if err := c.Do(req, resp); !errors.As(err, &dialed) || !errors.Is(err, harness.Timeout{IsOne: true}) {
		t.Errorf("a dialer's own: %v", err)
	}
	// Without TLS it bounds only writing.
	c = &sluice.HostClient{Addr: "h:80", WriteTimeout: time.Hour}
	c.DialTimeout = func(_ string, left time.Duration) (net.Conn, error) {
		if left > sluice.DefaultDialTimeout {
			t.Errorf("%v for dialing", left)
		}
		return nil, harness.Timeout{IsOne: true}
	}
	c.WriteTimeout = time.Nanosecond
	req, resp = harness.NewCall("GET", "http://h/")
	if err := c.Do(req, resp); !errors.Is(err, harness.Timeout{IsOne: true}) {
		t.Errorf("without TLS: %v", err)
	}
}
