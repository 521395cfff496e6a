package sluice

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

// Clients dial IPv6 if DialDualStack says so.
func TestClientsDialIPv6(t *testing.T) {
	ln, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip(err)
	}
	p := newPeerOn(t, ln, closingUntil(0))
	for _, dual := range []bool{false, true} {
		for name, c := range map[string]interface {
			Do(*Request, *Response) error
		}{
			"Client":         &Client{DialDualStack: dual},
			"HostClient":     &HostClient{Addr: p.addr(), DialDualStack: dual},
			"PipelineClient": &PipelineClient{Addr: p.addr(), DialDualStack: dual},
		} {
			req, resp := newCall("GET", p.url("/"))
			var addrErr *net.AddrError
			if err := c.Do(req, resp); dual && err != nil || !dual && !errors.As(err, &addrErr) {
				t.Errorf("%s, DialDualStack %v: %v", name, dual, err)
			}
		}
	}
}

// WriteTimeout bounds dialing and the TLS handshake together, with every kind of dialer.
func TestTLSHandshakeWithinWriteTimeout(t *testing.T) {
	silent := newClientPeer(t, func(c *peerConn) { c.gone() })
	never := func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	for name, set := range map[string]func(c *HostClient){
		"default": func(*HostClient) {},
		"Dial":    func(c *HostClient) { c.Dial = func(addr string) (net.Conn, error) { return net.Dial("tcp", addr) } },
		"DialTimeout": func(c *HostClient) {
			c.DialTimeout = func(addr string, timeout time.Duration) (net.Conn, error) {
				return net.DialTimeout("tcp", addr, timeout)
			}
		},
		"DialContext": func(c *HostClient) {
			c.DialContext = func(ctx context.Context, addr string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", addr)
			}
		},
		"Dial that hangs": func(c *HostClient) { c.Dial = func(string) (net.Conn, error) { return never(t.Context()) } },
		"DialContext that hangs": func(c *HostClient) {
			c.DialContext = func(ctx context.Context, _ string) (net.Conn, error) { return never(ctx) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			host := &HostClient{Addr: silent.addr(), IsTLS: true, WriteTimeout: 20 * time.Millisecond}
			set(host)
			client := &Client{WriteTimeout: 20 * time.Millisecond, ConfigureClient: func(c *HostClient) error { set(c); return nil }}
			pipeline := &PipelineClient{Addr: silent.addr(), IsTLS: true, WriteTimeout: 20 * time.Millisecond, Dial: host.Dial}
			doers := map[string]doer{"HostClient": host, "Client": client}
			if host.DialTimeout == nil && host.DialContext == nil {
				doers["PipelineClient"] = pipeline
			}
			for kind, c := range doers {
				within(t, kind, func() {
					req, resp := newCall("GET", "https://"+silent.addr()+"/")
					if err := c.Do(req, resp); err != ErrTLSHandshakeTimeout {
						t.Errorf("%s: %v", kind, err)
					}
				})
			}
			checkPool(t, host, 0, 0)
		})
	}
}

// The time of the call is told as such, and a dialer's own time-out stays its
// error.
func TestTLSHandshakeAndOtherTimeouts(t *testing.T) {
	silent := newClientPeer(t, func(c *peerConn) { c.gone() })
	c := &HostClient{Addr: silent.addr(), IsTLS: true, WriteTimeout: time.Hour}
	req, resp := newCall("GET", "https://"+silent.addr()+"/")
	if err := c.DoTimeout(req, resp, 20*time.Millisecond); err != ErrTimeout {
		t.Errorf("DoTimeout: %v", err)
	}
	c = &HostClient{Addr: silent.addr(), IsTLS: true, WriteTimeout: time.Hour}
	c.Dial = func(string) (net.Conn, error) { return nil, timeout{isOne: true} }
	var dialed *ErrDialWithUpstream
	if err := c.Do(req, resp); !errors.As(err, &dialed) || !errors.Is(err, timeout{isOne: true}) {
		t.Errorf("a dialer's own: %v", err)
	}
	// Without TLS nothing but writing is bounded by it.
	c = &HostClient{Addr: "h:80", WriteTimeout: time.Hour}
	c.DialTimeout = func(_ string, left time.Duration) (net.Conn, error) {
		if left > DefaultDialTimeout {
			t.Errorf("%v for dialing", left)
		}
		return nil, timeout{isOne: true}
	}
	c.WriteTimeout = time.Nanosecond
	req, resp = newCall("GET", "http://h/")
	if err := c.Do(req, resp); !errors.Is(err, timeout{isOne: true}) {
		t.Errorf("without TLS: %v", err)
	}
}
