package fasthttpproxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

func TestConnectAnswers(t *testing.T) {
	noLeaks(t)
	for _, c := range []struct {
		name, answer string
		early        string // bytes that arrive through the tunnel at once
		status       int    // of a refusal
		is           error
		text         string // part of the error
	}{
		{name: "200", answer: "HTTP/1.1 200 Connection established\r\n\r\n"},
		{name: "HTTP/1.0", answer: "HTTP/1.0 200 OK\r\nProxy-Agent: x\r\n\r\n"},
		{name: "204", answer: "HTTP/1.1 204 No Content\r\n\r\n"},
		{name: "early bytes", answer: "HTTP/1.1 200 OK\r\n\r\nearly", early: "early"},
		{name: "a length means nothing", answer: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nearly", early: "early"},
		{name: "nor does a coding", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nearly", early: "early"},
		{name: "interim answers", answer: strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", maxInterim) + "HTTP/1.1 200 OK\r\n\r\n"},
		{name: "too many of them", answer: strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", maxInterim+1) + "HTTP/1.1 200 OK\r\n\r\n", is: errTooManyInterim},
		{name: "101", answer: "HTTP/1.1 101 Switching Protocols\r\n\r\n", status: 101},
		{name: "302", answer: "HTTP/1.1 302 Found\r\nLocation: http://login.test/\r\n\r\n", status: 302},
		{name: "407", answer: "HTTP/1.1 407 x\r\nProxy-Authenticate: Basic\r\nContent-Length: 2\r\n\r\nno", status: 407, text: "it answered 407 Proxy Authentication Required"},
		{name: "502", answer: "HTTP/1.1 502 x\r\n\r\n", status: 502},
		{name: "garbage", answer: "SSH-2.0-OpenSSH\r\n\r\n", is: sluice.ErrReadingResponseHeaders},
		{name: "a bad field", answer: "HTTP/1.1 200 OK\r\nA b: c\r\n\r\n", is: sluice.ErrReadingResponseHeaders},
		{name: "nor do both", answer: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{name: "nor what is none", answer: "HTTP/1.1 200 OK\r\nContent-Length: -1, 2\r\nTransfer-Encoding: ?\r\nTransfer-Encoding: gzip\r\n\r\nearly", early: "early"},
		{name: "nor in HTTP/1.0", answer: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{name: "two framings of 403", answer: "HTTP/1.1 403 No\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", is: sluice.ErrReadingResponseHeaders},
		{name: "closes", answer: "", is: io.ErrUnexpectedEOF},
		{name: "endless", answer: "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 2*maxAnswerHead) + "\r\n\r\n", is: sluice.ErrSmallReadBuffer},
	} {
		p := startPeer(t, nil, saying(c.answer))
		conn, err := FasthttpHTTPDialer(p.addr)("e.test:80")
		if want := "CONNECT e.test:80 HTTP/1.1,Host: e.test:80"; p.takeAsked() != want {
			t.Errorf("%s: the proxy was not asked %q", c.name, want)
		}
		if c.status == 0 && c.is == nil {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			if _, isBare := conn.(*net.TCPConn); isBare != (c.early == "") {
				t.Errorf("%s: the connection is %T", c.name, conn)
			}
			checkEcho(t, c.name, conn, c.early)
			continue
		}
		var refused *TunnelError
		if conn != nil || !errors.As(err, &refused) || refused.StatusCode != c.status || refused.Proxy != p.addr ||
			refused.Target != "e.test:80" || !errors.Is(err, c.is) && c.is != nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: got %v, %#v %v", c.name, conn, err, err)
		}
		p.waitClosed(t, c.name)
	}
}

func TestConnectAuthorization(t *testing.T) {
	p := startPeer(t, nil, saying("HTTP/1.1 200 OK\r\n\r\n"))
	for user, want := range map[string]string{
		"user:pass@":     "dXNlcjpwYXNz",
		"user@":          "dXNlcjo=",     // "user:"
		"us%40er:p%3Aw@": "dXNAZXI6cDp3", // "us@er:p:w"
	} {
		conn, err := FasthttpHTTPDialer("http://" + user + p.addr)("e.test:80")
		if err != nil {
			t.Errorf("%s: %v", user, err)
			continue
		}
		conn.Close()
		if asked := p.takeAsked(); !strings.HasSuffix(asked, ",Proxy-Authorization: Basic "+want) {
			t.Errorf("%s: asked %q", user, asked)
		}
	}
}

func TestHTTPSProxy(t *testing.T) {
	noLeaks(t)
	server, client := proxyTLS(t)
	target := startPeer(t, nil, echo)
	_, port, _ := net.SplitHostPort(target.addr)
	p := startPeer(t, server, relaying)
	early := startPeer(t, server, saying("HTTP/1.1 200 OK\r\n\r\nearly"))
	_, proxyPort, _ := net.SplitHostPort(p.addr)

	d := &Dialer{TLSConfig: client}
	d.Resolver = thisMachine{}
	for _, addr := range []string{p.addr, "proxy.test:" + proxyPort} {
		d.HTTPProxy = "https://u:p@" + addr
		conn := mustGet(t, d, "e.test:"+port)
		if conn == nil {
			continue
		}
		checkEcho(t, addr, conn, "")
		if asked := p.takeAsked(); asked != "CONNECT e.test:"+port+" HTTP/1.1,Host: e.test:"+port+",Proxy-Authorization: Basic dTpw" {
			t.Errorf("asked %q", asked)
		}
	}
	d.HTTPProxy = "https://" + early.addr
	if conn := mustGet(t, d, "e.test:80"); conn != nil {
		checkEcho(t, "early bytes", conn, "early")
	}
	if client.ServerName != "" || client.NextProtos != nil {
		t.Error("the user's TLSConfig was changed")
	}

	// A proxy with another name in its certificate, and one without TLS.
	plain := startPeer(t, nil, func(_ *peer, conn net.Conn) {
		conn.Read(make([]byte, 1))
		io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
	})
	for _, addr := range []string{"other.test:" + proxyPort, plain.addr} {
		d.HTTPProxy = "https://" + addr
		dial, err := d.GetDialFunc(false)
		if err != nil {
			t.Fatal(err)
		}
		_, err = dial("e.test:80")
		var refused *TunnelError
		var name x509.HostnameError
		var record tls.RecordHeaderError
		if !errors.As(err, &refused) || !errors.As(err, &name) && !errors.As(err, &record) && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %v", addr, err)
		}
	}
	if asked := p.takeAsked(); asked != "" {
		t.Errorf("a proxy with the wrong certificate was asked %q", asked)
	}
}

// TestTunnelHTTP2: a client that offers HTTP/2 does so to the server behind the proxy, which
// is asked over HTTP/1.1.
func TestTunnelHTTP2(t *testing.T) {
	server, client := proxyTLS(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.WriteString("behind") }, TLSConfig: server}
	served := make(chan error, 1)
	go func() { served <- s.ServeTLS(ln, "", "") }()
	p := startPeer(t, nil, relaying)
	c := &sluice.HostClient{
		Addr: ln.Addr().String(), IsTLS: true, TLSConfig: client, HTTP2: sluice.HTTP2Auto,
		Dial: FasthttpHTTPDialer("http://" + p.addr),
	}
	for range 2 {
		req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
		req.SetRequestURI("https://" + c.Addr + "/")
		if err := c.Do(req, resp); err != nil || string(resp.Body()) != "behind" || string(resp.Header.Protocol()) != "HTTP/2.0" {
			t.Errorf("%v, %s, %q", err, resp.Header.Protocol(), resp.Body())
		}
	}
	if asked := p.takeAsked(); !strings.HasPrefix(asked, "CONNECT "+c.Addr+" HTTP/1.1") || strings.Count(asked, "CONNECT") != 1 {
		t.Errorf("asked %q", asked)
	}
	c.CloseIdleConnections()
	s.Shutdown()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestTLSThroughHTTPSProxy: the proxy's own TLS is not taken for that of the server: what
// goes through the tunnel is encrypted for the server.
func TestTLSThroughHTTPSProxy(t *testing.T) {
	server, client := proxyTLS(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { fmt.Fprint(ctx, "TLS ", ctx.IsTLS()) }}
	s.TLSConfig = server
	served := make(chan error, 1)
	go func() { served <- s.ServeTLS(ln, "", "") }()
	plain := startPeer(t, nil, func(_ *peer, conn net.Conn) {
		for in := bufio.NewReader(conn); readHead(in) != ""; {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nTLS false")
		}
	})
	p := startPeer(t, server, relaying)
	d := &Dialer{TLSConfig: client}
	d.HTTPProxy, d.Resolver = "https://"+p.addr, thisMachine{}
	dial, err := d.GetDialFunc(false)
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"https://proxy.test:" + portOf(ln.Addr().String()) + "/": "TLS true",
		"http://proxy.test:" + portOf(plain.addr) + "/":          "TLS false",
	} {
		c := &sluice.Client{Dial: dial, TLSConfig: client, MaxIdemponentCallAttempts: 1}
		for range 3 {
			if status, body, err := c.Get(nil, url); err != nil || status != 200 || string(body) != want {
				t.Errorf("%s: %d %q, %v; want %q", url, status, body, err, want)
			}
		}
		if asked := p.takeAsked(); strings.Count(asked, "CONNECT") != 1 {
			t.Errorf("%s: asked %q", url, asked)
		}
		c.CloseIdleConnections()
	}
	s.Shutdown()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// portOf returns the port of an address.
func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// thisMachine is a resolver that resolves all names to this machine.
type thisMachine struct{}

func (thisMachine) LookupIPAddr(context.Context, string) ([]net.IPAddr, error) {
	return []net.IPAddr{{IP: net.IPv4(127, 0, 0, 1)}}, nil
}

// mustGet dials addr with d's Config.
func mustGet(t *testing.T, d *Dialer, addr string) net.Conn {
	t.Helper()
	dial, err := d.GetDialFunc(false)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := dial(addr)
	if err != nil {
		t.Error(err)
		return nil
	}
	return conn
}

func TestSocksProxy(t *testing.T) {
	noLeaks(t)
	target := startPeer(t, nil, echo)
	_, port, _ := net.SplitHostPort(target.addr)
	open, closed := startPeer(t, nil, socksProxy("", "", 0)), startPeer(t, nil, socksProxy("us@er", "pa:ss", 0))
	refusing := startPeer(t, nil, socksProxy("", "", 5))
	for _, c := range []struct {
		proxy *peer
		url   string
		addr  string
		asked string
		text  string // of the error
	}{
		{open, open.addr, "e.test:" + port, "name e.test " + port, ""},
		{open, "socks5://" + open.addr, target.addr, "127.0.0.1 " + port, ""},
		{open, "socks5h://" + open.addr, "[2001:db8::1]:" + port, "2001:db8::1 " + port, ""},
		{open, "socks5://us%40er:pa%3ass@" + open.addr, "e.test:" + port, "name e.test " + port, ""},
		{closed, "socks5://us%40er:pa%3ass@" + closed.addr, "e.test:" + port, "name e.test " + port, ""},
		{closed, "socks5://user:other@" + closed.addr, "e.test:" + port, "", "username/password"},
		{closed, closed.addr, "e.test:" + port, "", "no acceptable authentication"},
		{refusing, refusing.addr, "e.test:80", "name e.test 80", "connection refused"},
	} {
		for _, dial := range []sluice.DialFunc{FasthttpSocksDialer(c.url), FasthttpSocksDialerDualStack(c.url)} {
			conn, err := dial(c.addr)
			if asked := c.proxy.takeAsked(); asked != c.asked {
				t.Errorf("%s: the proxy was asked for %q, want %q", c.url, asked, c.asked)
			}
			var refused *TunnelError
			switch {
			case c.text == "" && err != nil:
				t.Errorf("%s: %v", c.url, err)
			case c.text == "":
				if _, isBare := conn.(*net.TCPConn); !isBare {
					t.Errorf("the connection is %T", conn)
				}
				checkEcho(t, c.url, conn, "")
			case !errors.As(err, &refused) || refused.Proxy != c.proxy.addr || !strings.Contains(err.Error(), c.text):
				t.Errorf("%s: error %v, want one about %q", c.url, err, c.text)
			}
		}
	}
}

// TestTimeouts: proxies that stop answering, at each step.
func TestTimeouts(t *testing.T) {
	noLeaks(t)
	_, client := proxyTLS(t)
	quiet := startPeer(t, nil, silent)
	const short = 20 * time.Millisecond
	for _, scheme := range []string{"http", "https", "socks5"} {
		for _, d := range []*Dialer{
			{Timeout: short},
			{Timeout: time.Hour, ConnectTimeout: short},
		} {
			d.TLSConfig = client
			d.HTTPProxy = scheme + "://" + quiet.addr
			dial, err := d.GetDialFunc(false)
			if err != nil {
				t.Fatal(err)
			}
			_, err = dial("e.test:80")
			var late *TunnelError
			if !errors.Is(err, sluice.ErrDialTimeout) || !errors.As(err, &late) || late.Proxy != quiet.addr {
				t.Errorf("%s, %v and %v: %v", scheme, d.Timeout, d.ConnectTimeout, err)
			}
			quiet.waitClosed(t, scheme)
		}
	}
	for name, dial := range map[string]sluice.DialFunc{
		"FasthttpHTTPDialerTimeout":          FasthttpHTTPDialerTimeout(quiet.addr, short),
		"FasthttpHTTPDialerDualStackTimeout": FasthttpHTTPDialerDualStackTimeout(quiet.addr, short),
	} {
		if _, err := dial("e.test:80"); !errors.Is(err, sluice.ErrDialTimeout) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTimeoutOfConnecting: the dialer's time-out bounds connecting.
func TestTimeoutOfConnecting(t *testing.T) {
	d := &Dialer{Timeout: time.Nanosecond}
	d.HTTPProxy = "127.0.0.1:9"
	dial, err := d.GetDialFunc(false)
	if err != nil {
		t.Fatal(err)
	}
	var late *sluice.ErrDialWithUpstream
	if _, err := dial("e.test:80"); !errors.Is(err, sluice.ErrDialTimeout) || !errors.As(err, &late) || late.Upstream != d.HTTPProxy {
		t.Errorf("error %#v", err)
	}
}

func TestContextEnds(t *testing.T) {
	noLeaks(t)
	cause := errors.New("nobody cares any more")
	for _, scheme := range []string{"http", "https", "socks5"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		quiet := startPeer(t, nil, func(p *peer, conn net.Conn) {
			if n, _ := conn.Read(make([]byte, 1)); n == 1 {
				cancel(cause) // during the exchange with the proxy
			}
			silent(p, conn)
		})
		d := &Dialer{Timeout: time.Hour}
		d.HTTPProxy = scheme + "://" + quiet.addr
		dial, err := d.GetDialContextFunc(false)
		if err != nil {
			t.Fatal(err)
		}
		_, err = dial(ctx, "e.test:80")
		var phase *sluice.PhaseError
		if !errors.As(err, &phase) || phase.Phase != sluice.PhaseDial || !errors.Is(err, cause) {
			t.Errorf("%s: %v", scheme, err)
		}
		quiet.waitClosed(t, scheme)
		if _, err = dial(ctx, "e.test:80"); !errors.As(err, &phase) || !errors.Is(err, cause) {
			t.Errorf("%s, ended before: %v", scheme, err)
		}
	}
}

func TestProxyRefusesConnections(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	var refused *sluice.ErrDialWithUpstream
	if _, err := FasthttpHTTPDialer(addr)("e.test:80"); !errors.As(err, &refused) || refused.Upstream != addr || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("error %v", err)
	}
}

func TestTunnelErrorZeroValue(t *testing.T) {
	var zero TunnelError
	if zero.Error() != "sluice: no tunnel through proxy  to : unknown reason" || zero.Unwrap() != nil {
		t.Errorf("%q, %v", zero.Error(), zero.Unwrap())
	}
}

func TestEarlyConn(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go io.WriteString(theirs, "late")
	conn := &earlyConn{Conn: ours, early: []byte("early")}
	defer conn.Close()
	var pieces []string
	for range 4 {
		b := make([]byte, 3)
		n, err := conn.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		pieces = append(pieces, string(b[:n]))
	}
	if got := strings.Join(pieces, " "); got != "ear ly lat e" {
		t.Errorf("read %q", got)
	}
	if err := conn.CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("CloseWrite of a pipe: %v", err)
	}
	if conn.NetConn() != ours {
		t.Error("NetConn is another connection")
	}
}
