package fasthttpadaptor_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

// requestsOnTheWire are requests of clients, by what is special about them.
func requestsOnTheWire() map[string]string {
	const host, closes = "Host: a\r\n", "Connection: close\r\n"
	const chunked = "POST / HTTP/1.1\r\n" + host + closes + "Transfer-Encoding: chunked\r\n"
	all := map[string]string{
		"HTTP/1.0":            "GET /x HTTP/1.0\r\n" + host + closes + "\r\n",
		"absolute":            "GET http://b/x?y HTTP/1.1\r\n" + host + closes + "\r\n",
		"asterisk":            "OPTIONS * HTTP/1.1\r\n" + host + closes + "Content-Length: 0\r\n\r\n",
		"fields":              "GET / HTTP/1.1\r\n" + host + closes + "x-a: 1\r\nX-B: \r\nX-A: 2\r\nX-C: 3\r\nx-A: 3\r\nX-B: 4\r\n\r\n",
		"POST of length 0":    "POST / HTTP/1.1\r\n" + host + closes + "Content-Length: 0\r\n\r\n",
		"POST of length 1":    "POST / HTTP/1.1\r\n" + host + closes + "Content-Length: 1\r\n\r\nx",
		"GET with a body":     "GET / HTTP/1.1\r\n" + host + closes + "Content-Length: 4\r\n\r\nbody",
		"chunks":              chunked + "\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
		"no chunks":           chunked + "\r\n0\r\n\r\n",
		"trailer":             chunked + "Trailer: X-Sum, x-many\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\nX-Many: 2\r\nX-Many: 3\r\n\r\n",
		"trailer that misses": chunked + "Trailer: X-Sum\r\n\r\n1\r\na\r\n0\r\n\r\n",
		"trailer in the head": chunked + "Trailer: X-Sum\r\nX-Other: 1\r\n\r\n0\r\nX-Sum: 2\r\n\r\n",
		"head and trailer":    chunked + "Trailer: X-Sum\r\nX-Sum: head\r\nX-Two: head\r\n\r\n1\r\na\r\n0\r\nX-Sum: 2\r\nX-Sum: 3\r\n\r\n",
	}
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE"} {
		all[method] = method + " / HTTP/1.1\r\n" + host + closes + "Content-Length: 0\r\n\r\n"
	}
	return all
}

func TestRequestsAreAsWithNetHTTP(t *testing.T) {
	described := make(chan string, 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var text bytes.Buffer
		fmt.Fprint(&text, r.Body == http.NoBody, r.Context().Err(), " ")
		answer := httptest.NewRecorder()
		describe(answer, r)
		again, err := io.ReadAll(r.Body)
		fmt.Fprint(&text, answer.Body, len(again), err)
		described <- text.String()
	})
	reference := httptest.NewUnstartedServer(h)
	reference.Config.ErrorLog = log.New(io.Discard, "", 0)
	reference.Config.DisableGeneralOptionsHandler = true
	reference.Start()
	defer reference.Close()
	ask := func(t *testing.T, addr, request string) string {
		answer := exchange(t, addr, request)
		select {
		case text := <-described:
			return text
		default:
			return "no handler: " + answer
		}
	}
	ofLength0 := ask(t, reference.Listener.Addr().String(), requestsOnTheWire()["POST of length 0"])
	for name, request := range requestsOnTheWire() {
		t.Run(name, func(t *testing.T) {
			want := ask(t, reference.Listener.Addr().String(), request)
			onEachEngine(t, h, func(t *testing.T, addr string) {
				got := ask(t, addr, request)
				if name == "no chunks" && got == ofLength0 {
					return // the buffered body is empty
				}
				if got != want {
					t.Errorf("got  %q\nwant %q", got, want)
				}
			})
		})
	}
}

// A Read into an empty slice is not the end.
func TestReadOfNothing(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := r.Body.Read(nil)
		body, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, n, err, string(body))
	})
	onEachEngine(t, h, func(t *testing.T, addr string) {
		if got := ask(t, addr, "POST", "a body"); got.Body != "0 <nil>a body" {
			t.Errorf("got %q", got.Body)
		}
	})
}

// A body stream may be set although the head announces another body, or none. What it has
// counts.
func TestLengthOfAnotherBodyStream(t *testing.T) {
	for _, head := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
		"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
	} {
		var ctx sluice.RequestCtx
		ctx.Init(&sluice.Request{}, nil, nil)
		ctx.Request.SetBodyStream(strings.NewReader("12345"), -1)
		err := ctx.Request.Header.Read(bufio.NewReader(strings.NewReader(head)))
		var r http.Request
		if err := errors.Join(err, fasthttpadaptor.ConvertRequest(&ctx, &r, true)); err != nil || r.ContentLength != 5 {
			t.Errorf("%q: %d, %v", head, r.ContentLength, err)
		}
	}
}

// Unannounced trailer fields are available at the end of the body.
func TestUnannouncedTrailer(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, r.Trailer, err)
	})
	onEachEngine(t, h, func(t *testing.T, addr string) {
		got := exchange(t, addr, "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 2\r\n\r\n")
		if !strings.HasSuffix(got, "\r\n\r\nmap[X-Sum:[2]] <nil>") {
			t.Errorf("got %q", got)
		}
	})
}

// A target that cannot be parsed is refused without a call of the handler.
func TestMalformedTargetIsRefused(t *testing.T) {
	var ctx sluice.RequestCtx
	ctx.Init(&sluice.Request{}, nil, nil)
	ctx.Request.Header.SetRequestURI("/%zz")
	fasthttpadaptor.NewFastHTTPHandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the handler runs")
	})(&ctx)
	if got := ctx.Response.StatusCode(); got != 400 {
		t.Errorf("status %d", got)
	}
}

// The target of CONNECT is an authority, or a path if it begins as one.
func TestTargetOfConnect(t *testing.T) {
	for target, want := range map[string]string{"h:443": "//h:443", "/rpc": "/rpc"} {
		var ctx sluice.RequestCtx
		ctx.Init(&sluice.Request{}, nil, nil)
		ctx.Request.Header.SetMethod("CONNECT")
		ctx.Request.Header.SetRequestURI(target)
		var r http.Request
		if err := fasthttpadaptor.ConvertRequest(&ctx, &r, true); err != nil || r.URL.String() != want {
			t.Errorf("%s: %v, %v", target, r.URL, err)
		}
	}
}

// A body that a handler retains never reads another request's body.
func TestBodyAfterItsHandler(t *testing.T) {
	kept := make(chan *http.Request, 1)
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { kept <- r })
	onEachEngine(t, h, func(t *testing.T, addr string) {
		ask(t, addr, "POST", "a body")
		r := <-kept
		for range 2 {
			if n, err := r.Body.Read(make([]byte, 1)); n != 0 || err != http.ErrBodyReadAfterClose {
				t.Errorf("read %d, %v", n, err)
			}
		}
	})
}

func TestContextOfARequest(t *testing.T) {
	type key struct{ n int }
	kept := make(chan *http.Request, 1)
	inner := fasthttpadaptor.NewFastHTTPHandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if _, has := ctx.Deadline(); has || ctx.Err() != nil || ctx.Value(http.LocalAddrContextKey) == nil {
			t.Errorf("in the handler: %v, deadline %v", ctx.Err(), has)
		}
		kept <- r
	})
	addr := serve(t, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		for n := range 3 {
			ctx.SetUserValue(key{n}, n)
		}
		inner(ctx)
	}})
	ask(t, addr, "GET", "")
	ctx := (<-kept).Context()
	<-ctx.Done()
	for n := range 3 {
		if got := ctx.Value(key{n}); got != n {
			t.Errorf("value %d is %v", n, got)
		}
	}
	if got := ctx.Value(key{3}); got != nil {
		t.Errorf("a value that was not set: %v", got)
	}
}
