package fasthttpadaptor_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

// collected runs h outside a server.
func collected(h http.HandlerFunc) *sluice.Response {
	var ctx sluice.RequestCtx
	ctx.Init(&sluice.Request{}, nil, nil)
	fasthttpadaptor.NewFastHTTPHandler(h)(&ctx)
	return &ctx.Response
}

// heads returns the status line and the Link fields of each response to one
// request.
func heads(t *testing.T, addr string) string {
	t.Helper()
	in := bufio.NewReader(strings.NewReader(exchange(t, addr, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")))
	var all []string
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%d%v", resp.StatusCode, resp.Header["Link"]))
		if resp.StatusCode >= 200 {
			return strings.Join(all, " ")
		}
	}
}

// Each 103 and the final response have the Link fields that the handler has set by
// then.
func TestLinksOfEarlyHints(t *testing.T) {
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		want string
	}{
		"one more each time": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Add("Link", "</a>")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Add("Link", "</b>")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Add("Link", "</c>")
		}, "103[</a>] 103[</a> </b>] 200[</a> </b> </c>]"},
		"another one": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</a>")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Set("Link", "</b>")
			w.WriteHeader(http.StatusEarlyHints)
		}, "103[</a>] 103[</b>] 200[</b>]"},
		"none in the answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</a>")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("Link")
		}, "103[</a>] 200[]"},
		"no answer but hints": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</a>")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Set("X-Other", "1")
			w.WriteHeader(http.StatusAccepted)
			w.WriteHeader(http.StatusEarlyHints)
		}, "103[</a>] 202[</a>]"},
	} {
		t.Run(name, func(t *testing.T) {
			reference := httptest.NewUnstartedServer(c.h)
			reference.Config.ErrorLog = log.New(io.Discard, "", 0)
			reference.Start()
			defer reference.Close()
			if got := heads(t, reference.Listener.Addr().String()); got != c.want {
				t.Errorf("net/http: %s, want %s", got, c.want)
			}
			onEachEngine(t, c.h, func(t *testing.T, addr string) {
				if got := heads(t, addr); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			})
		})
	}
}

// The RequestCtx's Link fields stay if the handler sends no hints.
func TestLinksOfTheRequestCtx(t *testing.T) {
	inner := fasthttpadaptor.NewFastHTTPHandlerFunc(func(http.ResponseWriter, *http.Request) {})
	addr := serve(t, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		ctx.Response.Header.Set("Link", "</ours>")
		inner(ctx)
	}})
	if got := ask(t, addr, "GET", ""); got.Header.Get("Link") != "</ours>" {
		t.Errorf("got %+v", got)
	}
}

func TestStatusesOutOfRange(t *testing.T) {
	for status, want := range map[int]string{
		-1: "panic", 0: "panic", 99: "panic", 1000: "panic",
		100: "200", 102: "200", 199: "200", 200: "200", 299: "299", 999: "999",
	} {
		var got string
		r := collected(func(w http.ResponseWriter, _ *http.Request) {
			defer func() {
				if recover() != nil {
					got = "panic"
				}
			}()
			w.WriteHeader(status)
		})
		if got == "" {
			got = fmt.Sprint(r.StatusCode())
		}
		if got != want {
			t.Errorf("WriteHeader(%d): %s, want %s", status, got, want)
		}
	}
}

// A numeric Content-Length holds: more bytes are refused, and a shorter response is
// broken.
func TestDeclaredLength(t *testing.T) {
	for _, c := range []struct {
		length []string
		body   string
		err    error
		want   int64 // the length in the head
		sent   int64 // -1: the response is broken
	}{
		{[]string{"0"}, "x", http.ErrContentLength, 0, 0},
		{[]string{"0"}, "", nil, 0, 0},
		{[]string{"1"}, "x", nil, 1, 1},
		{[]string{" 1\t"}, "x", nil, 1, 1},
		{[]string{"1", "7"}, "x", nil, 1, 1},
		{[]string{"1"}, "xy", http.ErrContentLength, 1, -1},
		{[]string{"2"}, "x", nil, 2, -1},
		{[]string{"2"}, "", nil, 2, -1},
		{[]string{"-1"}, "x", nil, 1, 1},
		{[]string{"one"}, "x", nil, 1, 1},
		{[]string{"9223372036854775808"}, "x", nil, 1, 1},
		{[]string{}, "x", nil, 1, 1},
		{nil, "x", nil, 1, 1},
	} {
		h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Length"] = c.length
			if _, err := io.WriteString(w, c.body); err != c.err {
				t.Errorf("length %q: write of %q: %v, want %v", c.length, c.body, err, c.err)
			}
		})
		t.Run(fmt.Sprint(c.length, c.body), func(t *testing.T) {
			onEachEngine(t, h, func(t *testing.T, addr string) {
				resp, err := http.Get("http://" + addr)
				if err != nil {
					if c.sent >= 0 {
						t.Fatal(err)
					}
					return
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				if resp.ContentLength != c.want {
					t.Errorf("the client is told %d bytes, want %d", resp.ContentLength, c.want)
				}
				if (err != nil) != (c.sent < 0) || err == nil && int64(len(body)) != c.sent {
					t.Errorf("got %q, %v", body, err)
				}
			})
		})
	}
}

// If a response is too short, its bytes after the last Flush are sent before the
// connection ends.
func TestRestOfAShortAnswerIsSent(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "20")
		_, _ = io.WriteString(w, "first,")
		flush(w)
		_, _ = io.WriteString(w, "second")
	})
	onEachEngine(t, h, func(t *testing.T, addr string) {
		if got := exchange(t, addr, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); !strings.HasSuffix(got, "\r\n\r\nfirst,second") {
			t.Errorf("got %q", got)
		}
	})
}

// Without Flush the whole response is collected, so its length is known.
func TestCollectedAnswers(t *testing.T) {
	for name, write := range map[string]func(w http.ResponseWriter, n int) error{
		"Write": func(w http.ResponseWriter, n int) error { _, err := w.Write(make([]byte, n)); return err },
		"WriteString": func(w http.ResponseWriter, n int) error {
			_, err := io.WriteString(w, strings.Repeat("x", n))
			return err
		},
	} {
		for _, size := range []int{1, 64 << 10, 1 << 20} {
			h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if err := write(w, size); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
			if got := ask(t, serve(t, &sluice.Server{Handler: fasthttpadaptor.NewFastHTTPHandler(h)}), "GET", ""); got.Length != int64(size) || len(got.Body) != size {
				t.Errorf("%s of %d bytes: length %d, %d bytes", name, size, got.Length, len(got.Body))
			}
			if got := len(collected(h).Body()); got != size {
				t.Errorf("%s of %d bytes without a connection: %d", name, size, got)
			}
		}
	}
	r := collected(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<html>")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("Flush without a connection: %v", err)
		}
		w.Header().Set(http.TrailerPrefix+"X-Sum", "1")
	})
	if got := string(r.Header.ContentType()); got != "text/html; charset=utf-8" || string(r.Body()) != "<html>" {
		t.Errorf("type %q, body %q", got, r.Body())
	}
}

// After its handler has returned, the methods of a ResponseWriter fail.
func TestResponseWriterAfterItsHandler(t *testing.T) {
	kept := make(chan http.ResponseWriter, 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { kept <- w })
	onEachEngine(t, h, func(t *testing.T, addr string) {
		ask(t, addr, "GET", "")
		w := <-kept
		rc := http.NewResponseController(w)
		_, writeErr := w.Write([]byte("x"))
		_, stringErr := io.WriteString(w, "x")
		_, emptyErr := w.Write(nil)
		_, copyErr := io.Copy(w, strings.NewReader("x"))
		_, _, hijackErr := rc.Hijack()
		w.WriteHeader(0) // else it panics
		for what, err := range map[string]error{
			"Write": writeErr, "WriteString": stringErr, "an empty Write": emptyErr, "ReadFrom": copyErr, "Hijack": hijackErr,
			"Flush": rc.Flush(), "SetReadDeadline": rc.SetReadDeadline(time.Time{}), "SetWriteDeadline": rc.SetWriteDeadline(time.Time{}),
		} {
			if err == nil || !strings.Contains(err.Error(), "after its handler returned") {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// After Hijack the ResponseWriter's methods fail.
func TestResponseWriterAfterHijack(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		c, _, err := rc.Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		w.WriteHeader(0) // else it panics
		w.Header().Set("X-Late", "1")
		_, emptyErr := w.Write(nil)
		_, copyErr := io.Copy(w, strings.NewReader("x"))
		for what, err := range map[string]error{"an empty Write": emptyErr, "ReadFrom": copyErr, "Flush": rc.Flush()} {
			if err != http.ErrHijacked {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, _ = io.WriteString(c, "all")
	})
	onEachEngine(t, h, func(t *testing.T, addr string) {
		if got := exchange(t, addr, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); got != "all" {
			t.Errorf("got %q", got)
		}
	})
}

// Without WriteHeader, bytes written before Hijack are no response, but the first
// ones in the returned writer.
func TestHijackAfterWrite(t *testing.T) {
	long := strings.Repeat("long", 3000)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/switch" {
			w.Header().Set("Upgrade", "x")
			w.WriteHeader(101)
		} else {
			w.Header().Set("Content-Length", "12000")
		}
		if r.URL.Path == "/head" {
			w.WriteHeader(200)
		}
		if r.URL.Path != "/switch" {
			_, _ = io.WriteString(w, long)
		}
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = rw.WriteString("second")
		_ = rw.Flush()
	})
	onEachEngine(t, h, func(t *testing.T, addr string) {
		if got := exchange(t, addr, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); got != long+"second" {
			t.Errorf("got %.100q, %d bytes", got, len(got))
		}
		got := exchange(t, addr, "GET /head HTTP/1.1\r\nHost: a\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(got, "\r\n\r\n"+long+"second") {
			t.Errorf("with a head: got %.100q, %d bytes", got, len(got))
		}
		got = exchange(t, addr, "GET /switch HTTP/1.1\r\nHost: a\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 101 Switching Protocols\r\n") || !strings.Contains(got, "\r\nUpgrade: x\r\n") || !strings.HasSuffix(got, "\r\n\r\nsecond") {
			t.Errorf("switching: got %q", got)
		}
	})
}

// Content-Type is derived from the first bytes, unless a field says what they are.
func TestContentTypeIsSniffed(t *testing.T) {
	const html = "<html>"
	for name, c := range map[string]struct {
		field, value string
		status       int
		body, want   string
	}{
		"html":            {"X-A", "1", 200, html, "text/html; charset=utf-8"},
		"other error":     {"X-A", "1", 404, html, "text/html; charset=utf-8"},
		"set":             {"Content-Type", "a/b", 200, html, "a/b"},
		"empty":           {"Content-Type", "", 200, html, ""},
		"short":           {"Content-Type", "x", 200, html, "x"},
		"encoded shortly": {"Content-Encoding", "x", 200, html, ""},
		"one byte":        {"X-A", "1", 200, "x", "text/plain; charset=utf-8"},
		"encoded":         {"Content-Encoding", "br", 200, html, ""},
		"no body":         {"X-A", "1", 200, "", ""},
		"no content":      {"X-A", "1", 204, html, ""},
		"not modified":    {"X-A", "1", 304, html, ""},
		"partial answer":  {"X-A", "1", 206, html, "text/html; charset=utf-8"},
	} {
		r := collected(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(c.field, c.value)
			w.WriteHeader(c.status)
			_, err := io.WriteString(w, c.body)
			if isAllowed := c.status != 204 && c.status != 304; isAllowed != (err == nil) || !isAllowed && err != http.ErrBodyNotAllowed {
				t.Errorf("%s: write: %v", name, err)
			}
		})
		if got := string(r.Header.ContentType()); got != c.want {
			t.Errorf("%s: type %q, want %q", name, got, c.want)
		}
	}
}

func TestConnectionOptionsAreJoined(t *testing.T) {
	r := collected(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Connection"] = []string{"x-a", "x-b"}
	})
	if got := string(r.Header.Peek("Connection")); got != "x-a, x-b" {
		t.Errorf("got %q", got)
	}
}

// A length that the handler does not keep to: the client gets the head and the bytes that fit,
// as from net/http.
func TestWrongContentLength(t *testing.T) {
	for name, texts := range map[string][]string{
		"first Write too long": {"hello"}, "second Write too long": {"he", "llo"}, "no Write": nil, "too short": {"he"},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "3")
				w.Header().Set("Content-Type", "text/x")
				for _, text := range texts {
					if n, err := io.WriteString(w, text); err != nil && (n != 0 || err != http.ErrContentLength) {
						t.Error(n, err)
					}
				}
			})
			seen := func(addr string) string {
				raw := exchange(t, addr, method+" / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
				resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(raw)), &http.Request{Method: method})
				if err != nil {
					return err.Error()
				}
				body, err := io.ReadAll(resp.Body)
				return fmt.Sprint(resp.StatusCode, resp.ContentLength, resp.Header["Content-Type"], string(body), err)
			}
			reference := httptest.NewServer(h)
			defer reference.Close()
			onEachEngine(t, h, func(t *testing.T, addr string) {
				if got, want := seen(addr), seen(reference.Listener.Addr().String()); got != want {
					t.Errorf("%s, %s: got %s, want %s", method, name, got, want)
				}
			})
		}
	}
}
