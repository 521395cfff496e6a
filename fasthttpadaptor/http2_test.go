package fasthttpadaptor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

// onHTTP2 runs a test with a client of HTTP/2, with each engine, and with bodies that are
// buffered and streamed. do sends a request.
func onHTTP2(t *testing.T, h http.HandlerFunc, test func(t *testing.T, isStreamed bool, do func(r *http.Request) *http.Response)) {
	for _, e := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		for _, isStreamed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/streamed %v", e, isStreamed), func(t *testing.T) {
				s := &sluice.Server{Handler: fasthttpadaptor.NewFastHTTPHandler(h), Engine: e, StreamRequestBody: isStreamed}
				s.HTTP2.Enable = true
				addr := serve(t, s)
				protocols := &http.Protocols{}
				protocols.SetUnencryptedHTTP2(true)
				transport := &http.Transport{Protocols: protocols, DialContext: func(context.Context, string, string) (net.Conn, error) {
					return net.Dial("tcp", addr)
				}}
				defer transport.CloseIdleConnections()
				test(t, isStreamed, func(r *http.Request) *http.Response {
					resp, err := transport.RoundTrip(r)
					if err != nil {
						t.Fatal(err)
					}
					return resp
				})
			})
		}
	}
}

// TestHTTP2Requests: a handler of net/http sees a request of HTTP/2.
func TestHTTP2Requests(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprintf(w, "%s %s %d %d %s %s %s %q %v %v %s %v", r.Method, r.Proto, r.ProtoMajor, r.ProtoMinor, r.Host, r.URL, r.RequestURI, body, err, r.Trailer, r.TransferEncoding, r.Close)
		w.Header().Set("X-Sum", "2")
	}
	onHTTP2(t, h, func(t *testing.T, _ bool, do func(*http.Request) *http.Response) {
		r, _ := http.NewRequest("POST", "http://example.com/a?b=c", io.MultiReader(strings.NewReader("one"), strings.NewReader("two")))
		r.Trailer = http.Header{"X-Sum": {"1"}}
		resp := do(r)
		got, err := io.ReadAll(resp.Body)
		const want = `POST HTTP/2.0 2 0 example.com /a?b=c /a?b=c "onetwo" <nil> map[X-Sum:[1]] [] false`
		if string(got) != want || err != nil || fmt.Sprint(resp.Trailer) != "map[X-Sum:[2]]" {
			t.Errorf("%s %v %v\nwant %s", got, err, resp.Trailer, want)
		}
	})
}

// TestHTTP2Flush: what is flushed arrives while the handler reads the request.
func TestHTTP2Flush(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if err := c.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		fmt.Fprint(w, "begun;")
		if err := c.Flush(); err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(w, r.Body)
	}
	onHTTP2(t, h, func(t *testing.T, isStreamed bool, do func(*http.Request) *http.Response) {
		body, w := io.Pipe()
		if !isStreamed {
			go func() { fmt.Fprint(w, "body"); w.Close() }()
		}
		r, _ := http.NewRequest("POST", "http://h/", body)
		resp := do(r)
		first := make([]byte, 6)
		if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != "begun;" {
			t.Errorf("%q %v", first, err)
		}
		if isStreamed {
			fmt.Fprint(w, "body")
			w.Close()
		}
		if rest, err := io.ReadAll(resp.Body); string(rest) != "body" || err != nil {
			t.Errorf("%q %v", rest, err)
		}
	})
}

// TestHTTP2Controller: deadlines are of one stream, and there is no connection to hijack.
func TestHTTP2Controller(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/other" {
			return
		}
		c := http.NewResponseController(w)
		if _, _, err := c.Hijack(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Hijack: %v", err)
		}
		if err := c.SetWriteDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Error(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Error(err)
		}
		_, err := io.ReadAll(r.Body)
		fmt.Fprint(w, errors.Is(err, os.ErrDeadlineExceeded))
	}
	onHTTP2(t, h, func(t *testing.T, isStreamed bool, do func(*http.Request) *http.Response) {
		body, w := io.Pipe()
		defer w.Close()
		if !isStreamed {
			w.Close()
		}
		r, _ := http.NewRequest("POST", "http://h/", body)
		resp := do(r)
		if got, err := io.ReadAll(resp.Body); string(got) != fmt.Sprint(isStreamed) {
			t.Errorf("%s %v", got, err)
		}
		other, _ := http.NewRequest("GET", "http://h/other", nil)
		if resp := do(other); resp.StatusCode != 200 {
			t.Error(resp.Status)
		}
	})
}

// TestHTTP2Abort: http.ErrAbortHandler resets the stream, and nothing else.
func TestHTTP2Abort(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/flush" {
			_ = http.NewResponseController(w).Flush()
		}
		if r.URL.Path != "/" {
			panic(http.ErrAbortHandler)
		}
	}
	onHTTP2(t, h, func(t *testing.T, _ bool, do func(*http.Request) *http.Response) {
		r, _ := http.NewRequest("GET", "http://h/flush", nil)
		if _, err := io.ReadAll(do(r).Body); err == nil {
			t.Error("the response is complete")
		}
		r, _ = http.NewRequest("GET", "http://h/", nil)
		do(r)
	})
}

// TestHTTP2BodyCloseEndsRead: a Read that waits returns when the handler closes the body,
// although the client has sent neither the rest nor its end. grpc-go relies on that.
func TestHTTP2BodyCloseEndsRead(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/flush" {
			_ = http.NewResponseController(w).Flush()
		}
		reading, ended := make(chan struct{}), make(chan error)
		go func() {
			_, _ = io.ReadFull(r.Body, make([]byte, 4))
			close(reading)
			_, err := r.Body.Read(make([]byte, 1))
			ended <- err
		}()
		<-reading
		_ = r.Body.Close()
		fmt.Fprint(w, <-ended != nil)
	}
	onHTTP2(t, h, func(t *testing.T, isStreamed bool, do func(*http.Request) *http.Response) {
		if !isStreamed {
			return // the handler runs when the body is complete
		}
		for _, path := range []string{"/", "/flush"} {
			body, w := io.Pipe()
			go fmt.Fprint(w, "body")
			r, _ := http.NewRequest("POST", "http://h"+path, body)
			if got, err := io.ReadAll(do(r).Body); string(got) != "true" || err != nil {
				t.Errorf("%s: %s %v", path, got, err)
			}
			w.Close()
		}
	})
}

// TestHTTP2ReadOutlivesHandler: a Read that waits when the handler returns gets an error,
// and nothing of the requests that follow.
func TestHTTP2ReadOutlivesHandler(t *testing.T) {
	ended := make(chan error)
	h := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/flush" {
			_ = http.NewResponseController(w).Flush()
		}
		reading := make(chan struct{})
		go func() {
			_, _ = io.ReadFull(r.Body, make([]byte, 4))
			close(reading)
			n, err := r.Body.Read(make([]byte, 1))
			if n > 0 {
				err = fmt.Errorf("%d bytes of another request", n)
			}
			ended <- err
		}()
		<-reading
	}
	onHTTP2(t, h, func(t *testing.T, isStreamed bool, do func(*http.Request) *http.Response) {
		if !isStreamed {
			return
		}
		for i := range 100 {
			body, w := io.Pipe()
			go fmt.Fprint(w, "body")
			path := "/"
			if i%2 > 0 {
				path = "/flush"
			}
			r, _ := http.NewRequest("POST", "http://h"+path, body)
			resp := do(r)
			_, _ = io.ReadAll(resp.Body)
			if err := <-ended; err == nil || strings.Contains(err.Error(), "bytes") {
				t.Errorf("the read ends with %v", err)
			}
			w.Close()
		}
	})
}
