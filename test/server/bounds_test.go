package server_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestEveryAnswerHasTheServersSettings: name, no default Content-Type and the
// spelling of names, however the answer came about.
func TestEveryAnswerHasTheServersSettings(t *testing.T) {
	fill := func(ctx *sluice.RequestCtx) {
		ctx.Response.Header.Set("x-lower", "1")
		ctx.SetBodyString("body")
	}
	s := &sluice.Server{
		Name: "me", NoDefaultContentType: true, DisableHeaderNamesNormalizing: true, NoDefaultDate: true,
		ErrorHandler: func(ctx *sluice.RequestCtx, _ error) { fill(ctx); ctx.SetStatusCode(sluice.StatusTeapot) },
		Handler: func(ctx *sluice.RequestCtx) {
			switch string(ctx.Path()) {
			case "/reset":
				ctx.Response.Reset()
			case "/error":
				ctx.Error("why", 500)
				ctx.Response.Header.Del("Content-Type")
			case "/notfound":
				ctx.NotFound()
				ctx.Response.Header.Del("Content-Type")
			case "/notmodified":
				ctx.NotModified()
			case "/redirect":
				ctx.Redirect("/there", 302)
			}
			ctx.SetStatusCode(200)
			fill(ctx)
		},
	}
	r := harness.Serve(t, harness.InMemory(), s)
	for _, script := range []string{
		harness.Closing("/"), harness.Closing("/error"), harness.Closing("/notfound"), harness.Closing("/notmodified"),
		"nonsense\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n", "GET / HTTP/9.9\r\nHost: h\r\n\r\n",
	} {
		got := r.Exchange(script)
		if !strings.Contains(got, "\r\nServer: me\r\n") || !strings.Contains(got, "\r\nx-lower: 1\r\n") || strings.Contains(got, "Content-Type") || !strings.HasSuffix(got, "\r\n\r\nbody") {
			t.Errorf("%q: %q", script, got)
		}
	}
}

// TestHTTP10Bodies: a client of HTTP/1.0 that asks for keep-alive gets it, unless
// only the end of the connection ends the body.
func TestHTTP10Bodies(t *testing.T) {
	var seen []string
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		ctx.SetUserValue("closer", harness.CloserFunc(func() {
			seen = append(seen, fmt.Sprint(ctx.Response.Header.ContentLength(), " ", string(ctx.Response.Header.Peek("Connection")), " ", string(ctx.Response.Header.Server())))
		}))
		switch string(ctx.Path()) {
		case "/sized":
			ctx.SetBodyStream(strings.NewReader("sized"), 5)
		case "/stream":
			ctx.SetBodyStream(bufio.NewReader(strings.NewReader("stream")), -1)
		case "/trailers":
			ctx.Response.Header.AddTrailer("X")
			ctx.SetBodyString("trailers")
		case "/304":
			ctx.Response.Header.SetContentLength(7)
			ctx.SetStatusCode(304)
		}
	}}
	r := harness.Serve(t, harness.InMemory(), s)
	old := func(path string) string {
		return "GET " + path + " HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n"
	}
	got := r.Exchange(old("/sized") + old("/empty") + old("/304") + old("/trailers") + old("/stream") + old("/never"))
	want := "HTTP/1.1 200 OK\r\nServer: sluice\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nsized" +
		"HTTP/1.1 200 OK\r\nServer: sluice\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n" +
		"HTTP/1.1 304 Not Modified\r\nServer: sluice\r\nContent-Length: 7\r\nConnection: keep-alive\r\n\r\n" +
		"HTTP/1.1 200 OK\r\nServer: sluice\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 8\r\nTrailer: X\r\nConnection: keep-alive\r\n\r\ntrailers" +
		"HTTP/1.1 200 OK\r\nServer: sluice\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\nstream"
	if got != want {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	r.Stop()
	if got, want := fmt.Sprintf("%q", seen), `["5 keep-alive sluice" "0 keep-alive sluice" "7 keep-alive sluice" "8 keep-alive sluice" "-1 close sluice"]`; got != want {
		t.Errorf("user values saw %s, want %s", got, want)
	}
}

// TestBodyStreamsInAnySteps: a handler reads the whole body of a request, and no
// byte more, whatever the framing and the sizes of its reads.
func TestBodyStreamsInAnySteps(t *testing.T) {
	text := strings.Repeat("0123456789", 1000)
	var chunked bytes.Buffer
	for rest := text; rest != ""; {
		n := min(len(rest), 1+len(rest)/3)
		fmt.Fprintf(&chunked, "%x;x=y\r\n%s\r\n", n, rest[:n])
		rest = rest[n:]
	}
	chunked.WriteString("0\r\nX: y\r\n\r\n")
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		for _, size := range []int{1, 7, 4096, 1 << 16} {
			r := harness.Serve(t, n, &sluice.Server{StreamRequestBody: true, ReadBufferSize: 4096, Handler: func(ctx *sluice.RequestCtx) {
				s := ctx.RequestBodyStream()
				if n, err := s.Read(nil); n != 0 || err != nil {
					t.Error(n, err)
				}
				var got bytes.Buffer
				_, err := io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{s}, make([]byte, size))
				if n, again := s.Read(make([]byte, 1)); n != 0 || again != io.EOF {
					t.Error(n, again)
				}
				fmt.Fprint(ctx, got.String() == text, err)
			}})
			got := r.Exchange(harness.Post("/", text) + harness.Request("POST / HTTP/1.1", "Transfer-Encoding: chunked", "Connection: close") + chunked.String())
			if want := harness.TextAnswer(200, "true <nil>") + harness.TextAnswer(200, "true <nil>", "Connection: close"); got != want {
				t.Errorf("reads of %d: %q", size, got)
			}
			r.Stop()
		}
	})
}

// TestSharedTextsStay: what a handler writes into the bytes that it got from a
// header changes no other answer.
func TestSharedTextsStay(t *testing.T) {
	r := harness.Serve(t, harness.InMemory(), &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		h := &ctx.Response.Header
		for _, b := range [][]byte{h.Server(), h.Peek("Server"), h.ContentType(), h.Protocol(), ctx.Method(), ctx.Request.Header.Protocol()} {
			clear(b)
		}
		ctx.WriteString("x")
	}})
	if got, want := r.Exchange(harness.Get("/")+harness.Closing("/")), harness.TextAnswer(200, "x")+harness.TextAnswer(200, "x", "Connection: close"); got != want {
		t.Errorf("%q", got)
	}
}
