package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

const (
	upgrading = "Connection: Upgrade\r\nUpgrade: x\r\n"
	switches  = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"
)

// awaitIdle waits until no request of p is in progress.
func awaitIdle(t *testing.T, p *Proxy) {
	t.Helper()
	isBusy := func(s UpstreamStatus) bool { return s.Pending != 0 }
	if !nettest.Poll(longEnough, func() bool { return !slices.ContainsFunc(p.Status(), isBusy) }) {
		t.Fatalf("%+v", p.Status())
	}
}

// TestDroppedTunnel: if the client does not get the tunnel, the upstream's connection is closed,
// and the request is not in progress any more.
func TestDroppedTunnel(t *testing.T) {
	for _, engine := range engines {
		for name, after := range map[string]func(ctx *sluice.RequestCtx){
			"panic":            func(*sluice.RequestCtx) { panic("on purpose") },
			"another response": func(ctx *sluice.RequestCtx) { ctx.Hijack(nil); ctx.Error("no", 403) },
		} {
			t.Run(engine.String()+"/"+name, func(t *testing.T) {
				u := &rawUpstream{answer: func(string) string { return switches }}
				p := newProxy(t, Options{To: []string{u.start(t)}})
				s := &sluice.Server{Engine: engine, Logger: silent, Handler: func(ctx *sluice.RequestCtx) {
					p.Handle(ctx)
					after(ctx)
				}}
				conn := dialFront(t, serveUntilEnd(t, s.Serve, s.Shutdown))
				send(t, conn, get(upgrading))
				if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || resp.StatusCode < 400 {
					t.Errorf("%v, %v", resp, err)
				}
				u.awaitClosed(t, 1)
				awaitIdle(t, p)
			})
		}
	}
}

// TestUnwantedBody: if a hook answers itself, fails or panics, nothing of the exchange with the
// upstream remains.
func TestUnwantedBody(t *testing.T) {
	for name, hook := range map[string]func(ctx *sluice.RequestCtx) error{
		"own body": func(ctx *sluice.RequestCtx) error { ctx.SetBodyString("own"); return nil },
		"answered": func(ctx *sluice.RequestCtx) error { ctx.Error("no", 403); return ErrAnswered },
		"error":    func(*sluice.RequestCtx) error { return io.ErrNoProgress },
		"panic":    func(*sluice.RequestCtx) error { panic("on purpose") },
	} {
		for _, c := range []struct{ request, answer string }{
			{get(""), "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nhalf"},
			{post(chunked, "2\r\nhi\r\n0\r\n\r\n"), "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nhalf"},
			{get(upgrading), switches},
		} {
			if name == "own body" && c.answer == switches {
				continue // a tunnel has no body
			}
			t.Run(name+"/"+c.request[:4]+c.answer[9:12], func(t *testing.T) {
				u := &rawUpstream{answer: func(string) string { return c.answer }}
				p := newProxy(t, Options{To: []string{u.start(t)}, Response: hook})
				conn := dialFront(t, front(t, p, sluice.EngineAuto))
				send(t, conn, c.request)
				if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
					t.Error(err)
				}
				u.awaitClosed(t, 1)
				awaitIdle(t, p)
			})
		}
	}
}

// TestStalledUpload: an upstream that takes no more of a body does not hold the request.
func TestStalledUpload(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() // what has arrived is not read
	for _, engine := range engines {
		t.Run(engine.String(), func(t *testing.T) {
			p := newProxy(t, Options{To: []string{"http://" + ln.Addr().String()}, Timeout: 200 * time.Millisecond})
			conn := dialFront(t, front(t, p, engine))
			go func() {
				_, _ = io.WriteString(conn, post(chunked, "")) // the next one fails, too
				for piece := "10000\r\n" + strings.Repeat("x", 1<<16) + "\r\n"; ; {
					if _, err := io.WriteString(conn, piece); err != nil {
						return
					}
				}
			}()
			answerTo(t, bufio.NewReader(conn), 504)
			awaitIdle(t, p)
			if status := p.Status()[0]; status.Failed != 1 {
				t.Errorf("%+v", status)
			}
		})
	}
}

// TestHookOfUpgrade: Options.Response and Sticky have their say in what an upstream answers to an
// upgrade, whether it agrees or not.
func TestHookOfUpgrade(t *testing.T) {
	for _, c := range []struct {
		answer, body string
		status       int
	}{
		{switches, "", 101},
		{"HTTP/1.1 403 Forbidden\r\nServer: secret\r\nContent-Length: 2\r\n\r\nno", "no", 403},
		{"HTTP/1.1 404 Not Found\r\nServer: secret\r\nContent-Length: 2\r\n\r\nno", "own", 404},
	} {
		u := &rawUpstream{answer: func(string) string { return c.answer }}
		p := newProxy(t, Options{To: []string{u.start(t)}, Balance: Sticky, Response: func(ctx *sluice.RequestCtx) error {
			ctx.Response.Header.Del("Server")
			ctx.Response.Header.Set("X-Hook", "1")
			if ctx.Response.StatusCode() == 404 {
				ctx.SetBodyString("own")
			}
			return nil
		}})
		conn := dialFront(t, front(t, p, sluice.EngineAuto))
		send(t, conn, get(upgrading))
		resp := answerTo(t, bufio.NewReader(conn), c.status)
		if resp.Header.Get("Server") != "" || resp.Header.Get("X-Hook") != "1" || len(resp.Cookies()) != 1 {
			t.Errorf("%d: %v", c.status, resp.Header)
		}
		if c.body != "" && bodyOf(t, resp) != c.body {
			t.Errorf("%d: another body than %q", c.status, c.body)
		}
	}
}
