package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// TestWebSocketHTTP2: a WebSocket goes to an upstream of HTTP/2 as a stream, or over HTTP/1.1 if the
// upstream does not admit that. A refusal arrives unchanged, however long it is.
func TestWebSocketHTTP2(t *testing.T) {
	const key, accept = "dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" // RFC 6455 section 1.3
	for _, isStream := range []bool{true, false} {
		up := &sluice.Server{Logger: silent, HTTP2: sluice.HTTP2Config{DisableWebSocket: !isStream}, Handler: func(ctx *sluice.RequestCtx) {
			h := &ctx.Request.Header
			if (ctx.ProtoMajor() > 1) != isStream || string(h.Peek("Upgrade")) != "websocket" || string(h.Peek("Sec-WebSocket-Version")) != "13" || string(ctx.Host()) != "a" {
				ctx.Error(fmt.Sprintf("stream %d of\n%s", ctx.StreamID(), h), 400)
				return
			}
			if string(ctx.Path()) == "/no" {
				ctx.Error("no", 403)
				return
			}
			if string(ctx.Path()) == "/long" {
				ctx.Error(strings.Repeat("x", 2<<20), 403)
				return
			}
			ctx.SetStatusCode(sluice.StatusSwitchingProtocols)
			ctx.Response.Header.Set("Connection", "Upgrade")
			ctx.Response.Header.Set("Upgrade", "websocket")
			ctx.Response.Header.Set("Sec-WebSocket-Accept", accept)
			ctx.Response.Header.Set("Sec-WebSocket-Protocol", "chat")
			ctx.Hijack(func(conn net.Conn) {
				defer conn.Close()
				_, _ = io.WriteString(conn, "hello ")
				_, _ = io.Copy(conn, conn)
			})
		}}
		to := "h2c://" + serveUntilEnd(t, up.Serve, up.Shutdown)
		for _, engine := range engines {
			t.Run(fmt.Sprint(isStream, engine), func(t *testing.T) {
				p := newProxy(t, Options{To: []string{to}})
				conn := dialFront(t, front(t, p, engine))
				r := bufio.NewReader(conn)
				fields := " HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key + "\r\n\r\n"
				send(t, conn, "GET /no"+fields)
				if body := bodyOf(t, answerTo(t, r, 403)); body != "no" {
					t.Errorf("%q", body)
				}
				send(t, conn, "GET /yes"+fields)
				resp := answerTo(t, r, 101)
				if h := resp.Header; h.Get("Upgrade") != "websocket" || h.Get("Sec-WebSocket-Accept") != accept || h.Get("Sec-WebSocket-Protocol") != "chat" {
					t.Errorf("%v", h)
				}
				text := strings.Repeat("0123456789", 10_000)
				go func() { _, _ = io.WriteString(conn, text) }()
				got := make([]byte, len("hello ")+len(text))
				if _, err := io.ReadFull(r, got); err != nil || string(got) != "hello "+text {
					t.Errorf("%.30q, %v", got, err)
				}
				if s := p.Status()[0]; s.Pending != 1 || s.Failed != 0 {
					t.Errorf("%+v", s)
				}
				conn.Close()
				awaitIdle(t, p)
				webSocketOver2(t, conn.RemoteAddr().String())
				awaitIdle(t, p)
				conn = dialFront(t, conn.RemoteAddr().String())
				send(t, conn, "GET /long"+fields)
				if n := len(bodyOf(t, answerTo(t, bufio.NewReader(conn), 403))); n != 2<<20 {
					t.Errorf("%d bytes", n)
				}
				awaitIdle(t, p)
			})
		}
	}
}

// webSocketOver2 talks to the upstream as a client of HTTP/2.
func webSocketOver2(t *testing.T, addr string) {
	t.Helper()
	client := &sluice.HostClient{Addr: addr, HTTP2: sluice.HTTP2Only}
	defer client.CloseIdleConnections()
	var req sluice.Request
	var answer sluice.Response
	req.SetRequestURI("http://a/yes")
	req.Header.Set("Sec-WebSocket-Version", "13")
	stream, err := client.ConnectProtocol(t.Context(), "websocket", &req, &answer)
	if err != nil || stream == nil || string(answer.Header.Peek("Sec-WebSocket-Protocol")) != "chat" {
		t.Fatalf("%v, %s", err, &answer)
	}
	got := make([]byte, 10)
	_, _ = io.WriteString(stream, "late")
	if _, err := io.ReadFull(stream, got); string(got) != "hello late" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	stream.Close()
	for path, size := range map[string]int{"/no": 2, "/long": 2 << 20} {
		req.SetRequestURI("http://a" + path)
		stream, err := client.ConnectProtocol(t.Context(), "websocket", &req, &answer)
		if n := len(answer.Body()); err != nil || stream != nil || answer.StatusCode() != 403 || n != size {
			t.Errorf("%s: %v, %d, %d bytes", path, err, answer.StatusCode(), n)
		}
		_ = answer.CloseBodyStream()
	}
}

// TestNotWebSocketHTTP2: a request that is not a WebSocket handshake is not made one: the proxy would
// answer it in place of the upstream, which would refuse it over HTTP/1.1.
func TestNotWebSocketHTTP2(t *testing.T) {
	up := &sluice.Server{Logger: silent, Handler: func(ctx *sluice.RequestCtx) {
		if ctx.ProtoMajor() == 1 {
			ctx.Error(string(ctx.Method())+" "+string(ctx.Request.Header.Peek("Sec-WebSocket-Key")), 400)
			return
		}
		ctx.SetStatusCode(sluice.StatusSwitchingProtocols)
		ctx.Hijack(func(conn net.Conn) { conn.Close() })
	}}
	p := newProxy(t, Options{To: []string{"h2c://" + serveUntilEnd(t, up.Serve, up.Shutdown)}})
	addr := front(t, p, sluice.EngineAuto)
	for _, c := range []struct{ method, key string }{{"POST", "dGhlIHNhbXBsZSBub25jZQ=="}, {"GET", ""}, {"GET", "c2hvcnQ="}} {
		conn := dialFront(t, addr)
		send(t, conn, c.method+" / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "+c.key+"\r\n\r\n")
		if body := bodyOf(t, answerTo(t, bufio.NewReader(conn), 400)); body != c.method+" "+c.key {
			t.Errorf("%+v: %q", c, body)
		}
	}
}
