package server_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// answering is a handler that gives the same answer to everything.
func answering(body string) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) { ctx.WriteString(body) }
}

// long: a table of cases
func TestAnswerOnTheWire(t *testing.T) {
	handlers := map[string]sluice.RequestHandler{
		"/plain":    answering("hello"),
		"/empty":    func(*sluice.RequestCtx) {},
		"/204":      func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(204); ctx.SetBodyString("not allowed") },
		"/304":      func(ctx *sluice.RequestCtx) { ctx.SetBodyString("not allowed"); ctx.SetStatusCode(304) },
		"/205":      func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(205); ctx.SetBodyString("not allowed") },
		"/modified": func(ctx *sluice.RequestCtx) { ctx.NotModified() },
		"/404":      func(ctx *sluice.RequestCtx) { ctx.SetBodyString("lost"); ctx.NotFound() },
		"/error":    func(ctx *sluice.RequestCtx) { ctx.Error("why", 409) },
		"/status": func(ctx *sluice.RequestCtx) {
			ctx.Response.Header.SetStatusMessage([]byte("Ver\r\ny"))
			ctx.SetStatusCode(299)
		},
		"/close": func(ctx *sluice.RequestCtx) { ctx.SetConnectionClose(); ctx.WriteString("hello") },
		"/skip":  func(ctx *sluice.RequestCtx) { ctx.WriteString("hello"); ctx.Response.SkipBody = true },
		"/fields": func(ctx *sluice.RequestCtx) {
			ctx.SetContentType("a/b")
			ctx.Response.Header.Set("x-a", "1\r\nInjected: yes\x00")
			ctx.Response.Header.SetServer("me")
			ctx.Response.Header.Set("Set-Cookie", "a=b")
			ctx.WriteString("x")
		},
		"/trailer": func(ctx *sluice.RequestCtx) {
			if err := ctx.Response.Header.SetTrailer("X-Sum"); err != nil {
				panic(err)
			}
			ctx.Response.Header.Set("X-Sum", "42")
			ctx.WriteString("hello")
		},
		"/zero":   func(ctx *sluice.RequestCtx) { ctx.Response.Header.SetContentLength(0) },
		"/length": func(ctx *sluice.RequestCtx) { ctx.Response.Header.SetContentLength(123) },
		"/unsent": func(ctx *sluice.RequestCtx) { ctx.Response.Header.SetContentLength(123); ctx.SetStatusCode(304) },
		"/void":   func(ctx *sluice.RequestCtx) { ctx.Response.Header.SetContentLength(0); ctx.SetStatusCode(304) },
	}
	const server = "Server: sluice\r\n"
	const plain = "Content-Type: text/plain; charset=utf-8\r\n"
	tests := []struct{ request, want string }{
		{harness.Get("/plain"), harness.TextAnswer(200, "hello")},
		{harness.Request("HEAD /plain HTTP/1.1"), strings.TrimSuffix(harness.TextAnswer(200, "hello"), "hello")},
		{harness.Get("/empty"), harness.TextAnswer(200, "")},
		{harness.Get("/204"), "HTTP/1.1 204 No Content\r\n" + server + "\r\n"},
		{harness.Get("/304"), "HTTP/1.1 304 Not Modified\r\n" + server + "\r\n"},
		{harness.Get("/205"), "HTTP/1.1 205 Reset Content\r\n" + server + "Content-Length: 0\r\n\r\n"},
		{harness.Get("/modified"), "HTTP/1.1 304 Not Modified\r\n" + server + "\r\n"},
		{harness.Get("/unsent"), "HTTP/1.1 304 Not Modified\r\n" + server + "Content-Length: 123\r\n\r\n"},
		{harness.Get("/void"), "HTTP/1.1 304 Not Modified\r\n" + server + "\r\n"},
		{harness.Get("/404"), harness.TextAnswer(404, "404 Page not found")},
		{harness.Get("/error"), harness.TextAnswer(409, "why")},
		{harness.Get("/status"), "HTTP/1.1 299 Ver  y\r\n" + server + "Content-Length: 0\r\n\r\n"},
		{harness.Get("/skip"), "HTTP/1.1 200 OK\r\n" + server + "Content-Length: 0\r\n\r\n"},
		{harness.Get("/fields"), "HTTP/1.1 200 OK\r\nServer: me\r\nContent-Type: a/b\r\nContent-Length: 1\r\n" +
			"X-A: 1  Injected: yes \r\nSet-Cookie: a=b\r\n\r\nx"},
		{harness.Get("/trailer"), "HTTP/1.1 200 OK\r\n" + server + plain + "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n" +
			"5\r\nhello\r\n0\r\nX-Sum: 42\r\n\r\n"},
		{"GET /trailer HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "HTTP/1.1 200 OK\r\n" + server + plain +
			"Content-Length: 5\r\nTrailer: X-Sum\r\nConnection: keep-alive\r\n\r\nhello"},
		{harness.Request("HEAD /empty HTTP/1.1"), "HTTP/1.1 200 OK\r\n" + server + "\r\n"},
		{harness.Request("HEAD /zero HTTP/1.1"), "HTTP/1.1 200 OK\r\n" + server + "Content-Length: 0\r\n\r\n"},
		{harness.Request("HEAD /length HTTP/1.1"), "HTTP/1.1 200 OK\r\n" + server + plain + "Content-Length: 123\r\n\r\n"},
		{harness.Get("/length"), harness.TextAnswer(200, "")},
		{"GET /plain HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", harness.TextAnswer(200, "hello", "Connection: keep-alive")},
	}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { handlers[string(ctx.Path())](ctx) }})
		all, want := "", ""
		for _, test := range tests {
			t.Run(strings.Fields(test.request)[1], func(t *testing.T) {
				got := r.Exchange(test.request + harness.Closing("/plain"))
				if want := test.want + harness.TextAnswer(200, "hello", "Connection: close"); got != want {
					t.Errorf("%q answered\n%q, want\n%q", test.request, got, want)
				}
			})
			all, want = all+test.request, want+test.want
		}
		got := r.Exchange(all + harness.Get("/close") + harness.Get("/plain"))
		if want += harness.TextAnswer(200, "hello", "Connection: close"); got != want {
			t.Errorf("pipelined:\n%q, want\n%q", got, want)
		}
	})
}

// TestConnectionPersistence: who closes, and what is said about it.
func TestConnectionPersistence(t *testing.T) {
	const kept, closed = true, false
	tests := []struct {
		name, request, connection string
		persists                  bool
		change                    func(*sluice.Server)
	}{
		{"1.1", harness.Get("/"), "", kept, nil},
		{"1.1 close", harness.Closing("/"), "close", closed, nil},
		{"1.1 close in a list", harness.Request("GET / HTTP/1.1", "Connection: keep-alive, Close"), "close", closed, nil},
		{"1.1 close in a second field", harness.Request("GET / HTTP/1.1", "Connection: keep-alive", "Connection: close"), "close", closed, nil},
		{"1.0", "GET / HTTP/1.0\r\n\r\n", "close", closed, nil},
		{"1.0 keep-alive", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "keep-alive", kept, nil},
		{"1.0 both", "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", "close", closed, nil},
		{"disabled", harness.Get("/"), "close", closed, func(s *sluice.Server) { s.DisableKeepalive = true }},
		{"one request only", harness.Get("/"), "close", closed, func(s *sluice.Server) { s.MaxRequestsPerConn = 1 }},
		{"old connection", harness.Get("/"), "close", closed, func(s *sluice.Server) { s.MaxKeepaliveDuration = 1 }},
		{"young connection", harness.Get("/"), "", kept, func(s *sluice.Server) { s.MaxKeepaliveDuration = time.Hour }},
	}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				s := &sluice.Server{Handler: answering("x")}
				if test.change != nil {
					test.change(s)
				}
				p := harness.Serve(t, n, s).Dial()
				p.Send(test.request)
				a := p.Answer("GET") // net/http hides a Connection that says close
				if got := a.Header.Get("Connection"); a.Close == test.persists || test.persists && got != test.connection {
					t.Errorf("answer says Connection: %q, close is %v, want %q", got, a.Close, test.connection)
				}
				if !test.persists {
					p.ExpectEnd()
					return
				}
				if p.Get("/"); test.connection == "" {
					p.Send(harness.Closing("/"))
					p.Answer("GET")
					p.ExpectEnd()
				}
			})
		}
	})
}

func TestMaxRequestsPerConn(t *testing.T) {
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{MaxRequestsPerConn: 3, Handler: func(ctx *sluice.RequestCtx) {
		fmt.Fprintf(ctx, "%d", ctx.ConnRequestNum())
	}})
	_, bodies := statusesOf(t, r.Exchange(strings.Repeat(harness.Get("/"), 10)))
	if !slices.Equal(bodies, []string{"1", "2", "3"}) {
		t.Errorf("answers are %q", bodies)
	}
}

func TestServerDefaultFields(t *testing.T) {
	tests := []struct {
		name    string
		change  func(*sluice.Server)
		present map[string]string // "": absent
	}{
		{"default", func(*sluice.Server) {}, map[string]string{"Server": "sluice", "Date": "*", "Content-Type": "text/plain; charset=utf-8"}},
		{"name", func(s *sluice.Server) { s.Name = "a\r\nb" }, map[string]string{"Server": "a  b"}},
		{"no server", func(s *sluice.Server) { s.NoDefaultServerHeader = true }, map[string]string{"Server": "", "Date": "*"}},
		{"name all the same", func(s *sluice.Server) { s.NoDefaultServerHeader = true; s.Name = "n" }, map[string]string{"Server": "n"}},
		{"no date", func(s *sluice.Server) { s.NoDefaultDate = true }, map[string]string{"Date": "", "Server": "sluice"}},
		{"no type", func(s *sluice.Server) { s.NoDefaultContentType = true }, map[string]string{"Content-Type": ""}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := &sluice.Server{Handler: answering("x")}
			test.change(s)
			a := harness.Serve(t, harness.InMemory(), s).Dial().Get("/")
			for name, want := range test.present {
				got := a.Header.Values(name)
				switch {
				case want == "" && got != nil,
					want == "*" && (len(got) != 1 || got[0] == ""),
					want != "" && want != "*" && (len(got) != 1 || got[0] != want):
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
		})
	}
}

// TestResponseOfAnotherServer: a handler may assign the Response of another server's request. The
// next response has the name of its own server.
func TestResponseOfAnotherServer(t *testing.T) {
	var other *sluice.Response
	r := harness.Serve(t, harness.InMemory(), &sluice.Server{Name: "first", Handler: func(ctx *sluice.RequestCtx) {
		if string(ctx.Path()) == "/other" { // an assignment, which go vet would refuse
			reflect.ValueOf(&ctx.Response).Elem().Set(reflect.ValueOf(other).Elem())
		}
	}})
	harness.Serve(t, harness.InMemory(), &sluice.Server{Name: "later", Handler: func(ctx *sluice.RequestCtx) {
		other = &ctx.Response
		p := r.Dial()
		p.Get("/other")
		if got := p.Get("/").Header.Get("Server"); got != "first" {
			t.Errorf("Server is %q", got)
		}
	}}).Dial().Get("/")
	if other == nil {
		t.Error("the other handler was not called")
	}
}

// TestHandlerSetsFields: what the handler sets wins over what the server says by
// default, but for Date, which is that of a response that was read.
func TestHandlerSetsFields(t *testing.T) {
	r := harness.Serve(t, harness.InMemory(), &sluice.Server{NoDefaultDate: true, NoDefaultServerHeader: true, NoDefaultContentType: true,
		Handler: func(ctx *sluice.RequestCtx) {
			head := "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"
			if err := ctx.Response.Header.Read(bufio.NewReader(strings.NewReader(head))); err != nil {
				t.Error(err)
			}
			ctx.Response.Header.Set("Date", "Mon, 07 Nov 1994 08:49:37 GMT")
			ctx.Response.Header.Set("Server", "mine")
			ctx.Response.Header.Set("Content-Type", "a/b")
		}})
	a := r.Dial().Get("/")
	for name, want := range map[string]string{"Date": "Sun, 06 Nov 1994 08:49:37 GMT", "Server": "mine", "Content-Type": "a/b"} {
		if got := a.Header.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q once", name, got, want)
		}
	}
}

func TestGetOnly(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{GetOnly: true, Handler: answering("x")})
		p := r.Dial()
		p.Send(harness.Get("/") + harness.Request("HEAD / HTTP/1.1") + harness.Post("/", "body"))
		p.Answer("GET")
		p.Answer("HEAD")
		a := p.Answer("POST")
		if a.StatusCode != 405 || a.Header.Get("Allow") != "GET, HEAD" || !a.Close {
			t.Errorf("POST is answered %d, %v", a.StatusCode, a.Header)
		}
		p.ExpectEnd()
	})
}

// TestNamesAsReceived: with DisableHeaderNamesNormalizing nothing respells
// names, in either direction, and one connection after the other.
func TestNamesAsReceived(t *testing.T) {
	handler := func(ctx *sluice.RequestCtx) {
		var names []string
		for name := range ctx.Request.Header.All() {
			if n := string(name); strings.EqualFold(n, "x-one") {
				names = append(names, n)
			}
		}
		ctx.Response.Header.Set("x-ANSWER", "1")
		fmt.Fprint(ctx, names)
	}
	for _, keep := range []bool{true, false, true} {
		r := harness.Serve(t, harness.InMemory(), &sluice.Server{DisableHeaderNamesNormalizing: keep, Handler: handler})
		got := r.Exchange(harness.Request("GET / HTTP/1.1", "x-ONE: 1", "Connection: close"))
		want, body := "\r\nX-Answer: 1\r\n", "[X-One]"
		if keep {
			want, body = "\r\nx-ANSWER: 1\r\n", "[x-ONE]"
		}
		if !strings.Contains(got, want) || !strings.HasSuffix(got, body) {
			t.Errorf("keep=%v: %q", keep, got)
		}
		r.Stop()
	}
}

// TestRefusals is what is answered to requests that no handler sees, and what
// ErrorHandler is told.
func TestRefusals(t *testing.T) {
	var small *sluice.ErrSmallBuffer
	long := strings.Repeat("a", 9000)
	tests := []struct {
		name, request string
		status        int
		says          string           // in the default text
		is            func(error) bool // nil: anything
	}{
		{"malformed", "G@T / HTTP/1.1\r\nHost: h\r\n\r\n", 400, "method is not a token", nil},
		{"no request line", "\x00\x01\x02\r\n\r\n", 400, "method is not a token", nil},
		{"long line", harness.Get("/" + long), 414, "request line is too long", func(err error) bool { return errors.As(err, &small) }},
		{"long field", harness.Request("GET / HTTP/1.1", "A: "+strings.Repeat("a", 70000)), 431, "head is too large", func(err error) bool { return errors.As(err, &small) }},
		{"many fields", harness.Request("GET / HTTP/1.1", slices.Repeat([]string{"A: b"}, 2000)...), 431, "too many fields", func(err error) bool { return errors.As(err, &small) }},
		{"announced too much", harness.Request("POST / HTTP/1.1", "Content-Length: 5000000"), 413, "limit of 4194304 bytes", func(err error) bool { return errors.Is(err, sluice.ErrBodyTooLarge) }},
		{"length over all limits", harness.Request("POST / HTTP/1.1", "Content-Length: 99999999999999999999"), 400, "invalid Content-Length", nil},
		{"expectation", harness.Request("POST / HTTP/1.1", "Expect: 200-ok", "Content-Length: 3"), 417, "unsupported expectation", nil},
		{"http 2", harness.Request("GET / HTTP/2.0"), 505, "version is not supported", nil},
		{"coding", harness.Request("POST / HTTP/1.1", "Transfer-Encoding: gzip, chunked"), 501, "unsupported Transfer-Encoding", nil},
		{"old chunked", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "in an HTTP/1.0 message", nil},
	}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				r := harness.Serve(t, n, &sluice.Server{Handler: answering("handled")})
				statuses, bodies := statusesOf(t, r.Exchange(test.request+harness.Get("/")))
				if !slices.Equal(statuses, []int{test.status}) || strings.Contains(bodies[0], "handled") {
					t.Fatalf("default: %v %q, want %d", statuses, bodies, test.status)
				}
				if !strings.Contains(bodies[0], test.says) {
					t.Errorf("the text is %q, which does not say %q", bodies[0], test.says)
				}
				if strings.HasPrefix(bodies[0], "sluice") {
					t.Errorf("the text begins with the library's name: %q", bodies[0])
				}
				if log := r.Log.String(); log != "" {
					t.Errorf("logged without being asked to: %s", log)
				}

				var got error
				r = harness.Serve(t, n, &sluice.Server{Handler: answering("handled"), LogAllErrors: true,
					ErrorHandler: func(ctx *sluice.RequestCtx, err error) {
						got = err
						if ctx.Response.StatusCode() != test.status {
							t.Errorf("ErrorHandler finds status %d", ctx.Response.StatusCode())
						}
						ctx.SetStatusCode(499)
						ctx.SetBodyString("own words")
					}})
				raw := r.Exchange(test.request + harness.Get("/"))
				if !strings.HasPrefix(raw, "HTTP/1.1 499 ") || !strings.HasSuffix(raw, "\r\nConnection: close\r\n\r\nown words") {
					t.Errorf("ErrorHandler: %q", raw)
				}
				if got == nil || test.is != nil && !test.is(got) {
					t.Errorf("ErrorHandler got %T %v", got, got)
				}
				if !strings.Contains(r.Log.String(), "error when serving") {
					t.Errorf("logged %q", r.Log)
				}
			})
		}
	})
}

// TestErrorHandlerPanics: that is a 500 like any other panic.
func TestErrorHandlerPanics(t *testing.T) {
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{Handler: answering("x"), ErrorHandler: func(*sluice.RequestCtx, error) { panic("oops") }})
	if statuses, _ := statusesOf(t, r.Exchange("nonsense\r\n\r\n")); !slices.Equal(statuses, []int{500}) {
		t.Errorf("answered %v", statuses)
	}
	if !strings.Contains(r.Log.String(), "oops") {
		t.Errorf("logged %q", r.Log)
	}
}

func TestHandlerPanics(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			ctx.SetBodyString("half an answer")
			ctx.Response.Header.Set("X-Half", "1")
			switch string(ctx.Path()) {
			case "/panic":
				panic("the reason")
			case "/nil":
				var m map[string]int
				m["a"] = 1 //nolint:staticcheck // it must panic
			case "/abort":
				panic(sluice.ErrAbortHandler)
			case "/hijack":
				ctx.Hijack(func(c net.Conn) { io.WriteString(c, "hijacked") })
				panic("the reason")
			case "/timeout":
				ctx.TimeoutError("late")
				panic("the reason")
			case "/flushed":
				if err := ctx.Flush(); err != nil {
					t.Error(err)
				}
				panic("the reason")
			}
		}})
		for _, path := range []string{"/panic", "/nil", "/hijack", "/timeout"} {
			got := r.Exchange(harness.Get(path) + harness.Get("/"))
			if want := harness.TextAnswer(500, "Internal Server Error", "Connection: close"); got != want {
				t.Errorf("%s: %q, want %q", path, got, want)
			}
		}
		if log := r.Log.String(); strings.Count(log, "the reason") != 3 || !strings.Contains(log, "nil map") || !strings.Contains(log, "respond_test.go") {
			t.Errorf("log has no panic with its stack: %s", log)
		}
		before := r.Log.String()
		if got := r.Exchange(harness.Get("/abort") + harness.Get("/")); got != "" {
			t.Errorf("/abort: %q", got)
		}
		if after := r.Log.String(); after != before {
			t.Errorf("/abort is logged: %s", after[len(before):])
		}
		if got := r.Exchange(harness.Get("/flushed") + harness.Get("/")); strings.HasSuffix(got, "0\r\n\r\n") || !strings.Contains(got, "half an answer") {
			t.Errorf("/flushed must be seen to be incomplete: %q", got)
		}
		if a := r.Dial().Get("/"); a.Body != "half an answer" {
			t.Errorf("the server answers %q after panics", a.Body)
		}
	})
}

func TestConnStates(t *testing.T) {
	tests := []struct {
		name, script, want string
	}{
		{"nothing", "", "new closed"},
		{"one", harness.Closing("/"), "new active closed"},
		{"two", harness.Get("/") + harness.Closing("/"), "new active idle active closed"},
		{"malformed", "x\r\n\r\n", "new active closed"},
		{"hijacked", harness.Get("/hijack"), "new active hijacked"},
	}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				var mu sync.Mutex
				var states []string
				var conns []net.Conn
				r := harness.Serve(t, n, &sluice.Server{
					ConnState: func(c net.Conn, state sluice.ConnState) {
						mu.Lock()
						defer mu.Unlock()
						states, conns = append(states, state.String()), append(conns, c)
					},
					Handler: func(ctx *sluice.RequestCtx) {
						if string(ctx.Path()) == "/hijack" {
							ctx.Hijack(func(net.Conn) {})
						}
					}})
				p := r.Dial()
				p.Send(test.script)
				if test.script == "" {
					p.Close()
				}
				p.Rest()
				p.Close()
				harness.Eventually(t, test.want, func() bool {
					mu.Lock()
					defer mu.Unlock()
					return strings.Join(states, " ") == test.want
				})
				mu.Lock()
				defer mu.Unlock()
				for _, c := range conns {
					if c == nil || c != conns[0] {
						t.Errorf("connections are %v", conns)
					}
				}
			})
		}
	})
	if sluice.ConnState(99).String() != "" {
		t.Error("an unknown state has a name")
	}
}

// TestConnStateIdle: a connection is idle between requests, also without
// pipelining.
func TestConnStateIdle(t *testing.T) {
	states := make(chan sluice.ConnState, 16)
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{Handler: answering("x"), ConnState: func(_ net.Conn, s sluice.ConnState) { states <- s }})
	p := r.Dial()
	want := func(wanted ...sluice.ConnState) {
		t.Helper()
		for _, w := range wanted {
			if got := harness.Receive(t, states); got != w {
				t.Fatalf("state %v, want %v", got, w)
			}
		}
	}
	want(sluice.StateNew)
	p.Get("/")
	want(sluice.StateActive, sluice.StateIdle)
	p.Get("/")
	want(sluice.StateActive, sluice.StateIdle)
	p.Close()
	want(sluice.StateClosed)
}

func TestFormValueFunc(t *testing.T) {
	handler := func(ctx *sluice.RequestCtx) { ctx.Write(ctx.FormValue("k")) }
	form := harness.Post("/?k=query", "k=body", "Content-Type: application/x-www-form-urlencoded")
	own := func(_ *sluice.RequestCtx, key string) []byte { return []byte("own " + key) }
	for _, test := range []struct {
		f           sluice.FormValueFunc
		form, query string // the value with a form, and without
	}{{nil, "query", "query"}, {sluice.NetHttpFormValueFunc, "body", "query"}, {own, "own k", "own k"}} {
		p := harness.Serve(t, harness.InMemory(), &sluice.Server{Handler: handler, FormValueFunc: test.f}).Dial()
		p.Send(form)
		if got := p.Answer("POST").Body; got != test.form {
			t.Errorf("FormValue is %q, want %q", got, test.form)
		}
		if got := p.Get("/?k=query").Body; got != test.query {
			t.Errorf("without a form, FormValue is %q, want %q", got, test.query)
		}
	}
}

// TestPipelining: answers come in order, with their bodies, however many
// requests come at once.
func TestPipelining(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			fmt.Fprintf(ctx, "%s %s", ctx.Path(), ctx.PostBody())
		}})
		var script strings.Builder
		var want []string
		for i := range 500 {
			path, body := fmt.Sprintf("/%d", i), strings.Repeat("x", i*7%300)
			if i%3 == 0 {
				script.WriteString(harness.Request("POST "+path+" HTTP/1.1", "Transfer-Encoding: chunked"))
				if body != "" {
					fmt.Fprintf(&script, "%x\r\n%s\r\n", len(body), body)
				}
				script.WriteString("0\r\n\r\n")
			} else {
				script.WriteString(harness.Post(path, body))
			}
			want = append(want, path+" "+body)
		}
		script.WriteString(harness.Closing("/end"))
		statuses, bodies := statusesOf(t, r.Exchange(script.String()))
		if want = append(want, "/end "); !slices.Equal(bodies, want) {
			t.Errorf("%d answers, want %d in order", len(statuses), len(want))
		}
	})
}

// TestLargeAnswers: bodies over every buffer size arrive whole, and in order
// with small ones.
func TestLargeAnswers(t *testing.T) {
	sizes := []int{0, 1, 4095, 4096, 4097, 16 << 10, 32<<10 + 1, 1 << 20, 10, 3 << 20}
	for _, writeBuffer := range []int{0, 512} {
		harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
			r := harness.Serve(t, n, &sluice.Server{WriteBufferSize: writeBuffer, Handler: func(ctx *sluice.RequestCtx) {
				n, _ := ctx.QueryArgs().GetUint("n")
				ctx.SetBody(bytes.Repeat([]byte{byte('a' + n%26)}, n))
			}})
			script := ""
			for _, n := range sizes {
				script += harness.Get(fmt.Sprintf("/?n=%d", n))
			}
			_, bodies := statusesOf(t, r.Exchange(script+harness.Closing("/?n=5")))
			for i, n := range append(sizes, 5) {
				if len(bodies) <= i || bodies[i] != strings.Repeat(string(rune('a'+n%26)), n) {
					t.Fatalf("answer %d of %d is not %d bytes", i, len(bodies), n)
				}
			}
		})
	}
}

// TestDribble sends a script byte by byte over real connections; see also
// TestAnswersDoNotDependOnSegments.
func TestDribble(t *testing.T) {
	script := harness.Get("/a") + harness.Post("/b", "hello") + harness.Request("POST /c HTTP/1.1", "Transfer-Encoding: chunked") + "5\r\nhello\r\n0\r\n\r\n" + harness.Closing("/d")
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { fmt.Fprintf(ctx, "%s %s", ctx.Path(), ctx.PostBody()) }})
		want := r.Exchange(script)
		p := r.Dial()
		go func() {
			for i := range script {
				if _, err := io.WriteString(p.Conn, script[i:i+1]); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		if got := harness.WithoutDates(p.Rest()); got != want {
			t.Errorf("byte by byte: %q, want %q", got, want)
		}
	})
}

// TestHalfClose: who sends a FIN still gets the answers to what came before.
func TestHalfClose(t *testing.T) {
	tests := []struct {
		name, script string
		statuses     []int
	}{
		{"nothing", "", nil},
		{"empty line", "\r\n", nil},
		{"requests", harness.Get("/") + harness.Get("/"), []int{200, 200}},
		{"partial head", harness.Get("/") + "GET /", []int{200, 400}},
		{"partial body", harness.Get("/") + "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab", []int{200, 400}},
		{"slow handler", harness.Get("/slow"), []int{200}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			finSent := make(chan struct{})
			r := harness.Serve(t, harness.OverTCP(), &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
				if string(ctx.Path()) == "/slow" {
					<-finSent
				}
				ctx.WriteString("x")
			}})
			p := r.Dial()
			p.Send(test.script)
			if err := p.Conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			close(finSent)
			if statuses, _ := statusesOf(t, p.Rest()); !slices.Equal(statuses, test.statuses) {
				t.Errorf("answered %v, want %v", statuses, test.statuses)
			}
		})
	}
}

// TestWriteDeadlineFlushes: a response whose handler has set a deadline for
// writing it is written before the next pipelined request is handled.
func TestWriteDeadlineFlushes(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		for name, first := range map[string]sluice.RequestHandler{
			"buffered": func(ctx *sluice.RequestCtx) { ctx.SetBodyString("first") },
			"stream":   func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(strings.NewReader("first"), 5) },
			"flushed":  func(ctx *sluice.RequestCtx) { _ = ctx.Flush(); ctx.SetBodyString("first") },
		} {
			received := make(chan struct{})
			r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
				if string(ctx.Path()) == "/next" {
					<-received
					return
				}
				if err := ctx.SetWriteDeadline(time.Now().Add(time.Hour)); err != nil {
					t.Error(err)
				}
				first(ctx)
			}})
			p := r.Dial()
			p.Send(harness.Get("/") + harness.Get("/next"))
			if a := p.Answer("GET"); a.Body != "first" {
				t.Errorf("%s: %q", name, a.Body)
			}
			close(received)
			p.Answer("GET")
		}
	})
}

// TestUserValuesSeeTheResponse: when user values are closed, ctx.Response says
// what was sent.
func TestUserValuesSeeTheResponse(t *testing.T) {
	for _, test := range []struct {
		request string
		handler sluice.RequestHandler
		want    string
	}{
		{harness.Get("/"), func(*sluice.RequestCtx) {}, "0 false own"},
		{harness.Closing("/"), func(ctx *sluice.RequestCtx) { ctx.SetBodyString("body") }, "4 true close own"},
		{"GET / HTTP/1.0\r\n\r\n", func(*sluice.RequestCtx) {}, "0 true close own"},
		{harness.Request("GET / HTTP/1.0", "Connection: keep-alive"), func(*sluice.RequestCtx) {}, "0 false keep-alive own"},
		{harness.Closing("/"), func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(strings.NewReader("x"), -1) }, "-1 true close own"},
		{harness.Closing("/"), func(ctx *sluice.RequestCtx) { ctx.WriteString("x"); _ = ctx.Flush() }, "-1 true close own"},
		{harness.Get("/"), func(ctx *sluice.RequestCtx) { ctx.Response.Header.Del("Server") }, "0 false own"},
	} {
		got := make(chan string, 1)
		s := &sluice.Server{Name: "own", Handler: func(ctx *sluice.RequestCtx) {
			h := &ctx.Response.Header
			ctx.SetUserValue("k", harness.CloserFunc(func() {
				got <- strings.Join(strings.Fields(fmt.Sprint(h.ContentLength(), " ", h.ConnectionClose(), " ", string(h.Peek("Connection")), " ", string(h.Server()))), " ")
			}))
			test.handler(ctx)
		}}
		p := harness.Serve(t, harness.InMemory(), s).Dial()
		p.Send(test.request)
		if seen := harness.Receive(t, got); seen != test.want {
			t.Errorf("%q: %s, want %s", test.request, seen, test.want)
		}
	}
}

// TestAnswersBeforeAnAbort: what was answered to pipelined requests is sent, although the
// answer to one after them breaks off before its first byte.
func TestAnswersBeforeAnAbort(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			switch string(ctx.Path()) {
			case "/abort":
				panic(sluice.ErrAbortHandler)
			case "/stream":
				ctx.SetBodyStream(iotest.ErrReader(io.ErrClosedPipe), -1)
			case "/sized":
				ctx.SetBodyStream(strings.NewReader(""), 10)
			case "/writer":
				ctx.SetBodyStreamWriter(func(*bufio.Writer) { panic("writer") })
			default:
				ctx.WriteString("ok")
			}
		}})
		for _, path := range []string{"/abort", "/stream", "/sized", "/writer"} {
			want := harness.TextAnswer(200, "ok") + harness.TextAnswer(200, "ok")
			if got := r.Exchange(harness.Get("/") + harness.Get("/") + harness.Get(path) + harness.Get("/")); got != want {
				t.Errorf("%s: %q", path, got)
			}
		}
	})
}
