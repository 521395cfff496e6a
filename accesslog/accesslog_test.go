package accesslog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/server/requestid"
	"github.com/sluicehttp/sluice/router"
	"github.com/sluicehttp/sluice/sluicetest"
	"github.com/sluicehttp/sluice/sse"
)

// request returns a RequestCtx with the request.
func request(t testing.TB, head string) *sluice.RequestCtx {
	t.Helper()
	var r sluice.Request
	if err := r.Read(bufio.NewReader(strings.NewReader(head))); err != nil {
		t.Fatal(err)
	}
	ctx := &sluice.RequestCtx{}
	ctx.Init(&r, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 5}, nil)
	return ctx
}

// identified stands for middleware.RequestID, which imports this package.
func identified(h sluice.RequestHandler) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		ctx.SetUserValue(requestid.Key{}, string(ctx.Request.Header.Peek("X-Request-Id")))
		h(ctx)
	}
}

const plain = "GET /a%20b?c=%0a HTTP/1.1\r\nHost: example.com\r\nUser-Agent: curl/8 \"x\"\r\nReferer: http://x/\r\n\r\n"

// recording returns a Logger and what it has logged, without the times.
func recording(level slog.Level) (*slog.Logger, *bytes.Buffer) {
	var out bytes.Buffer
	return slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "duration" {
			return slog.Attr{}
		}
		return a
	}})), &out
}

// TestRoutes: a record has the path of the pattern that package router has found.
func TestRoutes(t *testing.T) {
	logger, out := recording(slog.LevelInfo)
	var r router.Router
	r.Handle("GET example.com/{x}", func(*sluice.RequestCtx) {})
	Handler(r.Handler, Options{Logger: logger})(request(t, plain))
	if want := `path=/a%20b query="c=%0a" route=/{x} status=200`; !strings.Contains(out.String(), want) {
		t.Errorf("%s does not have %s", out, want)
	}
}

// TestFlushedBodies: their length is known if the handler has told it.
func TestFlushedBodies(t *testing.T) {
	for length, want := range map[int]int{-1: -1, 5: 5} {
		got := 0
		handler := Handler(func(ctx *sluice.RequestCtx) {
			ctx.Response.Header.SetContentLength(length)
			ctx.WriteString("123")
			ctx.Flush()
			ctx.WriteString("45")
			ctx.Flush()
		}, Options{Write: func(_ *sluice.RequestCtx, e Entry) { got = e.Bytes }})
		resp := sluicetest.Record(t, handler, sluicetest.NewRequest("GET", "/", ""))
		if got != want || string(resp.Body()) != "12345" {
			t.Errorf("length %d: logged %d, want %d; %s", length, got, want, resp)
		}
	}
}

// A request whose body is refused has its method and path, over HTTP/2, too; one whose head is refused
// has none.
func TestRefusedOverHTTP2(t *testing.T) {
	lines := make(chan string, 1)
	server := &sluice.Server{Handler: func(*sluice.RequestCtx) {}, MaxRequestBodySize: 10}
	logger, out := recording(slog.LevelInfo)
	Attach(server, Options{Write: func(ctx *sluice.RequestCtx, e Entry) {
		logger.LogAttrs(t.Context(), slog.LevelInfo, "", attributes(ctx, &e)...)
		lines <- out.String()
		out.Reset()
	}})
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	addr := served(t, server)
	for body, want := range map[string]string{
		"more than ten": "method=POST path=/a query=b status=413 ",
		"ten":           `level=INFO msg="" status=400 `,
	} {
		request, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+addr+"/a?b", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body == "ten" {
			request.Header["Authorization"] = []string{"a", "b"}
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if got := <-lines; !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// How long a stream of events will be is not known when it begins.
func TestEvents(t *testing.T) {
	hub, err := sse.New(sse.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for method, want := range map[string]int{"GET": -1, "HEAD": 0} {
		sizes := make(chan int, 1)
		addr := served(t, &sluice.Server{Handler: Handler(func(ctx *sluice.RequestCtx) {
			if err := hub.Serve(ctx, "news"); err != nil {
				t.Error(err)
			}
		}, Options{Write: func(_ *sluice.RequestCtx, e Entry) { sizes <- e.Bytes }})})
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, method+" / HTTP/1.1\r\nHost: h\r\n\r\n")
		if got := <-sizes; got != want {
			t.Errorf("%s: %d bytes, want %d", method, got, want)
		}
	}
}

func TestRecords(t *testing.T) {
	const about = ` host=example.com user_agent="curl/8 \"x\"" referer=http://x/ protocol=HTTP/1.1`
	for _, c := range []struct {
		name   string
		head   string
		answer sluice.RequestHandler
		want   string
	}{
		{"plain", plain, func(ctx *sluice.RequestCtx) { ctx.SetBodyString("12345") },
			`level=INFO msg=request method=GET path=/a%20b query="c=%0a" status=200 bytes=5 remote=192.0.2.7:5` + about},
		{"failure", plain, func(ctx *sluice.RequestCtx) { ctx.Error("no", 503) },
			`level=ERROR msg=request method=GET path=/a%20b query="c=%0a" status=503 bytes=2 remote=192.0.2.7:5` + about},
		{"panic", plain, func(ctx *sluice.RequestCtx) { panic("on purpose") },
			`level=ERROR msg=request method=GET path=/a%20b query="c=%0a" status=500 remote=192.0.2.7:5` + about},
		{"time-out", plain, func(ctx *sluice.RequestCtx) { ctx.TimeoutErrorWithCode("late", 504) },
			`level=ERROR msg=request method=GET path=/a%20b query="c=%0a" status=504 bytes=4 remote=192.0.2.7:5` + about},
		{"stream", "HEAD / HTTP/1.0\r\n\r\n", func(ctx *sluice.RequestCtx) { ctx.SetBodyString("12345") },
			`level=INFO msg=request method=HEAD path=/ status=200 bytes=0 remote=192.0.2.7:5 protocol=HTTP/1.0`},
		{"head", "GET / HTTP/1.0\r\n\r\n", func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(strings.NewReader("x"), -1) },
			`level=INFO msg=request method=GET path=/ status=200 remote=192.0.2.7:5 protocol=HTTP/1.0`},
		{"reset", "GET / HTTP/1.0\r\n\r\n", func(ctx *sluice.RequestCtx) { ctx.Error("not sent", 205) },
			`level=INFO msg=request method=GET path=/ status=205 bytes=0 remote=192.0.2.7:5 protocol=HTTP/1.0`},
		{"late head", "HEAD / HTTP/1.0\r\n\r\n", func(ctx *sluice.RequestCtx) { ctx.TimeoutErrorWithCode("late", 404) },
			`level=INFO msg=request method=HEAD path=/ status=404 bytes=0 remote=192.0.2.7:5 protocol=HTTP/1.0`},
		{"silent", "GET / HTTP/1.0\r\n\r\n", func(ctx *sluice.RequestCtx) { ctx.HijackSetNoResponse(true); ctx.Hijack(func(net.Conn) {}) },
			`level=INFO msg=request method=GET path=/ status=200 remote=192.0.2.7:5 protocol=HTTP/1.0`},
		{"id", "GET / HTTP/1.0\r\nX-Request-Id: id7\r\n\r\n", nil,
			`level=INFO msg=request method=GET path=/ status=204 bytes=0 remote=192.0.2.7:5 protocol=HTTP/1.0 request_id=id7`},
	} {
		t.Run(c.name, func(t *testing.T) {
			logger, out := recording(slog.LevelInfo)
			handler := Handler(c.answer, Options{Logger: logger})
			if c.answer == nil {
				handler = identified(Handler(func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(204) }, Options{Logger: logger}))
			}
			func() {
				defer func() {
					if v := recover(); (v != nil) != (c.name == "panic") {
						t.Errorf("recovered %v", v)
					}
				}()
				handler(request(t, c.head))
			}()
			if got := strings.TrimSuffix(out.String(), "\n"); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// What is logged of requests of each kind.
func TestChoice(t *testing.T) {
	// Of 100 quick requests, 20 slow ones and 10 failures.
	for _, c := range []struct {
		every, quick, slow, failed int
		threshold                  time.Duration
	}{
		{0, 100, 0, 10, 0},
		{1, 100, 20, 10, time.Millisecond},
		{10, 10, 20, 10, time.Millisecond},
		{-1, 0, 20, 10, time.Millisecond},
		{-1, 0, 0, 10, 0},
	} {
		var quick, slow, failed int
		l := &log{Options: Options{Every: c.every, Slow: c.threshold, Write: func(_ *sluice.RequestCtx, e Entry) {
			switch {
			case e.Status == 500:
				failed++
			case c.threshold > 0 && e.Duration >= c.threshold:
				slow++
			case e.Duration < time.Minute:
				quick++
			}
		}}}
		ctx := request(t, plain)
		now := time.Now()
		for range 100 {
			l.log(ctx, now.Add(time.Hour), Entry{Status: 200}) // the clock cannot make it slow
		}
		for range 20 {
			if c.threshold > 0 {
				l.log(ctx, now.Add(-time.Hour), Entry{Status: 404})
			}
		}
		for range 10 {
			l.log(ctx, now, Entry{Status: 500})
		}
		if quick != c.quick || slow != c.slow || failed != c.failed {
			t.Errorf("%+v: %d, %d and %d are logged", c, quick, slow, failed)
		}
	}
}

// What is not logged costs no allocation.
func TestOffDoesNotAllocate(t *testing.T) {
	ctx := request(t, plain)
	for name, o := range map[string]Options{
		"level": {Logger: slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError}))}, //nolint:sloglint // its level is the matter
		"turn":  {Every: -1},
		"write": {Write: func(*sluice.RequestCtx, Entry) {}},
	} {
		handler := Handler(func(*sluice.RequestCtx) {}, o)
		if n := testing.AllocsPerRun(100, func() { handler(ctx) }); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// served serves with options and returns the address.
func served(t *testing.T, server *sluice.Server) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server.Logger = quiet{}
	go server.Serve(ln)
	t.Cleanup(func() { server.Shutdown() })
	return ln.Addr().String()
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// ask sends input and returns what comes until the end.
func ask(t *testing.T, addr, input string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, input); err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(conn)
	return string(answer)
}

// Requests that the server refuses are logged, too, and are answered as without a log.
func TestAttach(t *testing.T) {
	for _, own := range []sluice.RequestHandler{nil, func(ctx *sluice.RequestCtx) { ctx.Error("mine", 418) }} {
		var mu sync.Mutex
		var out bytes.Buffer
		server := &sluice.Server{Handler: func(*sluice.RequestCtx) {}, MaxRequestBodySize: 10}
		want := `{"method":"POST","path":"/b","status":413,"bytes":`
		if own != nil {
			server.ErrorHandler = func(ctx *sluice.RequestCtx, _ error) { own(ctx) }
			want = `{"method":"POST","path":"/b","status":418,"bytes":4,`
		}
		Attach(server, Options{Logger: slog.New(slog.NewJSONHandler(lockedWriter{&mu, &out}, &slog.HandlerOptions{ReplaceAttr: onlyOurs}))})
		addr := served(t, server)
		ask(t, addr, "GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		ask(t, addr, "POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n")
		if answer := ask(t, addr, "GET /\x01\r\n\r\n"); own == nil && !strings.HasPrefix(answer, "HTTP/1.1 400 ") {
			t.Errorf("%q", answer)
		}
		mu.Lock()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		mu.Unlock()
		if len(lines) != 3 || !strings.HasPrefix(lines[0], `{"method":"GET","path":"/a","status":200,"bytes":0,`) || !strings.HasPrefix(lines[1], want) ||
			strings.Contains(lines[2], "path") || !strings.Contains(lines[2], `"error":`) {
			t.Errorf("%q", lines)
		}
		for _, line := range lines {
			if !json.Valid([]byte(line)) {
				t.Errorf("%q", line)
			}
		}
	}
}

// onlyOurs removes what slog adds, and what differs.
func onlyOurs(_ []string, a slog.Attr) slog.Attr {
	switch a.Key {
	case slog.TimeKey, slog.LevelKey, slog.MessageKey, "duration":
		return slog.Attr{}
	}
	return a
}

// A lockedWriter writes to out with mu locked.
type lockedWriter struct {
	mu  *sync.Mutex
	out io.Writer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

// A handler that goes on after its time-out owns the RequestCtx: logging does not interfere.
func TestLateHandlerGoesOn(t *testing.T) {
	var mu sync.Mutex
	var out bytes.Buffer
	started, logged, ended := make(chan bool), make(chan bool), make(chan bool)
	late := sluice.TimeoutHandler(func(ctx *sluice.RequestCtx) {
		defer close(ended)
		close(started)
		for i := 0; ; i++ {
			ctx.SetUserValue(fmt.Sprint("key", i%10), i)
			ctx.Response.Header.Set("X-Own", fmt.Sprint(i))
			ctx.Path()
			select {
			case <-logged:
				return
			default:
			}
		}
	}, 10*time.Millisecond, "late")
	server := &sluice.Server{Handler: identified(Handler(late, Options{Logger: slog.New(slog.NewTextHandler(lockedWriter{&mu, &out}, nil))}))}
	addr := served(t, server)
	answer := ask(t, addr, "GET /late HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-Request-Id: r1\r\n\r\n")
	<-started
	close(logged)
	<-ended
	if !strings.HasPrefix(answer, "HTTP/1.1 408 ") {
		t.Errorf("%q", answer)
	}
	mu.Lock()
	defer mu.Unlock()
	if text := out.String(); !strings.Contains(text, "path=/late status=408 bytes=4") || !strings.Contains(text, "request_id=r1") {
		t.Error(text)
	}
}

func BenchmarkHandler(b *testing.B) {
	ctx := request(b, plain)
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelError} {
		b.Run(level.String(), func(b *testing.B) {
			records := slog.NewJSONHandler(io.Discard, &slog.HandlerOptions{Level: level}) //nolint:sloglint // writing is measured
			handler := Handler(func(*sluice.RequestCtx) {}, Options{Logger: slog.New(records)})
			b.ReportAllocs()
			for b.Loop() {
				handler(ctx)
			}
		})
	}
}

// The spelling of a name does not matter: over HTTP/2 all are in lower case.
func TestNamesInAnySpelling(t *testing.T) {
	logger, out := recording(slog.LevelInfo)
	ctx := request(t, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	ctx.Request.Header.DisableNormalizing()
	ctx.Request.Header.Set("referer", "https://a.example/")
	Handler(func(*sluice.RequestCtx) {}, Options{Logger: logger})(ctx)
	if !strings.Contains(out.String(), "referer=https://a.example/") {
		t.Error(out)
	}
}
