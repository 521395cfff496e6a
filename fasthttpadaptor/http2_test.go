package fasthttpadaptor_test

import (
	"bytes"
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

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

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

// TestHTTP2Hijack: an extended CONNECT (RFC 8441) can be hijacked. The connection works
// while the handler runs and afterwards; the head of HTTP/1.1 that the handler writes, or
// sets, becomes one of HTTP/2.
func TestHTTP2Hijack(t *testing.T) {
	hijack := func(w http.ResponseWriter) net.Conn {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Errorf("Hijack: %v", err)
			panic(http.ErrAbortHandler)
		}
		return c
	}
	echo := func(c net.Conn, count int) {
		p := make([]byte, 4)
		for range count {
			if _, err := io.ReadFull(c, p); err != nil {
				t.Errorf("Read: %v", err)
			}
			_, _ = c.Write(p)
		}
	}
	for name, open := range map[string]func(w http.ResponseWriter) net.Conn{
		"written": func(w http.ResponseWriter) net.Conn {
			c := hijack(w)
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nX-Own: a\r\n\r\n")
			return c
		},
		"set": func(w http.ResponseWriter) net.Conn {
			w.Header().Set("X-Own", "a")
			w.WriteHeader(http.StatusSwitchingProtocols)
			return hijack(w)
		},
	} {
		for _, e := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
			h := func(w http.ResponseWriter, r *http.Request) {
				c := open(w)
				echo(c, 1)
				go func() {
					echo(c, 1)
					c.Close()
				}()
			}
			s := &sluice.Server{Handler: fasthttpadaptor.NewFastHTTPHandler(http.HandlerFunc(h)), Engine: e}
			got, err := talk(dial(t, serve(t, s)))
			if got != "200apingpong" || err != nil {
				t.Errorf("%s, %v: got %q, %v", name, e, got, err)
			}
		}
	}
}

// talk opens a tunnel, says ping and pong, and returns the status, the field x-own, and
// what came back.
func talk(c net.Conn) (got string, err error) {
	_, _ = io.WriteString(c, http2.ClientPreface)
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", "CONNECT"}, {":protocol", "websocket"}, {":scheme", "http"}, {":authority", "h"}, {":path", "/"}} {
		_ = encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	_ = f.WriteSettings()
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return got, err
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			got += frame.PseudoValue("status")
			for _, field := range frame.RegularFields() {
				if field.Name == "x-own" {
					got += field.Value
				}
			}
			_ = f.WriteData(1, false, []byte("ping"))
		case *http2.DataFrame:
			got += string(frame.Data())
			if frame.StreamEnded() {
				return got, nil
			}
			_ = f.WriteData(1, false, []byte("pong"))
		}
	}
}
