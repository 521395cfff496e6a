package fasthttpproxy

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"golang.org/x/net/http/httpproxy"
	socks "golang.org/x/net/proxy"
)

// Dialer and DialerFunc implement interfaces of x/net.
var (
	_ socks.Dialer = &Dialer{}
	_ socks.Dialer = DialerFunc(nil)
)

// TestChoice checks which proxy is used for which address.
func TestChoice(t *testing.T) {
	noLeaks(t)
	target := startPeer(t, nil, echo)
	_, port, _ := net.SplitHostPort(target.addr)
	p := startPeer(t, nil, saying("HTTP/1.1 200 OK\r\n\r\n"))
	both := httpproxy.Config{HTTPProxy: "http@" + p.addr, HTTPSProxy: "http://https@" + p.addr, NoProxy: "no.test,192.0.2.0/24"}
	const plain, secure = "Basic aHR0cDo=", "Basic aHR0cHM6" // "http:", "https:"
	for _, c := range []struct {
		config httpproxy.Config
		kind   string // of function: "" by port, "plain", "tls"
		addr   string
		want   string // the request to the proxy; "": none
	}{
		{both, "", "e.test:80", plain},
		{both, "", "e.test:8080", plain},
		{both, "", "e.test:8443", plain},
		{both, "", "e.test:443", secure},
		{both, "tls", "e.test:80", secure},
		{both, "plain", "e.test:443", plain},
		{both, "", "no.test:" + port, ""},
		{both, "", "sub.no.test:" + port, ""},
		{both, "", "localhost:" + port, ""},
		{both, "", target.addr, ""},
		{httpproxy.Config{HTTPSProxy: both.HTTPSProxy}, "", "e.test:" + port, ""},
		{httpproxy.Config{HTTPProxy: both.HTTPProxy}, "tls", "e.test:" + port, ""},
		{httpproxy.Config{HTTPSProxy: both.HTTPSProxy, CGI: true}, "tls", "e.test:80", secure},
		{httpproxy.Config{}, "", "e.test:" + port, ""},
	} {
		for _, useEnv := range []bool{false, true} {
			d := &Dialer{TCPDialer: sluice.TCPDialer{Resolver: thisMachine{}}, Config: c.config}
			if useEnv {
				setEnv(t, c.config)
				d.Config = httpproxy.Config{HTTPProxy: "127.0.0.1:1", HTTPSProxy: "127.0.0.1:1"}
			}
			dial, err := d.GetDialFunc(useEnv)
			if c.kind != "" {
				dial, err = d.GetDialFuncForTLS(useEnv, c.kind == "tls")
			}
			if err != nil {
				t.Fatal(err)
			}
			conn, err := dial(c.addr)
			if err != nil {
				t.Errorf("%+v: %v", c, err)
				continue
			}
			checkEcho(t, c.addr, conn, "")
			if asked := p.takeAsked(); c.want == "" && asked != "" || !strings.HasSuffix(asked, c.want) {
				t.Errorf("%+v, environment %v: the proxy was asked %q", c, useEnv, asked)
			}
		}
	}
}

// setEnv sets the environment's proxies to config for the test.
func setEnv(t *testing.T, config httpproxy.Config) {
	t.Helper()
	for name, value := range map[string]string{
		"HTTP_PROXY": "", "HTTPS_PROXY": "", "NO_PROXY": "",
		"http_proxy": config.HTTPProxy, "https_proxy": config.HTTPSProxy, "no_proxy": config.NoProxy,
		"REQUEST_METHOD": "",
	} {
		t.Setenv(name, value)
	}
	if config.CGI {
		t.Setenv("REQUEST_METHOD", "GET")
	}
}

func TestFunctionsOfTheEnvironment(t *testing.T) {
	noLeaks(t)
	p := startPeer(t, nil, saying("HTTP/1.1 200 OK\r\n\r\n"))
	setEnv(t, httpproxy.Config{})
	t.Setenv("HTTP_PROXY", "http://"+p.addr) // upper-case names work, too
	t.Setenv("HTTPS_PROXY", "socks5://127.0.0.1:1")
	dials := []sluice.DialFunc{FasthttpProxyHTTPDialer(), FasthttpProxyHTTPDialerTimeout(sluice.DefaultDialTimeout)}
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	for _, dial := range dials {
		conn, err := dial("e.test:80") // uses the values from when dial was made
		if err != nil {
			t.Error(err)
			continue
		}
		checkEcho(t, "environment", conn, "")
		if _, err := dial("e.test:443"); err == nil {
			t.Error("no error from a proxy that is not there")
		}
	}

	t.Setenv("REQUEST_METHOD", "GET")
	if _, err := FasthttpProxyHTTPDialer()("e.test:80"); err == nil || !strings.Contains(err.Error(), "CGI") {
		t.Errorf("HTTP_PROXY in a CGI program: %v", err)
	}
	t.Setenv("HTTPS_PROXY", "ftp://127.0.0.1:1")
	if _, err := FasthttpProxyHTTPDialer()("e.test:443"); !errors.Is(err, errProxyScheme) {
		t.Errorf("a malformed proxy: %v", err)
	}
}

func TestMalformedConfig(t *testing.T) {
	for _, config := range []httpproxy.Config{
		{HTTPProxy: "http://[::1"}, {HTTPSProxy: "::::"},
		{HTTPProxy: "p.test/pac"},
	} {
		d := &Dialer{Config: config}
		if dial, err := d.GetDialFunc(false); dial != nil || err == nil {
			t.Errorf("%+v: no error", config)
		}
		if dial, err := d.GetDialFuncForTLS(false, true); dial != nil || err == nil {
			t.Errorf("%+v: no error for TLS", config)
		}
	}
}

// TestUnusableProxies: an unusable proxy is an error for addresses that need it, and
// an error of GetDialFuncForTLS if all addresses do.
func TestUnusableProxies(t *testing.T) {
	target := startPeer(t, nil, echo)
	for _, c := range []struct {
		config  httpproxy.Config
		isTLS   bool
		isEarly bool // with an empty NoProxy; otherwise the dial function fails
	}{
		{httpproxy.Config{HTTPProxy: "ftp://p.test"}, false, true},
		{httpproxy.Config{HTTPProxy: "ftp://p.test"}, true, false},
		{httpproxy.Config{HTTPSProxy: "ftp://p.test"}, true, true},
		{httpproxy.Config{HTTPSProxy: "ftp://p.test"}, false, false},
		{httpproxy.Config{HTTPProxy: "p.test:80", CGI: true}, false, true},
		{httpproxy.Config{HTTPProxy: "p.test:80", CGI: true}, true, false},
	} {
		d := &Dialer{TCPDialer: sluice.TCPDialer{Resolver: thisMachine{}}, Config: c.config}
		_, port, _ := net.SplitHostPort(target.addr)
		if dial, err := d.GetDialFuncForTLS(false, c.isTLS); (err != nil) != c.isEarly || (dial == nil) != c.isEarly {
			t.Errorf("%+v: %v", c, err)
		}
		d.NoProxy = "no.test"
		dial, err := d.GetDialFuncForTLS(false, c.isTLS)
		if err != nil {
			t.Errorf("%+v with exceptions: %v", c, err)
			continue
		}
		if conn, err := dial("e.test:" + port); (err != nil) != c.isEarly {
			t.Errorf("%+v: dialing: %v", c, err)
		} else if err == nil {
			conn.Close()
		}
		conn, err := dial("no.test:" + port)
		switch {
		case err == nil:
			conn.Close()
		case !c.config.CGI || c.isTLS: // package httpproxy ignores NoProxy in CGI
			t.Errorf("%+v: dialing an exception: %v", c, err)
		}
		// When the port decides, errors need an address.
		if _, err := d.GetDialFunc(false); err != nil {
			t.Errorf("%+v, by port: %v", c, err)
		}
	}
}

// TestMalformedTargets: only valid addresses are sent to the proxy.
func TestMalformedTargets(t *testing.T) {
	p := startPeer(t, nil, saying("HTTP/1.1 200 OK\r\n\r\n"))
	for _, addr := range []string{"e.test", "e.test:80\r\nX: y", "a b:80", ":80", "u@e.test:80", "ä.test:80", "[fe80::1%lo]:80"} {
		for _, dial := range []sluice.DialFunc{FasthttpHTTPDialer(p.addr), FasthttpSocksDialer(p.addr)} {
			var addrErr *net.AddrError
			if _, err := dial(addr); !errors.As(err, &addrErr) {
				t.Errorf("%q: %v", addr, err)
			}
		}
	}
	if asked := p.takeAsked(); asked != "" {
		t.Errorf("the proxy was asked %q", asked)
	}
}

// TestDualStack: only a dialer with DialDualStack reaches an address that has IPv6
// only.
func TestDualStack(t *testing.T) {
	ln, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip(err)
	}
	defer ln.Close()
	addr := ln.Addr().String()
	t.Setenv("HTTP_PROXY", addr)
	of := func(d *Dialer) sluice.DialFunc {
		dial, err := d.GetDialFunc(false)
		if err != nil {
			t.Fatal(err)
		}
		return dial
	}
	const short = 50 * time.Millisecond // the listener never answers
	proxied := httpproxy.Config{HTTPProxy: addr}
	for name, c := range map[string]struct {
		dial      sluice.DialFunc
		isReached bool
	}{
		"HTTP":                  {FasthttpHTTPDialerTimeout(addr, short), false},
		"HTTP, dual":            {FasthttpHTTPDialerDualStackTimeout(addr, short), true},
		"SOCKS":                 {FasthttpSocksDialer(addr), false},
		"environment":           {FasthttpProxyHTTPDialerTimeout(short), false},
		"Dialer":                {of(&Dialer{Timeout: short, Config: proxied}), false},
		"Dialer, dual":          {of(&Dialer{Timeout: short, Config: proxied, DialDualStack: true}), true},
		"Dialer, direct":        {func(string) (net.Conn, error) { return of(&Dialer{})(addr) }, false},
		"Dialer, direct, dual":  {func(string) (net.Conn, error) { return of(&Dialer{DialDualStack: true})(addr) }, true},
		"Dialer, of a network":  {func(string) (net.Conn, error) { return new(Dialer).Dial("tcp", addr) }, true},
		"Dialer, of a network4": {func(string) (net.Conn, error) { return new(Dialer).Dial("tcp4", addr) }, false},
		"Dialer, of a network6": {func(string) (net.Conn, error) { return new(Dialer).Dial("tcp6", addr) }, true},
	} {
		conn, err := c.dial("e.test:80")
		if conn != nil {
			conn.Close()
		}
		var unreached *net.AddrError
		if isReached := !errors.As(err, &unreached); isReached != c.isReached {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWithoutProxy(t *testing.T) {
	noLeaks(t)
	target := startPeer(t, nil, echo)
	withProxy := &Dialer{Config: httpproxy.Config{HTTPProxy: "127.0.0.1:1"}}
	withLocal := &Dialer{TCPDialer: sluice.TCPDialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}}
	network := func(d *Dialer, network string) sluice.DialFunc {
		return func(addr string) (net.Conn, error) { return d.Dial(network, addr) }
	}
	for name, dial := range map[string]sluice.DialFunc{
		"an empty proxy":       FasthttpHTTPDialer(""),
		"an empty SOCKS proxy": FasthttpSocksDialer(""),
		"DualStack":            FasthttpHTTPDialerDualStack(""),
		"Dial tcp":             network(withProxy, "tcp"),
		"Dial tcp4":            network(withLocal, "tcp4"),
		"DialContext":          func(addr string) (net.Conn, error) { return withProxy.DialContext(t.Context(), addr) },
		"DialerFunc":           func(addr string) (net.Conn, error) { return DialerFunc(net.Dial).Dial("tcp", addr) },
	} {
		conn, err := dial(target.addr)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		checkEcho(t, name, conn, "")
	}
	if conn, err := withProxy.Dial("tcp6", target.addr); err == nil {
		conn.Close()
		t.Error("tcp6 connected to an IPv4 address")
	}
	var unknown net.UnknownNetworkError
	if _, err := withProxy.Dial("udp", target.addr); !errors.As(err, &unknown) {
		t.Errorf("udp: %v", err)
	}
}
