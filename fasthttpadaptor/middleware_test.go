package fasthttpadaptor_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

// around runs test with a server of h within middleware, with each engine.
func around(t *testing.T, h http.HandlerFunc, middleware func(sluice.RequestHandler) sluice.RequestHandler, test func(t *testing.T, addr string)) {
	for _, e := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		t.Run(e.String(), func(t *testing.T) {
			test(t, serve(t, &sluice.Server{Handler: middleware(fasthttpadaptor.NewFastHTTPHandler(h)), Engine: e, StreamRequestBody: true}))
		})
	}
}

// pieces writes n pieces of 1000 bytes, each followed by Flush if flushes is set.
func pieces(n int, flushes bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		for i := range n {
			fmt.Fprintf(w, "%1000d", i)
			if flushes {
				flush(w)
			}
		}
	}
}

func piecesText(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "%1000d", i)
	}
	return all.String()
}

// Fields that a handler around the adaptor sets afterwards are sent, with and without
// Flush, after any number of bytes.
func TestFieldsOfMiddleware(t *testing.T) {
	middleware := func(h sluice.RequestHandler) sluice.RequestHandler {
		return func(ctx *sluice.RequestCtx) {
			h(ctx)
			ctx.Response.Header.Set("ETag", `"late"`)
			ctx.SetStatusCode(203)
		}
	}
	for _, flushes := range []bool{false, true} {
		t.Run(fmt.Sprint(flushes), func(t *testing.T) {
			around(t, pieces(300, flushes), middleware, func(t *testing.T, addr string) {
				got := ask(t, addr, "GET", "")
				if got.Status != 203 || got.Header.Get("ETag") != `"late"` || got.Body != piecesText(300) || got.IsBroken {
					t.Errorf("got %d, %v, %d bytes, broken: %v", got.Status, got.Header, len(got.Body), got.IsBroken)
				}
				if want := int64(300_000); !flushes && got.Length != want {
					t.Errorf("length %d", got.Length)
				}
			})
		})
	}
}

// A handler around the adaptor can read and replace the whole body.
func TestBodyForMiddleware(t *testing.T) {
	for _, flushes := range []bool{false, true} {
		middleware := func(h sluice.RequestHandler) sluice.RequestHandler {
			return func(ctx *sluice.RequestCtx) {
				h(ctx)
				ctx.SetBody(bytes.ToUpper(append([]byte("x"), ctx.Response.Body()...)))
			}
		}
		around(t, pieces(100, flushes), middleware, func(t *testing.T, addr string) {
			if got := ask(t, addr, "GET", ""); got.Body != "X"+piecesText(100) {
				t.Errorf("flushes %v: got %d bytes", flushes, len(got.Body))
			}
		})
	}
}

// CompressHandler compresses what the adaptor's handler wrote.
func TestCompressedAnswers(t *testing.T) {
	for _, flushes := range []bool{false, true} {
		around(t, pieces(300, flushes), sluice.CompressHandler, func(t *testing.T, addr string) {
			req, err := http.NewRequest("GET", "http://"+addr, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept-Encoding", "gzip")
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			plain, err := gzip.NewReader(resp.Body)
			if err != nil {
				t.Fatalf("flushes %v: %v, %v", flushes, err, resp.Header)
			}
			if got, err := io.ReadAll(plain); err != nil || string(got) != piecesText(300) {
				t.Errorf("flushes %v: %d bytes, %v", flushes, len(got), err)
			}
		})
	}
}

// logs collects what a server logs.
type logs struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func untouched(h sluice.RequestHandler) sluice.RequestHandler { return h }

// recovering answers 500 if h panics.
func recovering(h sluice.RequestHandler) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		defer func() {
			if v := recover(); v != nil {
				ctx.Error(fmt.Sprintf("recovered %v", v), 500)
			}
		}()
		h(ctx)
	}
}

// reading reads the body, and sets it again.
func reading(h sluice.RequestHandler) sluice.RequestHandler {
	return recovering(func(ctx *sluice.RequestCtx) {
		h(ctx)
		ctx.SetBody(ctx.Response.Body())
	})
}

// A breakOff is a handler that ends with a panic, or with runtime.Goexit.
type breakOff struct {
	name       string
	middleware func(sluice.RequestHandler) sluice.RequestHandler
	flushes    bool
	why        any    // nil: Goexit
	want       string // the beginning of the response; "": no response
	logged     string // "": nothing
}

// A panic after Flush, and ErrAbortHandler at any time, end the connection without
// the end of the body, whatever the handlers around do. Recovering handlers do not
// see ErrAbortHandler.
func TestHandlersThatBreakOff(t *testing.T) {
	for _, c := range []breakOff{
		{"panic", recovering, false, "oh", "HTTP/1.1 500 ", "oh"},
		{"panic, nobody recovers", untouched, false, "oh", "HTTP/1.1 500 ", "oh"},
		{"a slice, nobody recovers", untouched, false, []int{1}, "HTTP/1.1 500 ", "[1]"},
		{"panic after Flush", recovering, true, "oh", "HTTP/1.1 200 ", "oh"},
		{"panic after Flush, the body is read", reading, true, "oh", "", "oh"},
		{"panic after Flush, compressed", sluice.CompressHandler, true, "oh", "HTTP/1.1 200 ", "oh"},
		{"abort", recovering, false, http.ErrAbortHandler, "", ""},
		{"abort after Flush", recovering, true, http.ErrAbortHandler, "HTTP/1.1 200 ", ""},
		{"abort after Flush, the body is read", reading, true, http.ErrAbortHandler, "", ""},
		{"Goexit", recovering, false, nil, "", ""},
		{"Goexit after Flush", recovering, true, nil, "HTTP/1.1 200 ", ""},
	} {
		for _, e := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
			t.Run(fmt.Sprint(c.name, " ", e), func(t *testing.T) { c.check(t, e) })
		}
	}
}

func (c breakOff) run(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "begun")
	if c.flushes {
		flush(w)
		_, _ = io.WriteString(w, "more")
	}
	if c.why == nil {
		runtime.Goexit()
	}
	panic(c.why)
}

func (c breakOff) check(t *testing.T, e sluice.Engine) {
	l := &logs{}
	addr := serve(t, &sluice.Server{
		Handler: c.middleware(fasthttpadaptor.NewFastHTTPHandlerFunc(c.run)), Engine: e, Logger: log.New(l, "", 0),
	})
	conn := dial(t, addr)
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n")
	answer, _ := io.ReadAll(conn) // may be reset
	got := string(answer)
	if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
		t.Errorf("got %q", got)
	}
	if c.flushes && (strings.HasSuffix(got, "0\r\n\r\n") || strings.Contains(got, "recovered")) {
		t.Errorf("the answer looks complete: %q", got)
	}
	text := l.String()
	if strings.HasPrefix(text, "connections are served by engine ") { // this system has no event engine
		_, text, _ = strings.Cut(text, "\n")
	}
	if c.logged == "" && text != "" || !strings.Contains(text, c.logged) {
		t.Errorf("logged %q", text)
	}
	if c.logged != "" && strings.Count(text, "[running]:") != 1 {
		t.Errorf("logged %d stacks: %s", strings.Count(text, "[running]:"), text)
	}
	if c.logged != "" && !strings.Contains(text, "breakOff.run") {
		t.Errorf("no stack of the handler is logged: %s", l)
	}
}

// If a response is not read to its end, its handler gets errors, and its context
// ends.
func TestFlushWithoutAReader(t *testing.T) {
	ended := make(chan error, 1)
	h := func(w http.ResponseWriter, r *http.Request) {
		flush(w)
		<-r.Context().Done()
		_, err := w.Write(make([]byte, 100<<10))
		ended <- errors.Join(err, r.Context().Err())
	}
	replacing := func(h sluice.RequestHandler) sluice.RequestHandler {
		return func(ctx *sluice.RequestCtx) {
			h(ctx)
			ctx.SetBodyString("other")
		}
	}
	around(t, h, replacing, func(t *testing.T, addr string) {
		for range 2 {
			if got := ask(t, addr, "GET", ""); got.Body != "other" {
				t.Errorf("got %q", got.Body)
			}
			if err := <-ended; err == nil {
				t.Error("no errors")
			}
		}
	})
	addr := serve(t, &sluice.Server{Handler: fasthttpadaptor.NewFastHTTPHandlerFunc(h)})
	if got := ask(t, addr, "HEAD", ""); got.IsBroken || got.Status != 200 {
		t.Errorf("HEAD: %+v", got)
	}
	<-ended
	conn := dial(t, addr)
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if _, err := io.ReadFull(conn, make([]byte, 15)); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if err := <-ended; err == nil {
		t.Error("no errors after the client has gone")
	}
}

// A handler can use its request after Flush, even when it has written Content-Length
// bytes.
func TestRequestAfterFlush(t *testing.T) {
	done := make(chan string, 1)
	h := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		_, _ = io.WriteString(w, "hello")
		flush(w)
		body, err := io.ReadAll(r.Body)
		done <- fmt.Sprintln(string(body), err, r.Context().Err(), r.Context().Value("user"))
	}
	setting := func(h sluice.RequestHandler) sluice.RequestHandler {
		return func(ctx *sluice.RequestCtx) {
			ctx.SetUserValue("user", "ann")
			h(ctx)
		}
	}
	around(t, h, setting, func(t *testing.T, addr string) {
		conn := dial(t, addr)
		for range 2 {
			_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbo")
			var head []byte
			for !bytes.HasSuffix(head, []byte("hello")) {
				b := make([]byte, 1)
				if _, err := conn.Read(b); err != nil {
					t.Fatal(err)
				}
				head = append(head, b...)
			}
			_, _ = io.WriteString(conn, "dy")
			if got := <-done; got != "body <nil> <nil> ann\n" {
				t.Errorf("got %q", got)
			}
		}
	})
}

// Memory that collected a large response is not kept for later ones.
func TestMemoryOfLargeAnswers(t *testing.T) {
	var ctx sluice.RequestCtx
	ctx.Init(&sluice.Request{}, nil, nil)
	size := 8 << 20
	h := fasthttpadaptor.NewFastHTTPHandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size)) })
	h(&ctx)
	if got := len(ctx.Response.Body()); got != size {
		t.Fatalf("collected %d bytes", got)
	}
	ctx.Response.Reset()
	ctx.Response.SetBodyString("x")
	if got := cap(ctx.Response.Body()); got > 512<<10 {
		t.Errorf("%d bytes are kept", got)
	}
}

func TestHijackAfterFlush(t *testing.T) {
	failed := make(chan error, 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "x")
		flush(w)
		_, _, err := w.(http.Hijacker).Hijack()
		failed <- err
	})
	onEachEngine(t, h, func(t *testing.T, addr string) {
		if got := ask(t, addr, "GET", ""); got.Body != "x" || got.IsBroken {
			t.Errorf("got %+v", got)
		}
		if err := <-failed; err == nil {
			t.Error("hijacked")
		}
	})
}

// ErrAbortHandler after Hijack also ends the connection, and handlers around do not
// see it.
func TestAbortAfterHijack(t *testing.T) {
	seen := make(chan any, 1)
	watching := func(h sluice.RequestHandler) sluice.RequestHandler {
		return func(ctx *sluice.RequestCtx) {
			defer func() { seen <- recover() }()
			h(ctx)
		}
	}
	h := func(w http.ResponseWriter, _ *http.Request) {
		if _, _, err := w.(http.Hijacker).Hijack(); err != nil {
			t.Error(err)
		}
		panic(http.ErrAbortHandler)
	}
	around(t, h, watching, func(t *testing.T, addr string) {
		conn := dial(t, addr)
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if got, _ := io.ReadAll(conn); len(got) > 0 { // may be reset
			t.Errorf("got %q", got)
		}
		if v := <-seen; v != nil {
			t.Errorf("recovered %v", v)
		}
	})
}

// A handler that calls Flush after its time-out gets errors.
func TestFlushAfterTimeout(t *testing.T) {
	timedOut, ended := make(chan bool), make(chan error, 1)
	h := func(w http.ResponseWriter, r *http.Request) {
		<-timedOut
		flush(w)
		<-r.Context().Done()
		_, err := w.Write(make([]byte, 100<<10))
		ended <- err
	}
	limiting := func(h sluice.RequestHandler) sluice.RequestHandler {
		return sluice.TimeoutHandler(h, time.Millisecond, "too late")
	}
	around(t, h, limiting, func(t *testing.T, addr string) {
		if got := ask(t, addr, "GET", ""); got.Status != 408 || got.Body != "too late" {
			t.Errorf("got %d %q", got.Status, got.Body)
		}
		timedOut <- true
		if err := <-ended; err == nil {
			t.Error("no error")
		}
	})
}
