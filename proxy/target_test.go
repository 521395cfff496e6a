package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// TestTarget: path and query reach the upstream as they were sent (RFC 9110 section 7.7), whatever
// the protocol is and whether a hook has looked at them.
func TestTarget(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Method+" "+r.RequestURI) })
	plain := upstreamOf(t, handler)
	secure := httptest.NewUnstartedServer(handler)
	secure.EnableHTTP2, secure.Config.DisableGeneralOptionsHandler = true, true
	secure.StartTLS()
	t.Cleanup(secure.Close)
	change := func(f func(u *sluice.URI)) func(*sluice.RequestCtx, *sluice.Request) error {
		return func(_ *sluice.RequestCtx, req *sluice.Request) error { f(req.URI()); return nil }
	}
	reads := change(func(u *sluice.URI) { u.QueryArgs().Peek("x") })
	asSent := map[string]string{
		"GET /a": "", "GET /a?": "", "GET /?": "", "GET /a??": "", "GET /a?x=%41&y=+": "", "GET //a/../b/./c%2F..;x?": "", "OPTIONS *": "",
		"GET http://b/a?": "GET /a?", "GET http://b?": "GET /?", "GET http://b": "GET /", "GET http://b//a/../c%2Fd?http://e": "GET //a/../c%2Fd?http://e",
		"OPTIONS http://b": "OPTIONS *", "OPTIONS http://b/": "OPTIONS /", "OPTIONS http://b?": "OPTIONS /?",
	}
	for _, c := range []struct {
		name string
		hook func(*sluice.RequestCtx, *sluice.Request) error
		want map[string]string // "": as sent
	}{
		{"no hook", nil, asSent},
		{"a hook that reads", reads, asSent},
		{"path", change(func(u *sluice.URI) { u.SetPath("/p") }), map[string]string{"GET /a": "GET /p", "GET /a?": "GET /p?", "GET /a?x=1": "GET /p?x=1"}},
		{"no query", change(func(u *sluice.URI) { u.SetQueryString("") }), map[string]string{"GET /a": "GET /a", "GET /a?": "GET /a", "GET /a?x=1": "GET /a"}},
		{"arguments", change(func(u *sluice.URI) { u.QueryArgs().Set("y", "2") }), map[string]string{"GET /a?": "GET /a?y=2", "GET /a?x=1": "GET /a?x=1&y=2"}},
		{"another URI", func(_ *sluice.RequestCtx, req *sluice.Request) error { req.SetURI(&sluice.URI{}); return nil }, map[string]string{"GET /a?": "GET /"}},
		{"another target", func(_ *sluice.RequestCtx, req *sluice.Request) error { req.SetRequestURI("/p?"); return nil }, map[string]string{"GET /a": "GET /p?"}},
	} {
		for _, to := range []string{plain, strings.Replace(plain, "http", "h2c", 1), secure.URL, strings.Replace(secure.URL, "https", "h2", 1)} {
			scheme, _, _ := strings.Cut(to, ":")
			t.Run(c.name+"/"+scheme, func(t *testing.T) {
				conn := dialFront(t, front(t, newProxy(t, Options{To: []string{to}, TLSConfig: insecure(), Request: c.hook}), sluice.EngineAuto))
				r := bufio.NewReader(conn)
				for sent, want := range c.want {
					if want == "" {
						want = sent
					}
					send(t, conn, sent+" HTTP/1.1\r\nHost: b\r\n\r\n")
					if got := bodyOf(t, answerTo(t, r, 200)); got != want {
						t.Errorf("%q became %q, want %q", sent, got, want)
					}
				}
			})
		}
	}
}

// TestTargetOfTunnel is TestTarget for upgrades.
func TestTargetOfTunnel(t *testing.T) {
	hook := func(_ *sluice.RequestCtx, req *sluice.Request) error { _ = req.URI().Path(); return nil }
	onEachEngine(t, Options{Request: hook}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Target", r.RequestURI)
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "x")
		w.WriteHeader(http.StatusSwitchingProtocols)
	}, func(t *testing.T, p *Proxy, conn *net.TCPConn) {
		const target = "//a/../b%2Fc?"
		send(t, conn, "GET "+target+" HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		if got := answerTo(t, bufio.NewReader(conn), 101).Header.Get("X-Target"); got != target {
			t.Errorf("%q became %q", target, got)
		}
	})
}

// TestSetTarget: a handler may give Handle a request with another target, in any form that SetRequestURI takes.
func TestSetTarget(t *testing.T) {
	p := newProxy(t, Options{To: []string{upstreamOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host+" "+r.RequestURI) }))}})
	for set, want := range map[string]string{
		"/p?": "b /p?", "p/x": "b /p/x", "?y": "b /?y", "http://c/p#/f": "c /p", "http://c#/f": "c /", "": "b /", "a/b?x=1": "b /a/b?x=1", "a/b?http://e/f": "b /a/b?http://e/f", "http://c?x": "c /?x",
	} {
		var ctx sluice.RequestCtx
		ctx.Init(new(sluice.Request), nil, nil)
		ctx.Request.Header.SetHost("b")
		ctx.Request.SetRequestURI(set)
		p.Handle(&ctx)
		if got := string(ctx.Response.Body()); got != want {
			t.Errorf("%q became %d, %q, want %q", set, ctx.Response.StatusCode(), got, want)
		}
	}
}

// TestHost: an upstream gets a Host that it can take, whatever a client may send: its own name
// for a request of HTTP/1.0 without one (RFC 9112 section 3.2), and no zone, which is the client's (RFC
// 6874 section 4). None of these requests is a failure of the upstream.
func TestHost(t *testing.T) {
	tell := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Host, " ", r.Header["X-Forwarded-Host"], " ", r.Header.Get("Forwarded"))
	}
	const forwarded = "for=127.0.0.1;proto=http"
	for _, o := range []Options{{}, {RewriteHost: true}, {Request: func(*sluice.RequestCtx, *sluice.Request) error { return nil }}, {HedgeAfter: time.Hour}} {
		onEachProtocol(t, o, tell, func(t *testing.T, p *Proxy, _ *net.TCPConn) {
			own := p.group.Members()[0].Client.host
			addr := front(t, p, sluice.EngineAuto)
			for head, want := range map[string]string{
				"GET / HTTP/1.0\r\n": own + " [] " + forwarded,
				"GET / HTTP/1.1\r\nHost: [fe80::1%25eth0]:8\r\nConnection: close\r\n": "[fe80::1]:8 [[fe80::1]:8] for=127.0.0.1;host=\"[fe80::1]:8\";proto=http",
				"GET http://[fe80::1%25eth0]/ HTTP/1.0\r\n":                           "[fe80::1] [[fe80::1]] for=127.0.0.1;host=\"[fe80::1]\";proto=http",
				"GET / HTTP/1.0\r\nHost: b\r\n":                                       "b [b] for=127.0.0.1;host=\"b\";proto=http",
			} {
				if o.RewriteHost {
					_, rest, _ := strings.Cut(want, " ")
					want = own + " " + rest
				}
				conn := dialFront(t, addr)
				send(t, conn, head+"\r\n")
				if got := bodyOf(t, answerTo(t, bufio.NewReader(conn), 200)); got != want {
					t.Errorf("%q: %q, want %q", head, got, want)
				}
			}
			if n := p.group.Members()[0].Client.failed.Load(); n != 0 {
				t.Errorf("%d failures of the upstream", n)
			}
		})
	}
}

// TestHostOfTunnel is TestHost for an upgrade, which HTTP/1.1 has only.
func TestHostOfTunnel(t *testing.T) {
	onEachEngine(t, Options{}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host) }, func(t *testing.T, _ *Proxy, conn *net.TCPConn) {
		send(t, conn, "GET / HTTP/1.1\r\nHost: [fe80::1%25eth0]\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		if got := bodyOf(t, answerTo(t, bufio.NewReader(conn), 200)); got != "[fe80::1]" {
			t.Errorf("the upstream got %q", got)
		}
	})
}
