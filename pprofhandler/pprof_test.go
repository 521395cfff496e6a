package pprofhandler_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/pprofhandler"
)

const patience = 20 * time.Second

// ask has PprofHandler answer a request.
func ask(method, uri, body string) *sluice.Response {
	ctx := new(sluice.RequestCtx)
	ctx.Init(nil, nil, nil)
	ctx.Request.Header.SetMethod(method)
	ctx.Request.SetRequestURI(uri)
	ctx.Request.SetBodyString(body)
	ctx.SetBodyString("before")
	pprofhandler.PprofHandler(ctx)
	return &ctx.Response
}

func TestAnswers(t *testing.T) {
	pprof.NewProfile("test.<own>")
	const text, html, file = "text/plain; charset=utf-8", "text/html; charset=utf-8", "application/octet-stream"
	pc := fmt.Sprintf("%#x", reflect.ValueOf(TestAnswers).Pointer())
	for _, test := range []struct {
		method, path      string
		status            int
		contentType, want string
	}{
		{"GET", "/debug/pprof/", 200, html, "<a href=\"./heap?debug=1\">heap</a>"},
		{"GET", "/debug/pprof", 200, html, "<a href=\"./pprof/heap?debug=1\">heap</a>"},
		{"GET", "/debug/pprof", 200, html, "test.&lt;own&gt;"},
		{"GET", "/debug/pprof", 200, html, "Types of profiles available:"},
		{"GET", "/debug/pprof/cmdline", 200, text, strings.Join(os.Args, "\x00")},
		{"GET", "/debug/pprof/symbol", 200, text, "num_symbols: 1\n"},
		{"GET", "/debug/pprof/symbol?0x0+zz+" + pc, 200, text, pc + " github.com/sluicehttp/sluice/pprofhandler_test.TestAnswers\n"},
		{"GET", "/debug/pprof/goroutine?debug=1", 200, text, "goroutine profile: total "},
		{"GET", "/debug/pprof/goroutine?debug=2", 200, text, "[running]:"},
		{"GET", "/debug/pprof/heap?debug=1&gc=1", 200, text, "# HeapAlloc = "},
		{"GET", "/debug/pprof/heap", 200, file, "\x1f\x8b"},
		{"GET", "/debug/pprof/allocs", 200, file, "\x1f\x8b"},
		{"GET", "/debug/pprof/block", 200, file, "\x1f\x8b"},
		{"GET", "/debug/pprof/mutex", 200, file, "\x1f\x8b"},
		{"GET", "/debug/pprof/threadcreate", 200, file, "\x1f\x8b"},
		{"GET", "/debug/pprof/nope", 404, text, "Unknown profile\n"},
		{"GET", "/debug/pprof/heap/", 404, text, "Unknown profile\n"},
		{"GET", "/other", 404, text, "Unknown profile\n"},
		{"GET", "/debug/pprof/heap?seconds=x", 400, text, "must be a positive integer"},
		{"GET", "/debug/pprof/heap?seconds=0", 400, text, "must be a positive integer"},
		{"GET", "/debug/pprof/heap?seconds=1&debug=1", 400, text, "incompatible"},
		{"GET", "/debug/pprof/test.%3Cown%3E?seconds=1", 400, text, "not supported"},
		{"GET", "/debug/pprof/profile?seconds=0.01", 200, file, "\x1f\x8b"},
		{"GET", "/debug/pprof/trace?seconds=0.01", 200, file, "go 1."},
	} {
		r := ask(test.method, test.path, "")
		if got := string(r.Header.ContentType()); r.StatusCode() != test.status || got != test.contentType {
			t.Errorf("%s: %d %s", test.path, r.StatusCode(), got)
		}
		if !bytes.Contains(r.Body(), []byte(test.want)) {
			t.Errorf("%s: %q is not in %.200q", test.path, test.want, r.Body())
		}
		if got := string(r.Header.Peek("Content-Disposition")); (test.contentType == file) != strings.HasPrefix(got, "attachment; filename=") {
			t.Errorf("%s: Content-Disposition %q", test.path, got)
		}
		if test.contentType != html && string(r.Header.Peek("X-Content-Type-Options")) != "nosniff" {
			t.Errorf("%s: a browser may sniff", test.path)
		}
	}
	if got := string(ask("POST", "/debug/pprof/symbol", pc).Body()); !strings.Contains(got, "TestAnswers") {
		t.Errorf("symbol by POST: %q", got)
	}
}

// TestOnlyOneProfileAtATime: a second one is refused, and the first goes on.
func TestOnlyOneProfileAtATime(t *testing.T) {
	if err := pprof.StartCPUProfile(io.Discard); err != nil {
		t.Fatal(err)
	}
	r := ask("GET", "/debug/pprof/profile?seconds=0.01", "")
	pprof.StopCPUProfile()
	if r.StatusCode() != 500 || !strings.Contains(string(r.Body()), "Could not enable CPU profiling") {
		t.Errorf("%d %q", r.StatusCode(), r.Body())
	}
	if r := ask("GET", "/debug/pprof/profile?seconds=0.01", ""); r.StatusCode() != 200 {
		t.Errorf("then %d %q", r.StatusCode(), r.Body())
	}
}

// TestProfileStopsWithTheClient: what would take ten minutes ends when the
// client is gone, and a new profile can be made.
func TestProfileStopsWithTheClient(t *testing.T) {
	for _, engine := range []sluice.Engine{sluice.EngineAuto, sluice.EnginePerConn} {
		for _, name := range []string{"profile", "trace", "heap"} {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			started, ended := make(chan struct{}), make(chan struct{})
			s := &sluice.Server{Engine: engine, Handler: func(ctx *sluice.RequestCtx) {
				close(started)
				pprofhandler.PprofHandler(ctx)
				close(ended)
			}}
			served := make(chan error, 1)
			go func() { served <- s.Serve(ln) }()
			c, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(c, "GET /debug/pprof/%s?seconds=600 HTTP/1.1\r\nHost: h\r\n\r\n", name)
			<-started
			c.Close()
			select {
			case <-ended:
			case <-time.After(patience):
				t.Fatalf("%v, %s: goes on without the client", engine, name)
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			if err := s.ShutdownWithContext(ctx); err != nil {
				t.Error(err)
			}
			cancel()
			if err := <-served; err != nil {
				t.Error(err)
			}
		}
	}
}

// TestOverTheWire: a server and net/http's client agree about what is sent.
func TestOverTheWire(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sluice.Server{Handler: pprofhandler.PprofHandler}
	go s.Serve(ln)
	defer s.Shutdown()
	resp, err := http.Get("http://" + ln.Addr().String() + "/debug/pprof/goroutine?seconds=1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r, err := gzip.NewReader(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err != nil || !bytes.Contains(content, []byte("goroutine")) {
		t.Errorf("%d bytes, %v", len(content), err)
	}
	if got := resp.Header.Get("Content-Disposition"); got != `attachment; filename="goroutine-delta"` {
		t.Error(got)
	}
}
