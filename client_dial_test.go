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

// TestDialNothing: without an address, and with a dialer that returns nothing.
func TestDialNothing(t *testing.T) {
	var told []string
	c := &HostClient{Addr: " , ", Trace: &ClientTrace{GetConn: func(addr string) { told = append(told, "to "+addr) }}}
	req, resp := newCall("GET", "http://h/")
	if err := c.Do(req, resp); !isError(err, textError("sluice: HostClient.Addr has no address")) || !slices.Equal(told, []string{"to "}) {
		t.Errorf("%v, %q", err, told)
	}
	for _, isTLS := range []bool{false, true} {
		c = &HostClient{Addr: "h:1", IsTLS: isTLS, Dial: func(string) (net.Conn, error) { return nil, nil }}
		if isTLS {
			req.URI().SetScheme("https")
		}
		var dialed *ErrDialWithUpstream
		if err := c.Do(req, resp); !isError(err, textError("the dialer returned neither a connection nor an error")) || !errors.As(err, &dialed) || dialed.Upstream != "h:1" {
			t.Errorf("TLS %v: %v", isTLS, err)
		}
		checkPool(t, c, 0, 0)
	}
}

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
