package sluice

import (
	"context"
	"net"
	"testing"
	"time"
)

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
			doers := map[string]interface {
				Do(*Request, *Response) error
			}{"HostClient": host, "Client": client}
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
