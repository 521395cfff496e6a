package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// TestNew: what is no upstream is found at once.
func TestNew(t *testing.T) {
	for _, c := range []struct{ to, want string }{
		{"http://127.0.0.1:9000", ""}, {"https://example.com", ""}, {"h2c://[::1]:80/", ""}, {"h2://a", ""}, {"unix:/run/app.sock", ""}, {"unix:///run/app.sock", ""},
		{"", "has no scheme"}, {"127.0.0.1:9000", `"127.0.0.1:9000" has no scheme`}, {"a:9000", "has no scheme"}, {"//a", "has no scheme"}, {"http:a", "has no scheme"},
		{"http://:80", "a host"}, {"http://a:0", "from 1 to 65535"}, {"h2://[::1]:65536", "from 1 to 65535"}, {"http://a:b", "invalid port"},
		{"ftp://a", "is not http"}, {"http://", "must be a scheme and a host"},
		{"http://a/path", "without a path"}, {"http://u:p@a", "without a path"}, {"http://a?q", "without a path"}, {"unix:", "unix:PATH"}, {"unix:app.sock", "unix:PATH"},
		{"http://a b", "invalid character"},
	} {
		p, err := New(Options{To: []string{c.to}})
		switch {
		case c.want == "" && err == nil:
			p.Close()
		case c.want == "" || err == nil || !strings.Contains(err.Error(), c.want):
			t.Errorf("%q: %v", c.to, err)
		}
	}
	for _, o := range []Options{{}, {To: []string{"http://a", "http://a"}}, {To: []string{"http://a"}, HealthPath: "x"}, {To: []string{"http://a"}, HealthPath: "/", HealthInterval: -1}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// named answers with the name of an upstream, and what it has got.
func named(t *testing.T, name string) string {
	return upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil
		fmt.Fprintf(w, "%s %s\n", name, r.Host)
		_ = r.Header.Write(w)
	})
}

// TestBalance: requests are spread as Options.Balance says.
func TestBalance(t *testing.T) {
	to := []string{named(t, "a"), named(t, "b"), named(t, "c")}
	ask := func(t *testing.T, o Options, fields func(n int) string) (names []string, cookies []string) {
		o.To = to
		conn := dialFront(t, front(t, newProxy(t, o), sluice.EngineAuto))
		r := bufio.NewReader(conn)
		for n := range 60 {
			send(t, conn, get(fields(n)))
			resp := answerTo(t, r, 200)
			names = append(names, bodyOf(t, resp)[:1])
			cookies = append(cookies, strings.Join(resp.Header["Set-Cookie"], ";"))
		}
		return names, cookies
	}
	key := func(ctx *sluice.RequestCtx) []byte { return ctx.Request.Header.Peek("X-Key") }
	t.Run("least loaded", func(t *testing.T) {
		names, _ := ask(t, Options{}, func(int) string { return "" })
		if all := strings.Join(names, ""); strings.Count(all, "a") != 20 || strings.Count(all, "b") != 20 {
			t.Error(all)
		}
	})
	t.Run("hash", func(t *testing.T) {
		names, _ := ask(t, Options{Balance: Hash, Key: key}, func(n int) string { return fmt.Sprintf("X-Key: %d\r\n", n%30) })
		if strings.Join(names[:30], "") != strings.Join(names[30:], "") {
			t.Errorf("%v: a key changes its upstream", names)
		}
		for _, name := range []string{"a", "b", "c"} {
			if n := strings.Count(strings.Join(names[:30], ""), name); n < 3 {
				t.Errorf("%s has %d of 30 keys", name, n)
			}
		}
	})
	t.Run("hash of the address", func(t *testing.T) {
		names, _ := ask(t, Options{Balance: Hash}, func(int) string { return "" })
		if all := strings.Join(names, ""); strings.Trim(all, all[:1]) != "" {
			t.Error(all)
		}
	})
	t.Run("sticky", func(t *testing.T) {
		_, cookies := ask(t, Options{Balance: Sticky, StickyKey: "key"}, func(int) string { return "" })
		cookie, rest, _ := strings.Cut(cookies[0], ";")
		if !strings.HasPrefix(cookie, "sluice_upstream=") || !strings.Contains(rest, "HttpOnly") {
			t.Errorf("%q", cookies[0])
		}
		names, cookies := ask(t, Options{Balance: Sticky, StickyKey: "key"}, func(int) string { return "Cookie: " + cookie + "\r\n" })
		if all := strings.Join(names, ""); strings.Trim(all, all[:1]) != "" || strings.Join(cookies, "") != "" {
			t.Error(all, cookies)
		}
	})
	t.Run("sticky key", func(t *testing.T) {
		const to = "http://10.0.0.7"
		id := func(key string) string {
			p := newProxy(t, Options{To: []string{to}, Balance: Sticky, StickyKey: key})
			return p.group.Members()[0].Client.id
		}
		first, again := id("a"), id("a")
		if first != again {
			t.Error("Proxies with the same key do not understand each other")
		}
		random, other := id(""), id("")
		if id("b") == first || random == first || random == other {
			t.Error("the value does not depend on the key")
		}
	})
}

// TestForwarded: what an upstream learns of the client.
func TestForwarded(t *testing.T) {
	to := named(t, "x")
	const sent = "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\nForwarded: for=1.2.3.4\r\nX-Forwarded-Port: 1\r\nTrailer: X-Forwarded-For\r\nTransfer-Encoding: chunked\r\n"
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"replace", Options{}, `x a|Forwarded: for=127.0.0.1;host="a";proto=http|X-Forwarded-For: 127.0.0.1|X-Forwarded-Host: a|X-Forwarded-Proto: http|`},
		{"append", Options{Forwarded: ForwardedAppend}, `x a|Forwarded: for=1.2.3.4, for=127.0.0.1;host="a";proto=http|X-Forwarded-For: 1.2.3.4, 127.0.0.1|X-Forwarded-Host: a|X-Forwarded-Port: 1|X-Forwarded-Proto: https|`},
		{"drop", Options{Forwarded: ForwardedDrop}, `x a|`},
		{"via and host", Options{Forwarded: ForwardedDrop, Via: "sluice", RewriteHost: true}, "x " + strings.TrimPrefix(to, "http://") + "|Via: 1.1 sluice|"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.To = []string{to}
			conn := dialFront(t, front(t, newProxy(t, c.o), sluice.EngineAuto))
			send(t, conn, "POST / HTTP/1.1\r\nHost: a\r\n"+sent+"\r\n0\r\n\r\n")
			resp := answerTo(t, bufio.NewReader(conn), 200)
			got := strings.NewReplacer("\r\n", "|", "\n", "|").Replace(bodyOf(t, resp))
			got = strings.Replace(got, "Accept-Encoding: gzip|", "", 1)
			if got != c.want {
				t.Errorf("the upstream got\n%s\nwant\n%s", got, c.want)
			}
			if via := resp.Header.Get("Via"); (via == "1.1 sluice") != (c.o.Via != "") {
				t.Errorf("Via: %q", via)
			}
			if c.o.Via != "" {
				send(t, conn, get("Via: 1.0 fred, 1.1 Sluice\r\n"))
				answerTo(t, bufio.NewReader(conn), 508)
			}
		})
	}
}

// TestNamesAsSent: a server that keeps the spelling of names, which is lower case over HTTP/2, has no
// loops and loses no field for that.
func TestNamesAsSent(t *testing.T) {
	p := newProxy(t, Options{To: []string{named(t, "x")}, Forwarded: ForwardedDrop, Via: "sluice"})
	server := &sluice.Server{Handler: p.Handle, DisableHeaderNamesNormalizing: true, Logger: silent}
	conn := dialFront(t, serveUntilEnd(t, server.Serve, server.Shutdown))
	in := bufio.NewReader(conn)
	send(t, conn, get("via: 1.1 sluice\r\n"))
	bodyOf(t, answerTo(t, in, 508))
	send(t, conn, get("connection: te\r\nte: trailers\r\n"))
	if got := bodyOf(t, answerTo(t, in, 200)); !strings.Contains(got, "Te: trailers\r\n") {
		t.Errorf("%q", got)
	}
}

// TestHooks: hooks change requests and responses, answer themselves, and fail.
func TestHooks(t *testing.T) {
	to := named(t, "x")
	conn := dialFront(t, front(t, newProxy(t, Options{
		To: []string{to}, Forwarded: ForwardedDrop,
		Request: func(ctx *sluice.RequestCtx, req *sluice.Request) error {
			switch string(ctx.Path()) {
			case "/own":
				ctx.SetBodyString("own")
				return ErrAnswered
			case "/bad":
				return errors.New("bad")
			}
			req.Header.Set("X-User", "anna\r\nX-Evil: 1")
			req.SetRequestURI("/other")
			return nil
		},
		Response: func(ctx *sluice.RequestCtx) error {
			switch string(ctx.Path()) {
			case "/refuse":
				ctx.Error("refused", 403)
				return ErrAnswered
			case "/fail":
				return errors.New("fail")
			}
			ctx.Response.Header.Set("X-Extra", "1")
			return nil
		},
	}), sluice.EngineAuto))
	r := bufio.NewReader(conn)
	for _, c := range []struct {
		path   string
		status int
		body   string
	}{
		{"/", 200, "x a\nX-User: anna  X-Evil: 1\r\n"}, {"/own", 200, "own"}, {"/bad", 502, "Bad Gateway"}, {"/refuse", 403, "refused"}, {"/fail", 502, "Bad Gateway"},
	} {
		send(t, conn, "GET "+c.path+" HTTP/1.1\r\nHost: a\r\nTrailer: X-User\r\n\r\n")
		resp := answerTo(t, r, c.status)
		if body := strings.Replace(bodyOf(t, resp), "Accept-Encoding: gzip\r\n", "", 1); body != c.body {
			t.Errorf("%s: %q", c.path, body)
		}
		if c.path == "/" && resp.Header.Get("X-Extra") != "1" {
			t.Errorf("%v", resp.Header)
		}
	}
}

// TestHealth: an upstream whose test fails gets no requests until it answers well.
func TestHealth(t *testing.T) {
	var isIll atomic.Bool
	sick := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" && isIll.Load() {
			w.WriteHeader(500)
			return
		}
		fmt.Fprint(w, "sick")
	})
	var mu sync.Mutex
	var text bytes.Buffer
	logger := loggerFunc(func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&text, format+"\n", args...)
	})
	p := newProxy(t, Options{To: []string{sick, named(t, "well")}, HealthPath: "/health", HealthInterval: time.Millisecond, Logger: logger})
	conn := dialFront(t, front(t, p, sluice.EngineAuto))
	r := bufio.NewReader(conn)
	isUp := func(want bool) {
		t.Helper()
		if !nettest.Poll(longEnough, func() bool { return p.Status()[0].IsUp == want }) {
			t.Fatalf("%+v", p.Status())
		}
	}
	for range 2 {
		isIll.Store(true)
		isUp(false)
		for range 10 {
			send(t, conn, get(""))
			if body := bodyOf(t, answerTo(t, r, 200)); body == "sick" {
				t.Error("a request goes to the upstream that is down")
			}
		}
		isIll.Store(false)
		isUp(true)
	}
	mu.Lock()
	defer mu.Unlock()
	if s := text.String(); !strings.Contains(s, "is down: it answers /health with 500") || !strings.Contains(s, "is up") {
		t.Error(s)
	}
}

// TestLargeHealthPage: the length of the page does not matter.
func TestLargeHealthPage(t *testing.T) {
	var tests atomic.Int64
	to := upstreamOf(t, func(w http.ResponseWriter, _ *http.Request) {
		tests.Add(1)
		io.WriteString(w, strings.Repeat("x", 1<<20))
	})
	p := newProxy(t, Options{To: []string{to}, HealthPath: "/", HealthInterval: time.Millisecond})
	if !nettest.Poll(longEnough, func() bool { return tests.Load() >= 5 }) {
		t.Fatalf("%d tests", tests.Load())
	}
	if status := p.Status()[0]; !status.IsUp {
		t.Errorf("%+v", status)
	}
}

type loggerFunc func(format string, args ...any)

func (f loggerFunc) Printf(format string, args ...any) { f(format, args...) }

// TestMuch: a tunnel carries much in both directions at the same time.
func TestMuch(t *testing.T) {
	const size = 4 << 20
	upstream := func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		io.CopyN(conn, rw, size)
	}
	onEachEngine(t, Options{}, upstream, func(t *testing.T, _ *Proxy, conn *net.TCPConn) {
		send(t, conn, get("Connection: Upgrade\r\nUpgrade: x\r\n"))
		r := bufio.NewReader(conn)
		answerTo(t, r, 101)
		sent := bytes.Repeat([]byte("0123456789abcdef"), size/16)
		go func() { _, _ = conn.Write(sent) }()
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
}

// TestProtocols: HTTP/2, TLS and Unix sockets to upstreams, and HTTP/2 from clients.
func TestProtocols(t *testing.T) {
	handler := func(ctx *sluice.RequestCtx) {
		fmt.Fprintf(ctx, "%s %v %s", ctx.Request.Header.Protocol(), ctx.IsTLS(), ctx.PostBody())
	}
	plain := &sluice.Server{Handler: handler, Logger: silent}
	addr := serveUntilEnd(t, plain.Serve, plain.Shutdown)
	cert, key, err := sluice.GenerateTestCertificate("localhost")
	if err != nil {
		t.Fatal(err)
	}
	secure := &sluice.Server{Handler: handler, Logger: silent}
	secureAddr := serveUntilEnd(t, func(ln net.Listener) error { return secure.ServeTLSEmbed(ln, cert, key) }, secure.Shutdown)
	name := t.TempDir() + "/s"
	ln, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = plain.Serve(ln) }()
	for _, c := range []struct{ to, want string }{
		{"http://" + addr, "HTTP/1.1 false "}, {"h2c://" + addr, "HTTP/2.0 false "}, {"unix:" + name, "HTTP/1.1 false "},
		{"https://" + secureAddr, "HTTP/1.1 true "}, {"h2://" + secureAddr, "HTTP/2.0 true "},
	} {
		at := front(t, newProxy(t, Options{To: []string{c.to}, TLSConfig: insecure()}), sluice.EngineAuto)
		for _, mode := range []sluice.HTTP2Mode{sluice.HTTP2Off, sluice.HTTP2Only} {
			client := &sluice.HostClient{Addr: at, HTTP2: mode}
			for _, body := range []string{"", "short", strings.Repeat("long", 30000)} {
				req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
				req.SetRequestURI("http://a/")
				if body != "" {
					req.Header.SetMethod("POST")
					req.SetBodyString(body)
				}
				if err := client.DoTimeout(req, resp, longEnough); err != nil || string(resp.Body()) != c.want+body {
					t.Errorf("%s, %v: %.60q, %v", c.to, mode, resp.Body(), err)
				}
			}
			client.CloseIdleConnections()
		}
	}
}

// TestDate: the Date of the origin is forwarded, and the server adds one that is missing (RFC 9110
// section 6.6.1).
func TestDate(t *testing.T) {
	const origin = "Sun, 06 Nov 1994 08:49:37 GMT"
	to := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil
		switch r.URL.Path {
		case "/has":
			w.Header().Set("Date", origin)
		case "/listed":
			w.Header()["Date"], w.Header()["Connection"] = []string{origin}, []string{"date"}
		}
		fmt.Fprint(w, "ok")
	})
	p := newProxy(t, Options{To: []string{to}})
	s := &sluice.Server{Handler: p.Handle, StreamRequestBody: true, Logger: silent}
	conn := dialFront(t, serveUntilEnd(t, s.Serve, s.Shutdown))
	r := bufio.NewReader(conn)
	for _, path := range []string{"/has", "/none", "/has", "/listed"} {
		send(t, conn, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
		resp := answerTo(t, r, 200)
		bodyOf(t, resp)
		dates := resp.Header["Date"]
		if len(dates) != 1 {
			t.Fatalf("%s: %q", path, dates)
		}
		if _, err := http.ParseTime(dates[0]); err != nil || (dates[0] == origin) != (path == "/has") {
			t.Errorf("%s: %q", path, dates[0])
		}
	}
}
