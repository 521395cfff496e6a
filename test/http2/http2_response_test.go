package http2_test

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
	"golang.org/x/net/http2"
)

// bulk is a body that exceeds windows and buffers.
var bulk = strings.Repeat("0123456789abcdef", 20_000)

// http2Whole are responses whose body is in memory.
func http2Whole() []http2Response {
	hello := func(ctx *sluice.RequestCtx) { ctx.SetBodyString("hello") }
	return []http2Response{
		{"plain", hello, "GET", "200 5 hello"},
		{"empty", func(*sluice.RequestCtx) {}, "GET", "200 0 "},
		{"large", func(ctx *sluice.RequestCtx) { ctx.SetBodyString(bulk) }, "GET", "200 320000 " + bulk},
		{"HEAD", hello, "HEAD", "200 5 "},
		{"304", func(ctx *sluice.RequestCtx) { ctx.SetBodyString("x"); ctx.NotModified() }, "GET", "304 -1 "},
		{"204 with a body", func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(204); ctx.SetBodyString("x") }, "GET", "204 -1 "},
		{"205", func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(205); ctx.SetBodyString("x") }, "GET", "205 0 "},
		{"interim status", func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(102) }, "GET", "500 21 Internal Server Error"},
		{"101", func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(101) }, "GET", "500 21 Internal Server Error"},
		{"panic", func(*sluice.RequestCtx) { panic("x") }, "GET", "500 21 Internal Server Error"},
		{"abort", func(*sluice.RequestCtx) { panic(sluice.ErrAbortHandler) }, "GET", "reset"},
		{"Close of Conn after Flush", func(ctx *sluice.RequestCtx) { _ = ctx.Flush(); _ = ctx.Conn().Close() }, "GET", "200 -1 canceled"},
		{"panic after Flush", func(ctx *sluice.RequestCtx) { _ = ctx.Flush(); panic("x") }, "GET", "200 -1 reset"},
		{"abort after Flush", func(ctx *sluice.RequestCtx) { _ = ctx.Flush(); panic(sluice.ErrAbortHandler) }, "GET", "200 -1 reset"},
		{"hijack", func(ctx *sluice.RequestCtx) { ctx.Hijack(func(net.Conn) {}) }, "GET", "501 15 Not Implemented"},
		{"TimeoutError", func(ctx *sluice.RequestCtx) { ctx.TimeoutError("late") }, "GET", "408 4 late"},
		{"Close of Conn", func(ctx *sluice.RequestCtx) { _ = ctx.Conn().Close() }, "GET", "canceled"},
		{"Conn", func(ctx *sluice.RequestCtx) {
			_, read := ctx.Conn().Read(nil)
			_, wrote := ctx.Conn().Write(nil)
			fmt.Fprint(ctx, errors.Is(read, sluice.ErrNotSupportedHTTP2), errors.Is(wrote, sluice.ErrNotSupportedHTTP2))
		}, "GET", "200 9 true true"},
	}
}

// http2Streamed are responses that are sent in parts.
func http2Streamed(file string) []http2Response {
	hello := func(ctx *sluice.RequestCtx) { ctx.SetBodyString("hello") }
	return []http2Response{
		{"Flush", func(ctx *sluice.RequestCtx) { ctx.WriteString("a"); _ = ctx.Flush(); ctx.WriteString("b") }, "GET", "200 -1 ab"},
		{"Flush of a length", func(ctx *sluice.RequestCtx) {
			ctx.Response.Header.SetContentLength(2)
			_ = ctx.Flush()
			ctx.WriteString("abc")
		}, "GET", "200 2 ab"},
		{"Flush of too little", func(ctx *sluice.RequestCtx) {
			ctx.Response.Header.SetContentLength(3)
			_ = ctx.Flush()
			ctx.WriteString("b")
		}, "GET", "200 3 breset"},
		{"Flush to HEAD", func(ctx *sluice.RequestCtx) { _ = ctx.Flush(); hello(ctx) }, "HEAD", "200 -1 "},
		{"stream", func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(strings.NewReader(bulk), len(bulk)) }, "GET", "200 320000 " + bulk},
		{"stream of unknown length", func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(strings.NewReader(bulk), -1) }, "GET", "200 -1 " + bulk},
		{"stream to HEAD", func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(strings.NewReader("abc"), 3) }, "HEAD", "200 3 "},
		{"short stream", func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(strings.NewReader("ab"), 3) }, "GET", "200 3 abreset"},
		{"long stream", func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(strings.NewReader("abcd"), 3) }, "GET", "200 3 abc"},
		{"stream writer", func(ctx *sluice.RequestCtx) {
			ctx.SetBodyStreamWriter(func(w *bufio.Writer) { w.WriteString("a"); w.Flush(); w.WriteString(bulk) })
		}, "GET", "200 -1 a" + bulk},
		{"stream writer panics", func(ctx *sluice.RequestCtx) {
			ctx.SetBodyStreamWriter(func(w *bufio.Writer) { w.WriteString("a"); w.Flush(); panic("x") })
		}, "GET", "200 -1 areset"},
		{"file", func(ctx *sluice.RequestCtx) { ctx.SendFile(file) }, "GET", "200 320000 " + bulk},
		{"file to HEAD", func(ctx *sluice.RequestCtx) { ctx.SendFile(file) }, "HEAD", "200 320000 "},
		{"connection fields", func(ctx *sluice.RequestCtx) {
			for _, name := range []string{"Keep-Alive", "Proxy-Connection", "Upgrade", "Transfer-Encoding", "X-Kept"} {
				ctx.Response.Header.Set(name, "1")
			}
			ctx.Response.SetConnectionClose()
			hello(ctx)
		}, "GET", "200 5 hello"},
		{"redirect", func(ctx *sluice.RequestCtx) { ctx.Redirect("/b", 302) }, "GET", "302 0 "},
	}
}

// An http2Response is a handler, and what its client gets.
type http2Response struct {
	name    string
	handler sluice.RequestHandler
	method  string
	want    string // status, length, body; or "reset", "canceled"
}

// ended says how a response has ended with err.
func ended(err error) string {
	if strings.HasSuffix(err.Error(), "; CANCEL; received from peer") {
		return "canceled"
	}
	return "reset"
}

// TestHTTP2RawBodies: content of SetBodyRaw that waits for the client may be memory of its
// request.
func TestHTTP2RawBodies(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		r := harness.ServeHTTP2(t, n, &sluice.Server{ReadBufferSize: 64 << 10, Handler: func(ctx *sluice.RequestCtx) {
			if path := ctx.Path(); len(path) > 1 {
				ctx.Response.SetBodyRaw(path)
			}
		}})
		f := r.Frames(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
		path := func(stream uint32) string { return "/" + strings.Repeat(string(rune('a'+stream)), 17<<10) }
		for stream := uint32(1); stream < 8; stream += 2 {
			f.Head(stream, "GET", path(stream), true)
			if frame, ok := f.Next().(*http2.MetaHeadersFrame); !ok || frame.PseudoValue("status") != "200" {
				t.Fatal(frame)
			}
			if frame, ok := f.Next().(*http2.DataFrame); !ok || len(frame.Data()) != 10 {
				t.Fatal(frame)
			}
		}
		f.Head(9, "GET", "/", true) // a request uses its memory again
		f.Describe()
		f.Must(f.WriteWindowUpdate(0, 1<<20))
		for stream := uint32(1); stream < 8; stream += 2 {
			f.Must(f.WriteWindowUpdate(stream, 1<<20))
			got := strings.ReplaceAll(f.Describe(), " ", "")
			if want := path(stream)[10:] + "."; got != want {
				t.Errorf("stream %d: %d bytes: %.20q", stream, len(got), got)
			}
		}
	})
}

// TestHTTP2Responses runs handlers that make their responses in every way.
func TestHTTP2Responses(t *testing.T) {
	file := t.TempDir() + "/large.txt"
	if err := os.WriteFile(file, []byte(bulk), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range append(http2Whole(), http2Streamed(file)...) {
		t.Run(test.name, func(t *testing.T) {
			harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
				r := harness.ServeHTTP2(t, n, &sluice.Server{Handler: test.handler})
				req, _ := http.NewRequest(test.method, n.Scheme()+"://h/", nil)
				got := ""
				if resp, err := r.HTTP2Client().Do(req); err != nil {
					got = ended(err)
				} else {
					body, err := io.ReadAll(resp.Body)
					length := resp.Header.Get("Content-Length")
					if length == "" {
						length = "-1"
					}
					got = fmt.Sprintf("%d %s %s", resp.StatusCode, length, body)
					if err != nil {
						got += ended(err)
					}
				}
				if got != test.want {
					t.Errorf("%.200q, want %.200q", got, test.want)
				}
				if test.name == "hijack" && !strings.Contains(r.Log.String(), "hijack") {
					t.Error("Hijack is not logged")
				}
			})
		})
	}
}

// TestHTTP2Files: FS with ranges and compression.
func TestHTTP2Files(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/large.txt", []byte(bulk), 0o600); err != nil {
		t.Fatal(err)
	}
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		fs := &sluice.FS{Root: dir, AcceptByteRange: true, Compress: true, CompressRoot: t.TempDir()}
		r := harness.ServeHTTP2(t, n, &sluice.Server{Handler: fs.NewRequestHandler()})
		client := r.HTTP2Client()
		fetch := func(name, value string) *http.Response {
			req, _ := http.NewRequest("GET", n.Scheme()+"://h/large.txt", nil)
			req.Header.Set(name, value)
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		resp := fetch("Range", "bytes=16-100031")
		if got := readAll(t, resp); resp.StatusCode != 206 || got != bulk[16:100032] || resp.Header.Get("Content-Range") != "bytes 16-100031/320000" {
			t.Errorf("%d, %d bytes, %q", resp.StatusCode, len(got), resp.Header.Get("Content-Range"))
		}
		resp = fetch("Accept-Encoding", "gzip")
		plain, err := gzip.NewReader(resp.Body)
		if err != nil || resp.Header.Get("Content-Encoding") != "gzip" {
			t.Fatalf("%v, %q", err, resp.Header.Get("Content-Encoding"))
		}
		if got, _ := io.ReadAll(plain); string(got) != bulk {
			t.Errorf("%d bytes", len(got))
		}
		resp.Body.Close()
	})
}

// TestHTTP2FilesAreClosed when they are sent, even if they are too short.
func TestHTTP2FilesAreClosed(t *testing.T) {
	path := t.TempDir() + "/f"
	if err := os.WriteFile(path, []byte(bulk), 0o600); err != nil {
		t.Fatal(err)
	}
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		files := make(chan *os.File, 1)
		r := harness.ServeHTTP2(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			f, err := os.Open(path)
			if err != nil {
				t.Error(err)
			}
			size, _ := ctx.QueryArgs().GetUint("size")
			ctx.SetBodyStream(f, size)
			files <- f
		}})
		for _, missing := range []int{0, 1} {
			resp, err := r.HTTP2Client().Get(fmt.Sprintf("%s://h/?size=%d", n.Scheme(), len(bulk)+missing))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if string(got) != bulk || (err != nil) != (missing > 0) {
				t.Errorf("%d bytes are missing: got %d, %v", missing, len(got), err)
			}
			f := harness.Receive(t, files)
			harness.Eventually(t, "the file is closed", func() bool {
				_, err := f.Stat()
				return errors.Is(err, os.ErrClosed)
			})
			if isLogged := strings.Contains(r.Log.String(), "unexpected EOF"); isLogged != (missing > 0) {
				t.Errorf("%d bytes are missing: log %s", missing, r.Log)
			}
		}
	})
}

// TestHTTP2Compression: dynamic bodies.
func TestHTTP2Compression(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		r := harness.ServeHTTP2(t, n, &sluice.Server{Handler: sluice.CompressHandler(func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/stream" {
				ctx.SetBodyStream(strings.NewReader(bulk), -1)
				return
			}
			ctx.SetBodyString(bulk)
		})})
		for _, path := range []string{"/", "/stream"} {
			req, _ := http.NewRequest("GET", n.Scheme()+"://h"+path, nil)
			req.Header.Set("Accept-Encoding", "gzip")
			resp, err := r.HTTP2Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			plain, err := gzip.NewReader(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(plain); err != nil || string(got) != bulk {
				t.Errorf("%s: %d bytes, %v", path, len(got), err)
			}
		}
	})
}

// TestHTTP2Interim: early hints and trailers.
func TestHTTP2Interim(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		r := harness.ServeHTTP2(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			h := &ctx.Response.Header
			h.Add("Link", "</a>; rel=preload")
			_ = ctx.EarlyHints()
			_ = h.AddTrailer("X-Sum")
			if string(ctx.Path()) == "/flush" {
				_ = ctx.Flush()
			}
			ctx.SetBodyString(bulk)
			h.Set("X-Sum", "1")
		}})
		for stream, path := range map[uint32]string{1: "/", 3: "/flush"} {
			f := r.Frames()
			f.Head(stream, "GET", path, true)
			var statuses []string
			body, sum := 0, ""
			for sum == "" {
				switch frame := f.Next().(type) {
				case nil:
					t.Fatal("the connection has ended")
				case interface{ PseudoValue(string) string }:
					statuses = append(statuses, frame.PseudoValue("status"))
					if len(statuses) == 3 {
						sum = "seen"
					}
				case interface{ Data() []byte }:
					body += len(frame.Data())
					if n := uint32(len(frame.Data())); n > 0 {
						f.Must(f.WriteWindowUpdate(0, n))
						f.Must(f.WriteWindowUpdate(stream, n))
					}
				}
			}
			if fmt.Sprint(statuses) != "[103 200 ]" || body != len(bulk) {
				t.Errorf("%s: %q, %d bytes", path, statuses, body)
			}
		}
	})
}

// TestHTTP2EventStream: each Flush arrives while the handler runs.
func TestHTTP2EventStream(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		step := make(chan struct{})
		r := harness.ServeHTTP2(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/writer" {
				ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
					for range 3 {
						fmt.Fprint(w, "event\n")
						w.Flush()
						<-step
					}
				})
				return
			}
			for range 3 {
				ctx.WriteString("event\n")
				if err := ctx.Flush(); err != nil {
					t.Error(err)
				}
				<-step
			}
		}})
		for _, path := range []string{"/", "/writer"} {
			resp, err := r.HTTP2Client().Get(n.Scheme() + "://h" + path)
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(resp.Body)
			for range 3 {
				if line, err := lines.ReadString('\n'); line != "event\n" {
					t.Fatalf("%q %v", line, err)
				}
				step <- struct{}{}
			}
			if _, err := lines.ReadByte(); err != io.EOF {
				t.Errorf("%v", err)
			}
		}
	})
}

// countedCloser counts its Close.
type countedCloser struct {
	io.Reader
	closed *atomic.Int32
}

func (c countedCloser) Close() error { c.closed.Add(1); return nil }

// TestHTTP2Closers: body streams and user values are closed once, also if the client
// resets the stream.
func TestHTTP2Closers(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		var streams, values atomic.Int32
		ended := make(chan struct{}, 2)
		r := harness.ServeHTTP2(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			ctx.SetUserValue("v", countedCloser{nil, &values})
			ctx.SetUserValue("end", harness.CloserFunc(func() { ended <- struct{}{} }))
			ctx.SetBodyStream(countedCloser{strings.NewReader(bulk), &streams}, len(bulk))
		}})
		f := r.Frames()
		f.Head(1, "GET", "/", true)
		f.Next()
		f.Must(f.WriteRSTStream(1, 8))
		harness.Receive(t, ended)
		resp, err := r.HTTP2Client().Get(n.Scheme() + "://h/")
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
		harness.Receive(t, ended)
		r.Stop()
		if streams.Load() != 2 || values.Load() != 2 {
			t.Errorf("closed %d streams and %d values, want 2 and 2", streams.Load(), values.Load())
		}
	})
}

// TestHTTP2TimeoutHandler: the client gets 408 whatever the handler waits for, or a
// reset if the response has begun.
func TestHTTP2TimeoutHandler(t *testing.T) {
	for name, test := range map[string]struct {
		handler sluice.RequestHandler
		want    string
	}{
		"handler": {func(ctx *sluice.RequestCtx) { <-ctx.Done() }, "408 late ."},
		"body": {func(ctx *sluice.RequestCtx) {
			if _, err := io.ReadAll(ctx.RequestBodyStream()); err == nil {
				t.Error("the body has ended")
			}
		}, "408 late ."},
		"Flush": {func(ctx *sluice.RequestCtx) {
			for ctx.Flush() == nil {
				ctx.WriteString(bulk)
			}
		}, "200 INTERNAL_ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
				ended := make(chan struct{})
				handler := sluice.TimeoutHandler(func(ctx *sluice.RequestCtx) { defer close(ended); test.handler(ctx) }, 50*time.Millisecond, "late")
				r := harness.ServeHTTP2(t, n, &sluice.Server{Handler: handler, StreamRequestBody: true})
				f := r.Frames()
				f.Head(1, "POST", "/", false)
				got := f.Describe()
				if name == "Flush" && strings.HasPrefix(got, "200 0123") && strings.HasSuffix(got, " INTERNAL_ERROR") {
					got = test.want
				}
				if got != test.want {
					t.Errorf("%.300q, want %q", got, test.want)
				}
				closed(t, "the handler", ended)
			})
		})
	}
}
