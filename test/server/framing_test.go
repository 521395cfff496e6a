package server_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestNothingIsChunkedInHTTP10: a response whose protocol is HTTP/1.0, for example that of
// a server that the handler has asked, is not sent in chunks (RFC 9112 section 6.1).
func TestNothingIsChunkedInHTTP10(t *testing.T) {
	const head = "HTTP/1.0 200 OK\r\nServer: sluice\r\nContent-Type: text/plain; charset=utf-8\r\n"
	for name, c := range map[string]struct {
		answer func(ctx *sluice.RequestCtx)
		want   string
	}{
		"sized": {func(ctx *sluice.RequestCtx) { ctx.WriteString("ab") },
			head + "Content-Length: 2\r\nConnection: keep-alive\r\n\r\nab" + head + "Content-Length: 2\r\nConnection: close\r\n\r\nab"},
		"stream": {func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(strings.NewReader("ab"), -1) }, head + "Connection: close\r\n\r\nab"},
		"flushed": {func(ctx *sluice.RequestCtx) { ctx.WriteString("a"); _ = ctx.Flush(); ctx.WriteString("b") },
			head + "Connection: close\r\n\r\nab"},
		"trailer": {func(ctx *sluice.RequestCtx) {
			_ = ctx.Response.Header.SetTrailer("X-Sum")
			ctx.Response.Header.Set("X-Sum", "1")
			ctx.WriteString("ab")
		}, head + "Trailer: X-Sum\r\nConnection: close\r\n\r\nab"},
	} {
		r := harness.Serve(t, harness.InMemory(), &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			ctx.Response.Header.SetProtocol([]byte("HTTP/1.0"))
			c.answer(ctx)
		}})
		if got := r.Exchange(harness.Get("/") + harness.Closing("/")); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestTunnelsHaveNoFraming: what follows the head of a successful answer to CONNECT is
// the tunnel's (RFC 9110 section 9.3.6).
func TestTunnelsHaveNoFraming(t *testing.T) {
	const connect, ok = "CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n", "HTTP/1.1 200 OK\r\nServer: sluice\r\n"
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		for name, c := range map[string]struct {
			handler sluice.RequestHandler
			want    string
		}{
			"tunnel": {func(ctx *sluice.RequestCtx) {
				ctx.WriteString("no content")
				ctx.Hijack(func(c net.Conn) { _, _ = io.WriteString(c, "tunnel") })
			}, ok + "\r\ntunnel"},
			"flushed": {func(ctx *sluice.RequestCtx) {
				ctx.Hijack(func(c net.Conn) { _, _ = io.WriteString(c, "tunnel") })
				_ = ctx.Flush()
			}, ok + "\r\ntunnel"},
			"no tunnel": {func(ctx *sluice.RequestCtx) {}, ok + "Connection: close\r\n\r\n"},
			"a text":    {func(ctx *sluice.RequestCtx) { ctx.WriteString("x") }, ok + "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\nx"},
			"refused":   {func(ctx *sluice.RequestCtx) { ctx.Error("x", 403) }, ""},
		} {
			r := harness.Serve(t, n, &sluice.Server{Handler: c.handler})
			script := connect
			if c.want == "" {
				script, c.want = connect+harness.Closing("/"), harness.TextAnswer(403, "x")+harness.TextAnswer(403, "x", "Connection: close")
			}
			if got := r.Exchange(script); got != c.want {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
			r.Stop()
		}
	})
}

// TestErrorHandlerFlushes: the head that it sends says that the connection ends.
func TestErrorHandlerFlushes(t *testing.T) {
	r := harness.Serve(t, harness.InMemory(), &sluice.Server{MaxRequestBodySize: 1, Handler: answering("x"), ErrorHandler: func(ctx *sluice.RequestCtx, _ error) {
		ctx.WriteString("no")
		_ = ctx.Flush()
	}})
	if got := r.Exchange(harness.Post("/", "ab")); !strings.Contains(got, "\r\nConnection: close\r\n") {
		t.Errorf("%q", got)
	}
}

// TestEncodedFormOfAStream: when MultipartForm has read and decoded a stream, the form is
// a body without a coding.
func TestEncodedFormOfAStream(t *testing.T) {
	const form = "--b\r\nContent-Disposition: form-data; name=\"k\"\r\n\r\nv\r\n--b--\r\n"
	for _, isStreaming := range []bool{false, true} {
		r := harness.Serve(t, harness.InMemory(), &sluice.Server{StreamRequestBody: isStreaming, Handler: func(ctx *sluice.RequestCtx) {
			if got := string(ctx.FormValue("k")); got != "v" {
				t.Errorf("stream=%v: k is %q", isStreaming, got)
			}
			body, err := ctx.Request.BodyUncompressed()
			fmt.Fprintf(ctx, "%s %v", body, err)
		}})
		encoded := string(sluice.AppendGzipBytes(nil, []byte(form)))
		got := r.Exchange(harness.Post("/", encoded, "Content-Encoding: gzip", "Content-Type: multipart/form-data; boundary=b", "Connection: close"))
		if !strings.HasSuffix(got, "\r\n\r\n"+form+" <nil>") {
			t.Errorf("stream=%v: %q", isStreaming, got)
		}
	}
}

type closePanics struct{}

func (closePanics) Close() error { panic("Close went mad") }

// TestCloseOfAUserValuePanics: the answer is sent, the other values are closed, and
// the connection and the memory for bodies serve further requests.
func TestCloseOfAUserValuePanics(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		closed := make(chan bool, 10)
		r := harness.Serve(t, n, &sluice.Server{MaxBodyMemory: 3, Handler: func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/done" {
				ctx.Done()
			}
			ctx.SetUserValue("bad", closePanics{})
			ctx.SetUserValue("good", onClose(func() { closed <- true }))
			ctx.WriteString("x")
		}})
		p := r.Dial()
		for _, path := range []string{"/", "/done", "/"} {
			p.Send(harness.Post(path, "abc"))
			if a := p.Answer("POST"); a.Body != "x" {
				t.Errorf("%s: %d %q", path, a.StatusCode, a.Body)
			}
			harness.Receive(t, closed)
			harness.Eventually(t, "the panic is logged", func() bool { return strings.Contains(r.Log.String(), "Close went mad") })
		}
	})
}

// onClose is an io.Closer.
type onClose func()

func (c onClose) Close() error {
	c()
	return nil
}
