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

// A difference is a row of the table in docs/guide/nethttp.md: what a client sees of
// the response to request.
type difference struct {
	handler       http.HandlerFunc
	request       string
	look          func(resp *http.Response, body string) string
	theirs, ours  string
	keepsSpelling bool // Server.DisableHeaderNamesNormalizing
}

func writes(field, value, body string, then ...func(w http.ResponseWriter)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header()[field] = []string{value}
		_, _ = io.WriteString(w, body)
		for _, f := range then {
			f(w)
		}
	}
}

func flush(w http.ResponseWriter) { w.(http.Flusher).Flush() }

// long: a table of handlers
func differences() map[string]difference {
	const get = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
	length := func(resp *http.Response, body string) string { return fmt.Sprint(resp.ContentLength) }
	text := func(_ *http.Response, body string) string { return body }
	spelling := func(_ *http.Response, raw string) string {
		return fmt.Sprint(strings.Contains(raw, "\r\nx-name: 1\r\n"), strings.Contains(raw, "\r\nX-Name: 1\r\n"))
	}
	return map[string]difference{
		"HEAD of unknown length": {writes("X-A", "1", strings.Repeat("x", 9000)), strings.Replace(get, "GET", "HEAD", 1), length, "-1", "9000", false},
		"announced trailer": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Trailer", "X-Sum")
				w.Header().Set("X-Sum", "1")
				_, _ = io.WriteString(w, "x")
				flush(w)
			}, get,
			func(resp *http.Response, _ string) string {
				return resp.Header.Get("X-Sum") + "," + resp.Trailer.Get("X-Sum")
			},
			"1,1", ",1", false,
		},
		"spelling":      {writes("x-name", "1", ""), get, spelling, "true false", "false true", false},
		"kept spelling": {writes("x-name", "1", ""), get, spelling, "true false", "true false", true},
		"interim statuses": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusProcessing) }, get,
			func(_ *http.Response, raw string) string { return fmt.Sprint(strings.Contains(raw, "HTTP/1.1 102 ")) },
			"true", "false", false,
		},
		"cookies": {
			func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%q", r.Header["Cookie"]) },
			get + "Cookie: a=1\r\nCookie: b=2\r\n", text, `["a=1" "b=2"]`, `["a=1; b=2"]`, false,
		},
		"fields of HTTP/1.0": {
			func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header["Connection"]) },
			"GET / HTTP/1.0\r\nHost: a\r\n", text, "[]", "[close]", false,
		},
		"no length": {
			func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header["Content-Length"]) },
			"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n", text, "[]", "[0]", false,
		},
		"the server in the context": {
			func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, r.Context().Value(http.ServerContextKey) != nil)
			},
			get, text, "true", "false", false,
		},
		"a write deadline that is over": {
			func(w http.ResponseWriter, _ *http.Request) {
				_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
				_, _ = io.WriteString(w, "x")
			}, get, text, "no answer", "x", false,
		},
		"a panic": {
			func(http.ResponseWriter, *http.Request) { panic("oh") }, "GET / HTTP/1.1\r\nHost: a\r\n",
			func(resp *http.Response, _ string) string { return fmt.Sprint(resp.StatusCode, " ", resp.Close) },
			"no answer", "500 true", false,
		},
	}
}

// The guide's list of differences from http.Server is correct.
func TestDifferencesFromNetHTTP(t *testing.T) {
	for name, d := range differences() {
		t.Run(name, func(t *testing.T) {
			reference := httptest.NewUnstartedServer(d.handler)
			reference.Config.ErrorLog = log.New(io.Discard, "", 0)
			reference.Start()
			defer reference.Close()
			ours := serve(t, &sluice.Server{
				Handler: fasthttpadaptor.NewFastHTTPHandler(d.handler), DisableHeaderNamesNormalizing: d.keepsSpelling,
			})
			if got := d.seen(t, reference.Listener.Addr().String()); got != d.theirs {
				t.Errorf("net/http: %s, want %s", got, d.theirs)
			}
			if got := d.seen(t, ours); got != d.ours {
				t.Errorf("here: %s, want %s", got, d.ours)
			}
		})
	}
}

// seen sends the request to the server at addr. If a row needs the received bytes,
// seen returns them.
func (d difference) seen(t *testing.T, addr string) string {
	raw := exchange(t, addr, d.request+"\r\n")
	method, _, _ := strings.Cut(d.request, " ")
	in := bufio.NewReader(strings.NewReader(raw))
	resp, err := http.ReadResponse(in, &http.Request{Method: method})
	for err == nil && resp.StatusCode < 200 {
		resp, err = http.ReadResponse(in, &http.Request{Method: method})
	}
	if err != nil {
		return "no answer"
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	if len(body) == 0 && method != "HEAD" {
		body = []byte(raw)
	}
	return d.look(resp, string(body))
}

func TestNoPusher(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, pushes := w.(http.Pusher)
		fmt.Fprint(w, pushes)
	})
	if got := ask(t, serve(t, &sluice.Server{Handler: fasthttpadaptor.NewFastHTTPHandler(h)}), "GET", ""); got.Body != "false" {
		t.Errorf("got %q", got.Body)
	}
}
