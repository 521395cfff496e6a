package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/test/harness"
)

// listenTCP listens on a loopback address, or skips where there is none of its
// IP version. What comes is accepted, told who it is, and closed.
func listenTCP(t *testing.T, addr string) (port string) {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			io.WriteString(conn, conn.LocalAddr().String()+" to "+conn.RemoteAddr().String())
			conn.Close()
		}
	}()
	_, port, _ = net.SplitHostPort(ln.Addr().String())
	return port
}

// freePort returns a port that nothing listens on.
func freePort(t *testing.T) string {
	t.Helper()
	addr, err := nettest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// dialMethods returns the methods of d that dial; the names of those that dial
// one IP version end with its number.
func dialMethods(t *testing.T, d *sluice.TCPDialer) map[string]sluice.DialFunc {
	network := func(name string) sluice.DialFunc {
		return func(addr string) (net.Conn, error) { return d.DialNetwork(t.Context(), name, addr) }
	}
	return map[string]sluice.DialFunc{
		"Dial, tcp4":           d.Dial,
		"DialTimeout, tcp4":    func(addr string) (net.Conn, error) { return d.DialTimeout(addr, time.Minute) },
		"DialDualStack":        d.DialDualStack,
		"DialDualStackTimeout": func(addr string) (net.Conn, error) { return d.DialDualStackTimeout(addr, time.Minute) },
		"DialContext":          func(addr string) (net.Conn, error) { return d.DialContext(t.Context(), addr) },
		"DialNetwork, tcp":     network("tcp"),
		"DialNetwork, tcp4":    network("tcp4"),
		"DialNetwork, tcp6":    network("tcp6"),
	}
}

// lookupTimeout is when a look-up without waiters ends.
const lookupTimeout = 10 * time.Second

// endlessResolver looks up until its context ends.
type endlessResolver struct{}

func (endlessResolver) LookupIPAddr(ctx context.Context, _ string) ([]net.IPAddr, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// knownResolver knows the addresses of every host.
type knownResolver []net.IPAddr

func (r knownResolver) LookupIPAddr(context.Context, string) ([]net.IPAddr, error) { return r, nil }

func resolvesTo(addrs ...string) sluice.Resolver {
	var known knownResolver
	for _, addr := range addrs {
		known = append(known, net.IPAddr{IP: net.ParseIP(addr)})
	}
	return known
}

func TestDialLoopback(t *testing.T) {
	port4, port6 := listenTCP(t, "127.0.0.1:0"), listenTCP(t, "[::1]:0")
	both := resolvesTo("127.0.0.1", "::1")
	for _, c := range []struct {
		dialer *sluice.TCPDialer
		addr   string
		want   string // the peer's address
	}{
		{&sluice.TCPDialer{}, "127.0.0.1:" + port4, "127.0.0.1:" + port4},
		{&sluice.TCPDialer{}, "[::1]:" + port6, "[::1]:" + port6},
		{&sluice.TCPDialer{}, "[::ffff:127.0.0.1]:" + port4, "127.0.0.1:" + port4},
		{&sluice.TCPDialer{}, ":" + port4, "127.0.0.1:" + port4},
		{&sluice.TCPDialer{}, ":" + port6, "[::1]:" + port6},
		{&sluice.TCPDialer{}, "localhost:" + port4, "127.0.0.1:" + port4},
		{&sluice.TCPDialer{Resolver: both}, "both.test:" + port4, "127.0.0.1:" + port4},
		{&sluice.TCPDialer{Resolver: both}, "both.test:" + port6, "[::1]:" + port6},
		{&sluice.TCPDialer{KeepAlive: -1}, "127.0.0.1:" + port4, "127.0.0.1:" + port4},
		{&sluice.TCPDialer{DisableDNSResolution: true, Resolver: resolvesTo("192.0.2.1")}, "localhost:" + port4, "127.0.0.1:" + port4},
		{&sluice.TCPDialer{DisableDNSResolution: true, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}, "127.0.0.1:" + port4, "127.0.0.1:" + port4},
		{&sluice.TCPDialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.1")}, Resolver: both}, "both.test:" + port4, "127.0.0.1:" + port4},
		{&sluice.TCPDialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("::1")}, Resolver: both}, "both.test:" + port6, "[::1]:" + port6},
		{&sluice.TCPDialer{LocalAddr: &net.TCPAddr{}, Resolver: both}, "both.test:" + port4, "127.0.0.1:" + port4},
		{&sluice.TCPDialer{LocalAddr: &net.TCPAddr{}, Resolver: both}, "both.test:" + port6, "[::1]:" + port6},
	} {
		for name, dial := range dialMethods(t, c.dialer) {
			isIPv6 := strings.HasPrefix(c.want, "[::1]")
			conn, err := dial(c.addr)
			if isIPv6 && strings.HasSuffix(name, "4") || !isIPv6 && strings.HasSuffix(name, "6") {
				if err == nil {
					t.Errorf("%s connects to %s", name, c.addr)
					conn.Close()
				}
				continue
			}
			if err != nil {
				t.Errorf("%s %s: %v", name, c.addr, err)
				continue
			}
			told, _ := io.ReadAll(conn)
			if want := c.want + " to " + conn.LocalAddr().String(); string(told) != want {
				t.Errorf("%s %s: the peer is %q, want %q", name, c.addr, told, want)
			}
			conn.Close()
		}
	}
}

func TestDialFunctions(t *testing.T) {
	defer sluice.FlushDNSCache()
	port := listenTCP(t, "127.0.0.1:0")
	for name, dial := range map[string]sluice.DialFunc{
		"Dial":                 sluice.Dial,
		"DialDualStack":        sluice.DialDualStack,
		"DialTimeout":          func(addr string) (net.Conn, error) { return sluice.DialTimeout(addr, time.Minute) },
		"DialDualStackTimeout": func(addr string) (net.Conn, error) { return sluice.DialDualStackTimeout(addr, time.Minute) },
		"DialContext":          func(addr string) (net.Conn, error) { return sluice.DialContext(t.Context(), addr) },
	} {
		conn, err := dial("localhost:" + port)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		conn.Close()
	}
	lookups := 0
	ctx := sluice.WithClientTrace(t.Context(), &sluice.ClientTrace{DNSStart: func(string) { lookups++ }})
	for _, want := range []int{0, 1, 1} {
		conn, err := sluice.DialContext(ctx, "localhost:"+port)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if lookups != want {
			t.Errorf("%d look-ups of localhost, want %d", lookups, want)
		}
		if lookups == 0 {
			sluice.FlushDNSCache()
		}
	}
}

func TestDialErrors(t *testing.T) {
	port := freePort(t)
	var addrErr *net.AddrError
	var dialErr *sluice.ErrDialWithUpstream
	var dnsErr *net.DNSError
	unresolved := &sluice.TCPDialer{DisableDNSResolution: true}
	fixed6 := &sluice.TCPDialer{LocalAddr: &net.TCPAddr{IP: net.IPv6loopback}}
	for _, c := range []struct {
		dialer *sluice.TCPDialer
		addr   string
		as     any
		is     error
		text   string
	}{
		{nil, "127.0.0.1:" + port, &dialErr, syscall.ECONNREFUSED, "sluice: cannot connect to 127.0.0.1:" + port + ": dial tcp4 127.0.0.1:" + port + ": connect: connection refused"},
		{unresolved, "127.0.0.1:" + port, &dialErr, syscall.ECONNREFUSED, "sluice: cannot connect to 127.0.0.1:" + port + ": dial tcp4 127.0.0.1:" + port + ": connect: connection refused"},
		{nil, "localhost", &addrErr, nil, "address localhost: missing port in address"},
		{nil, "localhost:", &addrErr, nil, "address localhost:: missing port in address"},
		{unresolved, "localhost", &addrErr, nil, "address localhost: missing port in address"},
		{nil, "::1", &addrErr, nil, "address ::1: too many colons in address"},
		{nil, "localhost:99999", &addrErr, nil, "address 99999: invalid port"},
		{nil, "localhost:-1", &addrErr, nil, "address -1: invalid port"},
		{nil, "localhost:no-such-service", &dnsErr, nil, "lookup tcp/no-such-service: unknown port"},
		{fixed6, "127.0.0.1:" + port, &addrErr, nil, "address 127.0.0.1:" + port + ": no address of LocalAddr's IP version"},
		{nil, "[::1]:" + port, &addrErr, nil, "address [::1]:" + port + ": no IPv4 address, and IPv6 is used with DialDualStack only"},
		{&sluice.TCPDialer{Resolver: resolvesTo("::1")}, "six.test:" + port, &addrErr, nil, "address six.test:" + port + ": no IPv4 address, and IPv6 is used with DialDualStack only"},
	} {
		d := c.dialer
		if d == nil {
			d = &sluice.TCPDialer{Resolver: resolvesTo("127.0.0.1")}
		}
		conn, err := d.Dial(c.addr)
		if conn != nil || err == nil || !errors.As(err, c.as) || c.is != nil && !errors.Is(err, c.is) || err.Error() != c.text {
			t.Errorf("%s: got %v, %T %v", c.addr, conn, err, err)
		}
	}
	for network, text := range map[string]string{"tcp6": "address 127.0.0.1:" + port + ": no IPv6 address", "udp": "unknown network udp", "": "unknown network "} {
		if conn, err := new(sluice.TCPDialer).DialNetwork(t.Context(), network, "127.0.0.1:"+port); conn != nil || err == nil || err.Error() != text {
			t.Errorf("%q: %v", network, err)
		}
	}
	for _, err := range []*sluice.ErrDialWithUpstream{{}, {Upstream: "192.0.2.1:80"}} {
		if err.Error() != "sluice: cannot connect to "+err.Upstream+": unknown reason" || err.Unwrap() != nil {
			t.Errorf("%#v: %v", err, err)
		}
	}
}

func TestDialTimeouts(t *testing.T) {
	const addr, given = "host.test:80", 5 * time.Second
	for _, c := range []struct {
		name string
		dial func(d *sluice.TCPDialer) (net.Conn, error)
		want time.Duration
	}{
		{"zero", func(d *sluice.TCPDialer) (net.Conn, error) { return d.DialTimeout(addr, 0) }, 0},
		{"negative", func(d *sluice.TCPDialer) (net.Conn, error) { return d.DialTimeout(addr, -1) }, 0},
		{"given", func(d *sluice.TCPDialer) (net.Conn, error) { return d.DialTimeout(addr, given) }, given},
		{"given, both versions", func(d *sluice.TCPDialer) (net.Conn, error) { return d.DialDualStackTimeout(addr, given) }, given},
		{"default", func(d *sluice.TCPDialer) (net.Conn, error) { return d.Dial(addr) }, sluice.DefaultDialTimeout},
		{"default, both versions", func(d *sluice.TCPDialer) (net.Conn, error) { return d.DialDualStack(addr) }, sluice.DefaultDialTimeout},
		{"a context without a deadline", func(d *sluice.TCPDialer) (net.Conn, error) {
			return d.DialContext(context.Background(), addr)
		}, sluice.DefaultDialTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			conn, err := c.dial(&sluice.TCPDialer{Resolver: endlessResolver{}})
			checkDialTimeout(t, c.name, addr, conn, err)
			if took := time.Since(began); took != c.want {
				t.Errorf("%s: took %v, want %v", c.name, took, c.want)
			}
			time.Sleep(lookupTimeout)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		d := &sluice.TCPDialer{Resolver: endlessResolver{}}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), given)
		defer cancel()
		_, err := d.DialContext(ctx, addr)
		var phase *sluice.PhaseError
		if !errors.As(err, &phase) || !phase.Timeout() || errors.Is(err, sluice.ErrDialTimeout) || time.Since(began) != given {
			t.Errorf("a context's deadline: %v after %v", err, time.Since(began))
		}
		ctx, cancel = context.WithTimeoutCause(t.Context(), given, sluice.ErrDialTimeout)
		defer cancel()
		_, err = d.DialContext(ctx, addr)
		if !errors.Is(err, sluice.ErrDialTimeout) || errors.As(err, &phase) {
			t.Errorf("a context with the cause ErrDialTimeout: %v", err)
		}
		time.Sleep(lookupTimeout)
	})
}

func checkDialTimeout(t *testing.T, name, addr string, conn net.Conn, err error) {
	t.Helper()
	var dialErr *sluice.ErrDialWithUpstream
	if conn != nil || !errors.Is(err, sluice.ErrDialTimeout) || !errors.As(err, &dialErr) || dialErr.Upstream != addr ||
		err.Error() != "sluice: cannot connect to "+addr+": dialing timed out" {
		t.Errorf("%s: got %v, %v", name, conn, err)
	}
}

// TestTLSHandshakeAlone: a handshake without WriteTimeout is bounded, too. The connection
// is closed, and hooks are called once, whichever there are.
func TestTLSHandshakeAlone(t *testing.T) {
	for name, hooks := range map[string]string{"none": "", "start": "start", "done": "done", "both": "start done"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []string
				trace := &sluice.ClientTrace{}
				if strings.Contains(hooks, "start") {
					trace.TLSStart = func() { told = append(told, "start") }
				}
				if strings.Contains(hooks, "done") {
					trace.TLSDone = func(_ tls.ConnectionState, err error) {
						told = append(told, "done")
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("TLSDone of %v", err)
						}
					}
				}
				mine, other := net.Pipe()
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					_, _ = io.Copy(io.Discard, other)
				}()
				c := &sluice.HostClient{Addr: "h:443", IsTLS: true, Trace: trace, Dial: func(string) (net.Conn, error) { return mine, nil }}
				req, resp := harness.NewCall("GET", "https://h/")
				began := time.Now()
				if err := c.Do(req, resp); err != sluice.ErrTLSHandshakeTimeout || time.Since(began) != 30*time.Second {
					t.Errorf("%v after %v", err, time.Since(began))
				}
				<-gone
				other.Close()
				if got := strings.Join(told, " "); got != hooks {
					t.Errorf("told %q, want %q", got, hooks)
				}
				checkPool(t, c, 0, 0)
			})
		})
	}
}

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

// Addresses are tried in turn by all requests together: two that dial at the
// same time may each try only the bad one.
func TestEachAddressIsTried(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	var c *sluice.HostClient
	var inner sync.WaitGroup
	var dials atomic.Int64
	c = &sluice.HostClient{Addr: "bad:80,good:80"}
	c.Dial = func(addr string) (net.Conn, error) {
		if addr == "good:80" {
			return net.Dial("tcp", p.Addr())
		}
		if dials.Add(1) == 1 {
			// Another request dials in the meantime.
			inner.Go(func() { _, _, _ = c.Get(nil, "http://h/") })
			inner.Wait()
		}
		return nil, syscall.ECONNREFUSED
	}
	if _, _, err := c.Get(nil, "http://h/"); err != nil {
		t.Error(err)
	}
}

// The goroutine of dialAside reads the call's deadline when the request is the
// caller's again. It takes the race detector to see it.
func TestDialTimeoutAfterTheCall(t *testing.T) {
	c := &sluice.HostClient{Addr: "h:80", DialTimeout: func(string, time.Duration) (net.Conn, error) {
		return nil, syscall.ECONNREFUSED
	}}
	req, resp := harness.NewCall("GET", "http://h/")
	for i := range 3000 {
		_ = c.DoTimeout(req, resp, time.Duration(i%300)*100)
	}
	eventually(t, "all dials end", func() bool { return c.ConnsCount() == 0 })
}

// A dialer that panics, as a handler's might that is recovered, must not keep
// its place in the pool.
func TestPanickingDialer(t *testing.T) {
	c := &sluice.HostClient{Addr: "h:80", MaxConns: 1, Dial: func(string) (net.Conn, error) { panic("dialer") }}
	func() {
		defer func() { _ = recover() }()
		_, _, _ = c.Get(nil, "http://h/")
	}()
	if n := c.ConnsCount(); n != 0 || c.PendingRequests() != 0 {
		t.Errorf("%d connections, %d requests", n, c.PendingRequests())
	}
}

// WriteTimeout bounds dialing and the TLS handshake together, with every kind of dialer.
func TestTLSHandshakeWithinWriteTimeout(t *testing.T) {
	silent := harness.NewClientPeer(t, func(c *harness.PeerConn) { c.Gone() })
	never := func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	for name, set := range map[string]func(c *sluice.HostClient){
		"default": func(*sluice.HostClient) {},
		"Dial": func(c *sluice.HostClient) {
			c.Dial = func(addr string) (net.Conn, error) { return net.Dial("tcp", addr) }
		},
		"DialTimeout": func(c *sluice.HostClient) {
			c.DialTimeout = func(addr string, timeout time.Duration) (net.Conn, error) {
				return net.DialTimeout("tcp", addr, timeout)
			}
		},
		"DialContext": func(c *sluice.HostClient) {
			c.DialContext = func(ctx context.Context, addr string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", addr)
			}
		},
		"Dial that hangs": func(c *sluice.HostClient) { c.Dial = func(string) (net.Conn, error) { return never(t.Context()) } },
		"DialContext that hangs": func(c *sluice.HostClient) {
			c.DialContext = func(ctx context.Context, _ string) (net.Conn, error) { return never(ctx) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			host := &sluice.HostClient{Addr: silent.Addr(), IsTLS: true, WriteTimeout: 20 * time.Millisecond}
			set(host)
			client := &sluice.Client{WriteTimeout: 20 * time.Millisecond, ConfigureClient: func(c *sluice.HostClient) error { set(c); return nil }}
			pipeline := &sluice.PipelineClient{Addr: silent.Addr(), IsTLS: true, WriteTimeout: 20 * time.Millisecond, Dial: host.Dial}
			doers := map[string]interface {
				Do(*sluice.Request, *sluice.Response) error
			}{"HostClient": host, "Client": client}
			if host.DialTimeout == nil && host.DialContext == nil {
				doers["PipelineClient"] = pipeline
			}
			for kind, c := range doers {
				within(t, kind, func() {
					req, resp := harness.NewCall("GET", "https://"+silent.Addr()+"/")
					if err := c.Do(req, resp); err != sluice.ErrTLSHandshakeTimeout {
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
	c := &sluice.HostClient{Addr: " , ", Trace: &sluice.ClientTrace{GetConn: func(addr string) { told = append(told, "to "+addr) }}}
	req, resp := harness.NewCall("GET", "http://h/")
	if err := c.Do(req, resp); !isError(err, textError("sluice: HostClient.Addr has no address")) || !slices.Equal(told, []string{"to "}) {
		t.Errorf("%v, %q", err, told)
	}
	for _, isTLS := range []bool{false, true} {
		c = &sluice.HostClient{Addr: "h:1", IsTLS: isTLS, Dial: func(string) (net.Conn, error) { return nil, nil }}
		if isTLS {
			req.URI().SetScheme("https")
		}
		var dialed *sluice.ErrDialWithUpstream
		if err := c.Do(req, resp); !isError(err, textError("the dialer returned neither a connection nor an error")) || !errors.As(err, &dialed) || dialed.Upstream != "h:1" {
			t.Errorf("TLS %v: %v", isTLS, err)
		}
		checkPool(t, c, 0, 0)
	}
}

// TestHandshakeOfDialerFails: the connection is closed.
func TestHandshakeOfDialerFails(t *testing.T) {
	stub := &stubConn{}
	c := &sluice.HostClient{Addr: "h:443", IsTLS: true, HTTP2: sluice.HTTP2Auto, Dial: func(string) (net.Conn, error) {
		return tls.Client(stub, &tls.Config{ServerName: "h"}), nil
	}}
	req, resp := harness.NewCall("GET", "https://h/")
	var dialed *sluice.ErrDialWithUpstream
	if err := c.DoTimeout(req, resp, time.Hour); err != sluice.ErrTLSHandshakeTimeout && !errors.As(err, &dialed) {
		t.Errorf("a failed handshake: %v", err)
	}
	if n := len(stub.told); n == 0 || stub.told[n-1] != "close" {
		t.Errorf("the connection is open after %q", stub.told)
	}
	checkPool(t, c, 0, 0)
}

// TestDialContextOfClients: a dialer gets the trace and the deadline of the request, and
// the next address in turn.
func TestDialContextOfClients(t *testing.T) {
	traced := 0
	var hasDeadline bool
	var dialed []string
	c := &sluice.HostClient{Addr: "a,b", DialContext: func(ctx context.Context, addr string) (net.Conn, error) {
		if conn, err := (&sluice.TCPDialer{Resolver: resolvesTo()}).DialContext(ctx, "h:80"); err == nil {
			_ = conn.Close()
			t.Error("a host without an address was dialed")
		}
		_, hasDeadline = ctx.Deadline()
		dialed = append(dialed, addr)
		return &stubConn{}, nil
	}}
	req, resp := harness.NewCall("POST", "http://h/")
	for i, trace := range []*sluice.ClientTrace{nil, {DNSStart: func(string) { traced++ }}} {
		c.Trace = trace
		if err := c.Do(req, resp); err != sluice.ErrTimeout || traced != i || hasDeadline {
			t.Errorf("%v, traced %d, want %d, deadline %v", err, traced, i, hasDeadline)
		}
	}
	if err := c.DoTimeout(req, resp, time.Hour); err != sluice.ErrTimeout || !hasDeadline {
		t.Errorf("%v, deadline %v", err, hasDeadline)
	}
	if !slices.Equal(dialed, []string{"a", "b", "a"}) {
		t.Errorf("dialed %q", dialed)
	}
}

// countingResolver counts the look-ups of a host that has no address of IPv4.
type countingResolver struct{ lookUps int }

func (r *countingResolver) LookupIPAddr(context.Context, string) ([]net.IPAddr, error) {
	r.lookUps++
	return []net.IPAddr{{IP: net.IPv6loopback}}, nil
}

// TestDNSCacheDefault: addresses are cached for DefaultDNSCacheDuration.
func TestDNSCacheDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &countingResolver{}
		d := &sluice.TCPDialer{Resolver: r}
		for _, step := range []struct {
			wait    time.Duration
			lookUps int
		}{{0, 1}, {sluice.DefaultDNSCacheDuration - 1, 1}, {1, 2}} {
			time.Sleep(step.wait)
			if conn, err := d.Dial("h:80"); err == nil { // over IPv4 only
				_ = conn.Close()
				t.Error("it was dialed")
			}
			if r.lookUps != step.lookUps {
				t.Errorf("after another %v: %d look-ups, want %d", step.wait, r.lookUps, step.lookUps)
			}
		}
	})
}
