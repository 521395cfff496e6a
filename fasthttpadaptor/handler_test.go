package fasthttpadaptor_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
	"github.com/sluicehttp/sluice/tcplisten"
)

const patience = 20 * time.Second

// serve runs handler until the test ends, and returns the address.
func serve(t testing.TB, s *sluice.Server) string {
	t.Helper()
	ln, err := new(tcplisten.Config).NewListener("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if s.Logger == nil {
		s.Logger = log.New(io.Discard, "", 0)
	}
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.ShutdownWithContext(ctx); err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// onEachEngine runs test with a server of h, with each engine.
func onEachEngine(t *testing.T, h http.Handler, test func(t *testing.T, addr string)) {
	for _, e := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		for _, streams := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v streams=%v", e, streams), func(t *testing.T) {
				test(t, serve(t, &sluice.Server{Handler: fasthttpadaptor.NewFastHTTPHandler(h), Engine: e, StreamRequestBody: streams}))
			})
		}
	}
}

// outcome is what a client sees of a response.
type outcome struct {
	Status   int
	Header   http.Header
	Trailer  http.Header
	Body     string
	Length   int64
	IsBroken bool
}

func ask(t *testing.T, addr, method, body string) outcome {
	t.Helper()
	req, err := http.NewRequest(method, "http://"+addr+"/a%2Fb/c?x=1&x=2", nil)
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		if strings.HasPrefix(body, "chunked") {
			req.ContentLength = -1
			req.Trailer = http.Header{"X-Sum": {"7"}}
		}
	}
	req.Header.Add("X-Many", "1")
	req.Header.Add("X-Many", "2")
	req.Header.Set("Cookie", "a=b; c=d")
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return outcome{IsBroken: true}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	for _, key := range []string{"Date", "Server", "Connection"} {
		resp.Header.Del(key)
	}
	return outcome{resp.StatusCode, resp.Header, resp.Trailer, strings.ReplaceAll(string(text), addr, "ADDR"), resp.ContentLength, err != nil}
}

func describe(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	_, port, _ := net.SplitHostPort(r.RemoteAddr)
	fmt.Fprintln(w, r.Method, r.URL.String(), r.URL.Path, r.RequestURI, r.Proto, r.ProtoMajor, r.ProtoMinor, r.Host, r.Header,
		r.ContentLength, r.TransferEncoding, r.Close, r.TLS == nil, port != "", r.Trailer, string(body), err)
}

// long: a table of handlers
func differentialHandlers() map[string]http.HandlerFunc {
	write := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) }
	}
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code); _, _ = w.Write([]byte(body)) }
	}
	return map[string]http.HandlerFunc{
		"describe":     describe,
		"nothing":      func(http.ResponseWriter, *http.Request) {},
		"text":         write("hello"),
		"html":         write("<html><body>x</body></html>"),
		"png":          write("\x89PNG\x0D\x0A\x1A\x0A"),
		"large":        write(strings.Repeat("0123456789", 20000)),
		"created":      status(201, "made"),
		"no content":   status(204, "lost"),
		"not modified": status(304, "lost"),
		"teapot":       status(418, ""),
		"error":        func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 404) },
		"redirect":     func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/else", http.StatusFound) },
		"twice":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202); w.WriteHeader(500) },
		"late field": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("x"))
			w.Header().Set("X-Late", "1")
		},
		"fields": func(w http.ResponseWriter, _ *http.Request) {
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "2", Path: "/x"})
			w.Header()["X-Many"] = []string{"1", "2"}
			w.Header().Add("Vary", "A")
			w.Header().Add("Vary", "B")
			w.Header().Set("Content-Type", "text/csv")
			_, _ = w.Write([]byte("a,b"))
		},
		"no type": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = w.Write([]byte("x"))
		},
		"encoded": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			_, _ = w.Write([]byte("x"))
		},
		"length": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			write("hello")(w, nil)
		},
		"length and flush": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			write("hello")(w, nil)
			w.(http.Flusher).Flush()
			write("world")(w, nil)
		},
		"too short": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			write("hello")(w, nil)
		},
		"flushed short": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			write("hello")(w, nil)
			w.(http.Flusher).Flush()
		},
		"too long": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3")
			write("hello")(w, nil)
		},
		"known large": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "200000")
			write(strings.Repeat("x", 200000))(w, nil)
		},
		"copied": func(w http.ResponseWriter, _ *http.Request) {
			n, err := io.Copy(w, strings.NewReader(strings.Repeat("x", 300000)))
			fmt.Fprint(w, n, err)
		},
		"flushed": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("<html>"))
			w.(http.Flusher).Flush()
			w.WriteHeader(500)
			_, _ = io.Copy(w, strings.NewReader("rest"))
		},
		"content": func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "a.css", time.Unix(1e9, 0), strings.NewReader("body{}"))
		},
		"trailers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum, X-Unset")
			_, _ = w.Write([]byte("body"))
			w.(http.Flusher).Flush()
			w.Header().Set("X-Sum", "42")
			w.Header().Set("X-Unset", "")
			w.Header().Set(http.TrailerPrefix+"X-Late", "43")
		},
		"trailers in other words": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Trailer"] = []string{" x-sum ,,", "x-other"}
			_, _ = w.Write([]byte("body"))
			w.(http.Flusher).Flush()
			w.Header()["X-Sum"] = []string{"1", "2"}
			w.Header().Set("X-Other", "3")
			w.Header().Set("X-Unannounced", "4")
		},
		"early hints": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</a.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			_, _ = w.Write([]byte("after"))
		},
		"abort": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"abort late": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("some"))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
		"write errors": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "40")
			_, err := w.Write(make([]byte, 41))
			fmt.Fprintf(w, "%-40s", fmt.Sprint(errors.Is(err, http.ErrContentLength)))
		},
	}
}

func TestHandlersAnswerAsWithNetHTTP(t *testing.T) {
	requests := []struct{ method, body string }{{"GET", ""}, {"HEAD", ""}, {"POST", "a body"}, {"PUT", "chunked body"}}
	for name, h := range differentialHandlers() {
		t.Run(name, func(t *testing.T) {
			reference := httptest.NewUnstartedServer(h)
			reference.Config.ErrorLog = log.New(io.Discard, "", 0)
			reference.Start()
			defer reference.Close()
			onEachEngine(t, h, func(t *testing.T, addr string) {
				for _, r := range requests {
					want := ask(t, reference.Listener.Addr().String(), r.method, r.body)
					got := ask(t, addr, r.method, r.body)
					if r.method == "HEAD" { // its head may have fewer fields
						got.Length, want.Length = 0, 0
						got.Trailer, want.Trailer = nil, nil
						for _, key := range []string{"Content-Length", "Trailer"} {
							got.Header.Del(key)
							want.Header.Del(key)
						}
					}
					if want.Length < 0 && got.Length == int64(len(got.Body)) { // collected completely, so its length is known
						want.Length = got.Length
						got.Header.Del("Content-Length")
					}
					if got.IsBroken && want.IsBroken { // how much of it arrives is not defined
						continue
					}
					if !reflect.DeepEqual(got, want) {
						t.Errorf("%s:\n got %.600q\nwant %.600q", r.method, fmt.Sprint(got), fmt.Sprint(want))
					}
				}
			})
		})
	}
}

func TestInterimResponseReachesTheClient(t *testing.T) {
	h := differentialHandlers()["early hints"]
	onEachEngine(t, h, func(t *testing.T, addr string) {
		got := exchange(t, addr, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\n") || strings.Count(got, "Link:") != 2 {
			t.Errorf("got %q", got)
		}
	})
}

// dial connects; the connection is closed at the end of the test.
func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

// exchange sends input and returns everything that it receives.
func exchange(t *testing.T, addr, input string) string {
	t.Helper()
	c := dial(t, addr)
	_, _ = io.WriteString(c, input)
	got, err := io.ReadAll(c)
	if err != nil {
		t.Error(err)
	}
	return string(got)
}

func TestFlushedBytesArriveBeforeTheHandlerEnds(t *testing.T) {
	proceed := make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		select {
		case <-proceed:
		case <-time.After(patience):
			t.Error("the client never got the first bytes")
		}
		_, _ = io.WriteString(w, "second")
	})
	onEachEngine(t, h, func(t *testing.T, addr string) {
		resp, err := http.Get("http://" + addr)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		first := make([]byte, 5)
		if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != "first" {
			t.Fatalf("got %q, %v", first, err)
		}
		proceed <- struct{}{}
		if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "second" {
			t.Errorf("got %q, %v", rest, err)
		}
	})
}

func TestRequestBodyIsAStream(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := bufio.NewReader(r.Body)
		rc := http.NewResponseController(w)
		if err := errors.Join(rc.EnableFullDuplex(), rc.SetReadDeadline(time.Now().Add(patience)), rc.SetWriteDeadline(time.Now().Add(patience))); err != nil {
			t.Error(err)
		}
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(w, "got "+line)
			_ = rc.Flush()
		}
	})
	addr := serve(t, &sluice.Server{Handler: fasthttpadaptor.NewFastHTTPHandler(h), StreamRequestBody: true})
	body, feed := io.Pipe()
	defer feed.Close()
	go func() { _, _ = io.WriteString(feed, "one\n") }()
	resp, err := http.Post("http://"+addr, "text/plain", body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answers := bufio.NewReader(resp.Body)
	for _, word := range []string{"two\n", "three\n", ""} {
		if line, err := answers.ReadString('\n'); err != nil || !strings.HasPrefix(line, "got ") {
			t.Fatalf("got %q, %v", line, err)
		}
		_, _ = io.WriteString(feed, word)
	}
}

func TestPanicIsTheServersToHandle(t *testing.T) {
	onEachEngine(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oh") }), func(t *testing.T, addr string) {
		if got := ask(t, addr, "GET", ""); got.Status != 500 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestWhatTheRequestCtxHasStays(t *testing.T) {
	inner := fasthttpadaptor.NewFastHTTPHandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Own", "theirs")
		fmt.Fprint(w, r.Context().Value("user"), r.Context().Value(http.LocalAddrContextKey) != nil)
	})
	addr := serve(t, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		ctx.SetUserValue("user", "ann")
		ctx.SetStatusCode(202)
		ctx.Response.Header.Set("X-Own", "ours")
		ctx.Response.Header.Set("X-Kept", "yes")
		inner(ctx)
	}})
	got := ask(t, addr, "GET", "")
	if got.Status != 202 || got.Header.Get("X-Own") != "theirs" || got.Header.Get("X-Kept") != "yes" || got.Body != "anntrue" {
		t.Errorf("got %+v", got)
	}
}

func TestLargeResponseOfKnownLengthIsComplete(t *testing.T) {
	const size = 3 << 20
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(size))
		if n, err := io.Copy(w, strings.NewReader(strings.Repeat("x", size))); n != size || err != nil {
			t.Errorf("copied %d, %v", n, err)
		}
	})
	onEachEngine(t, h, func(t *testing.T, addr string) {
		if got := ask(t, addr, "GET", ""); got.IsBroken || len(got.Body) != size || got.Length != size {
			t.Errorf("got %d bytes, length %d, broken: %v", len(got.Body), got.Length, got.IsBroken)
		}
	})
}
