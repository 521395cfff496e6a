package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestReadTimeout: 408 for a request that was begun, silence for none.
func TestReadTimeout(t *testing.T) {
	tests := []struct {
		name, script string
		statuses     []int
	}{
		{"nothing", "", nil},
		{"empty line", "\r\n", nil},
		{"idle", harness.Get("/"), []int{200}},
		{"partial head", "GET / HT", []int{408}},
		{"second head", harness.Get("/") + "GET / HT", []int{200, 408}},
		{"partial body", harness.Request("POST / HTTP/1.1", "Content-Length: 5") + "abc", []int{408}},
		{"partial chunk", harness.Request("POST / HTTP/1.1", "Transfer-Encoding: chunked") + "5\r\nabc", []int{408}},
		{"no body after 100", harness.Request("POST / HTTP/1.1", "Expect: 100-continue", "Content-Length: 5"), []int{408}},
	}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				var got error
				idle := harness.Briefly
				if slices.Contains(test.statuses, 408) {
					idle = time.Hour // it must not end what is late to begin
				}
				r := harness.Serve(t, n, &sluice.Server{ReadTimeout: harness.Briefly, IdleTimeout: idle, Handler: answering("x"), ErrorHandler: func(_ *sluice.RequestCtx, err error) { got = err }})
				raw := strings.TrimPrefix(r.Exchange(test.script), "HTTP/1.1 100 Continue\r\n\r\n")
				if statuses, _ := statusesOf(t, raw); !slices.Equal(statuses, test.statuses) {
					t.Errorf("answered %v, want %v", statuses, test.statuses)
				}
				var netErr net.Error
				if slices.Contains(test.statuses, 408) != (errors.As(got, &netErr) && netErr.Timeout()) {
					t.Errorf("ErrorHandler got %v", got)
				}
				if log := r.Log.String(); log != "" {
					t.Errorf("logged %q", log)
				}
			})
		}
	})
}

// TestIdleTimeout bounds the wait between requests, and not requests.
func TestIdleTimeout(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{IdleTimeout: harness.Briefly, Handler: func(ctx *sluice.RequestCtx) {
			time.Sleep(2 * harness.Briefly) // a handler is not idle
			ctx.WriteString("x")
		}})
		if statuses, _ := statusesOf(t, r.Exchange(harness.Get("/"))); !slices.Equal(statuses, []int{200}) {
			t.Errorf("answered %v", statuses)
		}
		if got := r.Exchange(""); got != "" {
			t.Errorf("a silent client got %q", got)
		}
	})
}

// TestIdleTimeoutIsNotReadTimeout: with a long IdleTimeout, ReadTimeout does
// not end idle connections.
func TestIdleTimeoutIsNotReadTimeout(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{IdleTimeout: time.Hour, ReadTimeout: harness.Briefly, Handler: answering("x")})
		p := r.Dial()
		p.Get("/")
		p.Send("\r\n") // which begins nothing
		time.Sleep(3 * harness.Briefly)
		p.Get("/")
	})
}

// TestIdleTimeoutAfterEmptyLine: empty lines after a request do not make a connection
// immortal where there is no ReadTimeout.
func TestIdleTimeoutAfterEmptyLine(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{IdleTimeout: harness.Briefly, Handler: answering("x")})
		p := r.Dial()
		p.Get("/")
		p.Send("\r\n")
		p.Rest()
	})
}

// TestHeaderReceivedReadTimeout also applies to streams.
func TestHeaderReceivedReadTimeout(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		for _, isStreaming := range []bool{false, true} {
			r := harness.Serve(t, n, &sluice.Server{StreamRequestBody: isStreaming,
				HeaderReceived: func(*sluice.RequestHeader) sluice.RequestConfig {
					return sluice.RequestConfig{ReadTimeout: harness.Briefly}
				},
				Handler: func(ctx *sluice.RequestCtx) {
					_, err := io.ReadAll(ctx.RequestBodyStream())
					var netErr net.Error
					if !errors.As(err, &netErr) || !netErr.Timeout() {
						t.Errorf("the stream ends with %v", err)
					}
					ctx.SetStatusCode(408)
				}})
			statuses, _ := statusesOf(t, r.Exchange(harness.Request("POST / HTTP/1.1", "Content-Length: 5")+"abc"))
			if !slices.Equal(statuses, []int{408}) {
				t.Errorf("stream=%v: answered %v", isStreaming, statuses)
			}
		}
	})
}

// TestWriteTimeout: a client that does not read is given up.
func TestWriteTimeout(t *testing.T) {
	change := map[string]func(*sluice.Server){
		"server": func(s *sluice.Server) { s.WriteTimeout = harness.Briefly },
		"request": func(s *sluice.Server) {
			s.WriteTimeout = time.Hour
			s.HeaderReceived = func(*sluice.RequestHeader) sluice.RequestConfig {
				return sluice.RequestConfig{WriteTimeout: harness.Briefly}
			}
		},
		"none of the request": func(s *sluice.Server) {
			s.WriteTimeout = harness.Briefly
			s.HeaderReceived = func(*sluice.RequestHeader) sluice.RequestConfig { return sluice.RequestConfig{} }
		},
	}
	for name, change := range change {
		t.Run(name, func(t *testing.T) {
			body := bytes.Repeat([]byte("x"), 64<<20)
			closed := make(chan struct{})
			s := &sluice.Server{LogAllErrors: true, Handler: func(ctx *sluice.RequestCtx) { ctx.Response.SetBodyRaw(body) },
				ConnState: func(_ net.Conn, state sluice.ConnState) {
					if state == sluice.StateClosed {
						close(closed)
					}
				}}
			change(s)
			r := harness.Serve(t, harness.OverTCP(), s)
			p := r.Dial()
			p.Send(harness.Get("/"))
			harness.Receive(t, closed)
			harness.Eventually(t, "the time-out is logged", func() bool { return strings.Contains(r.Log.String(), "timeout") })
		})
	}
}

func TestTimeoutHandler(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		leave := make(chan struct{})
		gone := make(chan string, 1)
		inner := func(ctx *sluice.RequestCtx) {
			ctx.SetBodyString("in time")
			if string(ctx.Path()) == "/panic" {
				panic("inner went mad")
			}
			if string(ctx.Path()) != "/slow" {
				return
			}
			done := ctx.Done()
			<-done
			<-leave
			// The ctx is the handler's own now. All of that is without effect,
			// but for the handler.
			ctx.SetStatusCode(299)
			ctx.SetUserValue("k", "v")
			ctx.Response.Header.Set("X-Late", "1")
			ctx.WriteString("too late")
			gone <- fmt.Sprintf("%s %v %s %v %v %v", ctx.Path(), ctx.UserValue("k"), ctx.Response.Body(), ctx.Flush(), ctx.Err(), ctx.SetReadDeadline(time.Time{}))
		}
		r := harness.Serve(t, n, &sluice.Server{Handler: sluice.TimeoutHandler(inner, harness.Briefly, "too slow")})
		p := r.Dial()
		if a := p.Get("/fast"); a.StatusCode != 200 || a.Body != "in time" {
			t.Errorf("/fast: %d %q", a.StatusCode, a.Body)
		}
		if a := p.Get("/slow"); a.StatusCode != 408 || a.Body != "too slow" || a.Header.Get("Server") != "sluice" || a.Header.Get("X-Late") != "" {
			t.Errorf("/slow: %d %q %v", a.StatusCode, a.Body, a.Header)
		}
		if a := p.Get("/fast"); a.StatusCode != 200 || a.Body != "in time" {
			t.Errorf("/fast after /slow: %d %q", a.StatusCode, a.Body)
		}
		close(leave)
		want := fmt.Sprintf("/slow v in timetoo late %v context canceled %v", sluice.ErrNilConnection, sluice.ErrDeadlineUpdatesDisabled)
		if got := harness.Receive(t, gone); got != want {
			t.Errorf("the handler found %q, want %q", got, want)
		}
		if a := p.Get("/panic"); a.StatusCode != 500 {
			t.Errorf("/panic: %d", a.StatusCode)
		}
	})
}

// TestTimedOutHandlerEndsItsRequest: what ends with a request ends when the
// handler returns at last.
func TestTimedOutHandlerEndsItsRequest(t *testing.T) {
	var closed atomic.Int32
	leave := make(chan struct{})
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{Handler: sluice.TimeoutHandler(func(ctx *sluice.RequestCtx) {
		ctx.SetUserValue("closer", harness.CloseCounter{Closed: &closed})
		ctx.SetBodyStream(harness.CloseCounter{Reader: strings.NewReader("x"), Closed: &closed}, 1)
		<-leave
	}, harness.Briefly, "slow")})
	if a := r.Dial().Get("/"); a.StatusCode != 408 {
		t.Errorf("answered %d", a.StatusCode)
	}
	if n := closed.Load(); n != 0 {
		t.Errorf("%d were closed under the handler's hands", n)
	}
	close(leave)
	harness.Eventually(t, "all is closed", func() bool { return closed.Load() == 2 })
}

func TestTimeoutHandlerWithoutTimeout(t *testing.T) {
	called := false
	var ctx sluice.RequestCtx
	sluice.TimeoutHandler(func(*sluice.RequestCtx) { called = true }, 0, "")(&ctx)
	if !called || ctx.LastTimeoutErrorResponse() != nil {
		t.Error("a time-out of zero is none")
	}
	sluice.TimeoutWithCodeHandler(func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(201) }, harness.Patience, "", 503)(&ctx)
	if ctx.Response.StatusCode() != 201 {
		t.Errorf("outside a server: %d", ctx.Response.StatusCode())
	}
}

// TestTimeoutHandlerOverload: no more handlers run over time than Concurrency.
func TestTimeoutHandlerOverload(t *testing.T) {
	leave := make(chan struct{})
	handler := func(*sluice.RequestCtx) { <-leave }
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{Concurrency: 2, Handler: sluice.TimeoutWithCodeHandler(handler, harness.Briefly, "slow", 503)})
	p := r.Dial()
	for i, want := range []int{503, 503, 429} {
		if a := p.Get("/"); a.StatusCode != want {
			t.Errorf("request %d: %d, want %d", i, a.StatusCode, want)
		}
	}
	close(leave)
	harness.Eventually(t, "the handlers are counted out", func() bool { return r.ConnectAndGet() == 200 })
}

// TestTimeoutHandlerPanicsLate: there is nobody to answer 500 to.
func TestTimeoutHandlerPanicsLate(t *testing.T) {
	leave := make(chan struct{})
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{Handler: sluice.TimeoutHandler(func(*sluice.RequestCtx) {
		<-leave
		panic("late madness")
	}, harness.Briefly, "slow")})
	if a := r.Dial().Get("/"); a.StatusCode != 408 {
		t.Errorf("answered %d", a.StatusCode)
	}
	close(leave)
	harness.Eventually(t, "the panic is logged", func() bool { return strings.Contains(r.Log.String(), "late madness") })
}

// TestTimeoutErrors: the handler's own time-outs, with goroutines that go on
// using ctx.
func TestTimeoutErrors(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		stop := make(chan struct{})
		finished := make(chan struct{}, 100)
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			path, number := string(ctx.Path()), ctx.ConnRequestNum()
			go func() {
				defer func() { finished <- struct{}{} }()
				<-stop
				if n := ctx.ConnRequestNum(); n != number {
					t.Errorf("request %d has become request %d", number, n)
				}
				for range 100 {
					ctx.WriteString("x")
					_ = ctx.Path()
					_ = ctx.PostBody()
					ctx.SetUserValue("k", path)
					ctx.Response.Header.Set("X", "y")
				}
				if string(ctx.Path()) != path {
					t.Errorf("the ctx of %s is used for %s", path, ctx.Path())
				}
			}()
			switch path {
			case "/plain":
				ctx.TimeoutError("a")
			case "/code":
				ctx.TimeoutErrorWithCode("only the last counts", 500)
				ctx.TimeoutErrorWithCode("b", 503)
			default:
				var resp sluice.Response
				resp.SetStatusCode(299)
				resp.Header.Set("X-Own", "1")
				resp.SetBodyString("c")
				ctx.TimeoutErrorWithResponse(&resp)
				resp.SetBodyString("changed")
			}
			if ctx.LastTimeoutErrorResponse() == nil {
				t.Error("LastTimeoutErrorResponse is nil")
			}
		}})
		got := r.Exchange(harness.Get("/plain") + harness.Get("/code") + harness.Post("/response", "body") + harness.Get("/plain") + harness.Closing("/code"))
		want := harness.TextAnswer(408, "a") + harness.TextAnswer(503, "b") +
			"HTTP/1.1 299 Unknown Status Code\r\nServer: sluice\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 1\r\nX-Own: 1\r\n\r\nc" +
			harness.TextAnswer(408, "a") + harness.TextAnswer(503, "b", "Connection: close")
		if got != want {
			t.Errorf("%q, want\n%q", got, want)
		}
		close(stop)
		for range 5 {
			harness.Receive(t, finished)
		}
	})
}

// TestTimeoutHandlersNest: the time-out of the outermost handler that returns
// before the others counts, and what is set behind it.
func TestTimeoutHandlersNest(t *testing.T) {
	end := make(chan struct{})
	defer close(end)
	waits := func(*sluice.RequestCtx) { <-end }
	says := func(text string, then sluice.RequestHandler) sluice.RequestHandler {
		return func(ctx *sluice.RequestCtx) { ctx.TimeoutError(text); then(ctx) }
	}
	returns := func(*sluice.RequestCtx) {}
	handlers := map[string]sluice.RequestHandler{
		"/outer":  sluice.TimeoutHandler(says("inner", waits), harness.Briefly/4, "outer"),
		"/inner":  sluice.TimeoutHandler(says("inner", returns), time.Hour, "outer"),
		"/nested": sluice.TimeoutHandler(sluice.TimeoutHandler(waits, harness.Briefly/4, "nested"), time.Hour, "outer"),
		"/behind": func(ctx *sluice.RequestCtx) {
			sluice.TimeoutHandler(waits, harness.Briefly/4, "outer")(ctx)
			ctx.TimeoutErrorWithCode("behind", 408)
		},
	}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { handlers[string(ctx.Path())](ctx) }})
		for path := range handlers {
			if a := r.Dial().Get(path); a.StatusCode != 408 || a.Body != path[1:] {
				t.Errorf("%s: %d %q", path, a.StatusCode, a.Body)
			}
		}
	})
}

// TestTimeoutAfterFlush: an answer of which a part was sent cannot become
// another one.
func TestTimeoutAfterFlush(t *testing.T) {
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		ctx.WriteString("some")
		if err := ctx.Flush(); err != nil {
			t.Error(err)
		}
		ctx.TimeoutError("late")
	}})
	if got := r.Exchange(harness.Get("/") + harness.Get("/")); !strings.HasSuffix(got, "\r\n\r\n4\r\nsome\r\n") {
		t.Errorf("%q", got)
	}
}

// TestTimeoutWhileStreaming: a handler that timed out while it waits for the
// body neither keeps the connection nor disturbs another one.
func TestTimeoutWhileStreaming(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		ended := make(chan error, 1)
		r := harness.Serve(t, n, &sluice.Server{StreamRequestBody: true, Handler: sluice.TimeoutHandler(func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/" {
				return
			}
			_, err := io.Copy(io.Discard, ctx.RequestBodyStream())
			ended <- err
		}, harness.Briefly, "slow")})
		for _, framing := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
			p := r.Dial() // another connection is waited for before
			p.Send(harness.Request("POST /whole HTTP/1.1", "Content-Length: 2", "Expect: 100-continue"))
			p.Expect("HTTP/1.1 100 Continue\r\n\r\n")
			p.Send("ab")
			_ = harness.Receive(t, ended)
			p = r.Dial()
			p.Send(harness.Request("POST /slow HTTP/1.1", framing) + "5\r\nab")
			if a := p.Answer("POST"); a.StatusCode != 408 || !a.Close {
				t.Errorf("%s: answered %d, close=%v", framing, a.StatusCode, a.Close)
			}
			p.ExpectEnd()
			p.Close()
			if err := harness.Receive(t, ended); err == nil {
				t.Errorf("%s: the body ended well", framing)
			}
			for range 20 {
				r.Dial().Get("/")
			}
		}
	})
}

// TestDeadlinesOfRequest: handlers may move their request's deadlines.
func TestDeadlinesOfRequest(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{StreamRequestBody: true, ReadTimeout: time.Hour, Handler: func(ctx *sluice.RequestCtx) {
			if err := errors.Join(ctx.SetReadDeadline(time.Now().Add(harness.Briefly)), ctx.SetWriteDeadline(time.Now().Add(time.Hour))); err != nil {
				t.Error(err)
			}
			_, err := io.ReadAll(ctx.RequestBodyStream())
			var netErr net.Error
			if !errors.As(err, &netErr) || !netErr.Timeout() {
				t.Errorf("the stream ends with %v", err)
			}
		}})
		p := r.Dial()
		p.Send(harness.Request("POST / HTTP/1.1", "Content-Length: 5") + "abc")
		p.Answer("POST")
		p.ExpectEnd()
	})
}
