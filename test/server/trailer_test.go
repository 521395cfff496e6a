//lint:file-ignore SA1019 what is deprecated works, too

package server_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestForwardedHeadHasNoReceivedTrailer: a proxy that copies the fields of a
// request makes no field of the head of a trailer field, whether it reads the
// body before or after and which fields it leaves out.
func TestForwardedHeadHasNoReceivedTrailer(t *testing.T) {
	copies := map[string]func(dst, src *sluice.RequestHeader){
		"/all": func(dst, src *sluice.RequestHeader) {
			src.All()(func(k, v []byte) bool { dst.AddBytesKV(k, v); return true })
		},
		"/visit": func(dst, src *sluice.RequestHeader) { src.VisitAll(func(k, v []byte) { dst.SetBytesKV(k, v) }) },
		"/hop": func(dst, src *sluice.RequestHeader) {
			for _, name := range []string{"Connection", "TE", "Trailer", "Transfer-Encoding", "Upgrade"} {
				src.Del(name)
			}
			src.VisitAll(func(k, v []byte) { dst.SetBytesKV(k, v) })
		},
		"/copy": func(dst, src *sluice.RequestHeader) { src.CopyTo(dst); dst.Del("Trailer") },
	}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		for _, streams := range []bool{false, true} {
			r := harness.Serve(t, n, &sluice.Server{StreamRequestBody: streams, Handler: func(ctx *sluice.RequestCtx) {
				if stream := ctx.RequestBodyStream(); stream != nil {
					_, _ = io.Copy(io.Discard, stream)
				}
				var dst sluice.RequestHeader
				admin := fmt.Sprintf("%s %s\n", ctx.Request.Header.Peek("X-Admin"), ctx.Request.Header.Peek("X-Sum"))
				copies[string(ctx.Path())](&dst, &ctx.Request.Header)
				ctx.WriteString(admin + dst.String())
			}})
			for path := range copies {
				got := r.Exchange(harness.Request("POST "+path+" HTTP/1.1", "Transfer-Encoding: chunked", "Trailer: X-Sum", "X: y", "Connection: close") +
					"5\r\nhello\r\n0\r\nX-Sum: 7\r\nX-Admin: 1\r\n\r\n")
				_, got, _ = strings.Cut(got, "\r\n\r\n")
				if !strings.HasPrefix(got, "1 7\nPOST ") && !strings.HasPrefix(got, "1 7\nGET ") || !strings.Contains(got, "\r\nX: y\r\n") ||
					strings.Contains(got, "X-Admin: ") || strings.Contains(got, "X-Sum: ") {
					t.Errorf("streams %v, %s: %q", streams, path, got)
				}
			}
		}
	})
}

// atEnd is an empty body that calls the function at its end.
type atEnd func()

// Read implements io.Reader.
func (f atEnd) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

// TestAnswersWithTrailers: what is announced is sent after the body, and only
// where there is a chunked one.
func TestAnswersWithTrailers(t *testing.T) {
	handlers := map[string]sluice.RequestHandler{
		"/server": func(ctx *sluice.RequestCtx) {
			_ = ctx.Response.Header.SetTrailer("Server, Date")
			ctx.Response.Header.SetServer("me")
			ctx.Response.Header.Set("Date", "today")
			ctx.WriteString("x")
		},
		"/unset": func(ctx *sluice.RequestCtx) {
			_ = ctx.Response.Header.SetTrailer("X-A, X-B")
			ctx.Response.Header.Set("X-B", "")
			ctx.WriteString("x")
		},
		"/late": func(ctx *sluice.RequestCtx) {
			h := &ctx.Response.Header
			_ = h.SetTrailer("X-Sum, Last-Modified")
			ctx.SetBodyStream(atEnd(func() {
				h.Set("X-Sum", "1")
				h.Add("X-Sum", "2")
				h.Set("Last-Modified", "now")
				h.Set("X-Other", "lost")
			}), -1)
		},
		"/sized": func(ctx *sluice.RequestCtx) {
			_ = ctx.Response.Header.SetTrailer("X-Sum")
			ctx.SetBodyStream(strings.NewReader("x"), 1)
			ctx.Response.Header.Set("X-Sum", "1")
		},
		"/204": func(ctx *sluice.RequestCtx) {
			_ = ctx.Response.Header.SetTrailer("X-Sum")
			ctx.Response.Header.Set("X-Sum", "1")
			ctx.SetStatusCode(204)
		},
		"/taken-back": func(ctx *sluice.RequestCtx) {
			_ = ctx.Response.Header.SetTrailer("X-Sum")
			ctx.Response.Header.Set("X-Sum", "1")
			ctx.Response.Header.Add("X-Sum", "2")
			ctx.Response.Header.Del("Trailer")
			ctx.WriteString("x")
		},
	}
	const head = "HTTP/1.1 200 OK\r\nServer: sluice\r\nContent-Type: text/plain; charset=utf-8\r\n"
	const chunked = head + "Transfer-Encoding: chunked\r\n"
	const sized = head + "Content-Length: 1\r\n"
	tests := []struct{ request, want string }{
		{harness.Get("/server"), chunked + "Trailer: Server, Date\r\n\r\n1\r\nx\r\n0\r\nServer: me\r\nDate: today\r\n\r\n"},
		{harness.Get("/unset"), chunked + "Trailer: X-A, X-B\r\n\r\n1\r\nx\r\n0\r\nX-B: \r\n\r\n"},
		{harness.Get("/late"), chunked + "Trailer: X-Sum, Last-Modified\r\n\r\n0\r\nX-Sum: 1\r\nX-Sum: 2\r\nLast-Modified: now\r\n\r\n"},
		{harness.Get("/sized"), chunked + "Trailer: X-Sum\r\n\r\n1\r\nx\r\n0\r\nX-Sum: 1\r\n\r\n"},
		{harness.Request("HEAD /sized HTTP/1.1"), sized + "Trailer: X-Sum\r\n\r\n"},
		{"GET /sized HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", sized + "Trailer: X-Sum\r\nConnection: keep-alive\r\n\r\nx"},
		{harness.Get("/204"), "HTTP/1.1 204 No Content\r\nServer: sluice\r\nTrailer: X-Sum\r\n\r\n"},
		{harness.Get("/taken-back"), sized + "X-Sum: 1\r\nX-Sum: 2\r\n\r\nx"},
	}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { handlers[string(ctx.Path())](ctx) }})
		for _, test := range tests {
			got := r.Exchange(test.request + harness.Closing("/taken-back"))
			if want := test.want + sized + "X-Sum: 1\r\nX-Sum: 2\r\nConnection: close\r\n\r\nx"; got != want {
				t.Errorf("%q answered\n%q, want\n%q", test.request, got, want)
			}
		}
	})
}

// TestClientSendsAndReceivesTrailers: through a client and back, in the section
// that they were set in.
func TestClientSendsAndReceivesTrailers(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			q, h := &ctx.Request.Header, &ctx.Response.Header
			_ = h.SetTrailer("X-Seen, X-Agent")
			h.Set("X-Seen", fmt.Sprintf("%s %s", q.Peek("Trailer"), q.PeekAll("X-Sum"))+fmt.Sprintf(" %s", q.PeekAll("User-Agent")))
			h.SetBytesV("X-Agent", q.UserAgent())
			ctx.Write(ctx.PostBody())
		}})
		for _, streams := range []bool{false, true} {
			c := sluice.HostClient{Addr: "h", Name: "tester", StreamResponseBody: streams, Dial: func(string) (net.Conn, error) { return r.Connect() }}
			req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
			req.SetRequestURI("http://h/")
			req.Header.SetMethod("POST")
			req.SetBodyString("body")
			_ = req.Header.SetTrailer("X-Sum, User-Agent")
			req.Header.Set("X-Sum", "1")
			req.Header.Add("X-Sum", "2")
			req.Header.SetUserAgent("late")
			if err := c.Do(req, resp); err != nil {
				t.Fatal(err)
			}
			body := string(resp.Body())
			got := fmt.Sprintf("%s, %s, %s, %s", body, resp.Header.Peek("Trailer"), resp.Header.Peek("X-Seen"), resp.Header.Peek("X-Agent"))
			if want := "body, X-Seen, X-Agent, X-Sum, User-Agent [1 2] [tester late], tester"; got != want {
				t.Errorf("streams %v: %s, want %s", streams, got, want)
			}
			for name := range resp.Header.All() {
				if strings.HasPrefix(string(name), "X-") {
					t.Errorf("streams %v: %s is in the head", streams, name)
				}
			}
			sluice.ReleaseRequest(req)
			sluice.ReleaseResponse(resp)
			c.CloseIdleConnections()
		}
	})
}

// TestCompressedAnswersHaveTrailers: the section follows the encoded body.
func TestCompressedAnswersHaveTrailers(t *testing.T) {
	text := strings.Repeat("text ", 200)
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: sluice.CompressHandler(func(ctx *sluice.RequestCtx) {
			_ = ctx.Response.Header.SetTrailer("X-Sum")
			ctx.Response.Header.Set("X-Sum", "7")
			if string(ctx.Path()) == "/stream" {
				ctx.SetBodyStream(strings.NewReader(text), -1)
			} else {
				ctx.WriteString(text)
			}
		})})
		c := sluice.HostClient{Addr: "h", Dial: func(string) (net.Conn, error) { return r.Connect() }}
		defer c.CloseIdleConnections()
		for _, path := range []string{"/", "/stream"} {
			var req sluice.Request
			var resp sluice.Response
			req.SetRequestURI("http://h" + path)
			req.Header.Set("Accept-Encoding", "gzip")
			if err := c.Do(&req, &resp); err != nil {
				t.Fatal(err)
			}
			body, err := resp.BodyGunzip()
			if string(body) != text || err != nil || string(resp.Header.Peek("X-Sum")) != "7" || string(resp.Header.Peek("Trailer")) != "X-Sum" {
				t.Errorf("%s: %d bytes, %v, %q", path, len(body), err, resp.Header.TrailerHeader())
			}
		}
	})
}

// TestTrailersOfSizedStreams: a stream of known length is sent in chunks because
// of its trailer section. One that ends before its length is no complete body, and
// what it has beyond it is not sent.
func TestTrailersOfSizedStreams(t *testing.T) {
	for size, want := range map[int]string{
		4: "4\r\nbody\r\n0\r\nX-T: 1\r\n\r\n",
		3: "3\r\nbod\r\n0\r\nX-T: 1\r\n\r\n",
		5: "4\r\nbody\r\n",
	} {
		for name, stream := range map[string]func() io.Reader{
			"reader":   func() io.Reader { return struct{ io.Reader }{strings.NewReader("body")} },
			"writerTo": func() io.Reader { return bytes.NewReader([]byte("body")) },
		} {
			var out bytes.Buffer
			resp := sluice.Response{}
			resp.Header.Set("X-T", "1")
			resp.Header.SetTrailer("X-T")
			resp.SetBodyStream(stream(), size)
			w := bufio.NewWriter(&out)
			err := resp.Write(w)
			w.Flush()
			if _, got, _ := strings.Cut(out.String(), "\r\n\r\n"); got != want || errors.Is(err, io.ErrUnexpectedEOF) != (size == 5) {
				t.Errorf("%s of %d, written: %q, %v", name, size, got, err)
			}
			harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
				r := harness.Serve(t, n, &sluice.Server{Logger: &harness.LogBook{}, Handler: func(ctx *sluice.RequestCtx) {
					ctx.Response.Header.Set("X-T", "1")
					ctx.Response.Header.SetTrailer("X-T")
					ctx.SetBodyStream(stream(), size)
				}})
				if _, got, _ := strings.Cut(r.Exchange(harness.Closing("/")), "\r\n\r\n"); got != want {
					t.Errorf("%s of %d, served: %q", name, size, got)
				}
			})
		}
	}
}

// TestStreamWriterOfAnAnswerBefore: a StreamWriter whose body is not sent runs when its request
// may have ended. What it does to its RequestCtx, although it must not use it, reaches no other
// request.
func TestStreamWriterOfAnAnswerBefore(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		begin, changed := make(chan struct{}), make(chan struct{})
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			switch string(ctx.Path()) {
			case "/replaced":
				defer ctx.Response.Reset()
				fallthrough
			case "/writer":
				ctx.SetBodyStreamWriter(func(*bufio.Writer) {
					<-begin
					_ = ctx.Response.Header.SetTrailer("X-Late")
					ctx.Response.Header.Set("X-Later", "1")
					changed <- struct{}{}
				})
			default:
				begin <- struct{}{}
				<-changed
			}
		}})
		for _, first := range []string{harness.Request("HEAD /writer HTTP/1.1"), harness.Get("/replaced")} {
			got := r.Exchange(first + harness.Request("HEAD / HTTP/1.1", "Connection: close"))
			if strings.Contains(got, "Late") {
				t.Errorf("%q, and another request: %q", first, got)
			}
		}
	})
}

// TestRequestCtxIsUsedAgain: a StreamWriter that was read to its end, by a compressor, leaves
// its RequestCtx to the next request.
func TestRequestCtxIsUsedAgain(t *testing.T) {
	seen := make(chan *sluice.RequestCtx, 8)
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{Handler: sluice.CompressHandler(func(ctx *sluice.RequestCtx) {
		seen <- ctx
		ctx.SetContentType("text/plain")
		ctx.SetBodyStreamWriter(func(w *bufio.Writer) { _, _ = w.WriteString(strings.Repeat("text ", 1000)) })
	})})
	one := harness.Request("GET / HTTP/1.1", "Accept-Encoding: gzip")
	r.Exchange(one + one + one + harness.Request("GET / HTTP/1.1", "Accept-Encoding: gzip", "Connection: close"))
	first := <-seen
	for range 3 {
		if next := <-seen; next != first {
			t.Fatal("a RequestCtx whose StreamWriter has returned was given up")
		}
	}
}
