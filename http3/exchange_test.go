package http3

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice"
	wire "github.com/sluicehttp/sluice/internal/wire/h3"
)

// echo answers with what it got of a request.
func echo(ctx *sluice.RequestCtx) {
	ctx.Response.Header.Set("X-Protocol", string(ctx.Request.Header.Protocol()))
	fmt.Fprintf(ctx, "%s %s %s %d %x", ctx.Method(), ctx.Host(), ctx.RequestURI(), len(ctx.PostBody()), sha256.Sum256(ctx.PostBody()))
}

// Requests of another implementation get whole answers.
func TestRequests(t *testing.T) {
	addr := serve(t, &sluice.Server{Handler: echo}, Config{})
	client := newClient(t)
	large := strings.Repeat("0123456789abcdef", 20000)
	for _, r := range []struct{ method, path, body string }{
		{"GET", "/a?b=c", ""},
		{"HEAD", "/a", ""},
		{"POST", "/small", "hello"},
		{"POST", "/4k", large[:4096]},
		{"PUT", "/large", large},
		{"DELETE", "/none", ""},
	} {
		resp, body := fetch(t, client, request(t, r.method, "https://"+addr+r.path, r.body))
		want := fmt.Sprintf("%s %s %s %d %x", r.method, addr, r.path, len(r.body), sha256.Sum256([]byte(r.body)))
		if r.method == "HEAD" {
			want = ""
		}
		if resp.StatusCode != 200 || body != want {
			t.Errorf("%s %s: %d %q, want %q", r.method, r.path, resp.StatusCode, body, want)
		}
		if got := resp.Header.Get("X-Protocol"); got != "HTTP/3.0" {
			t.Errorf("%s %s: protocol %q", r.method, r.path, got)
		}
		if resp.Header.Get("Date") == "" || resp.Header.Get("Content-Length") == "" {
			t.Errorf("%s %s: fields %v", r.method, r.path, resp.Header)
		}
	}
}

// Answers of all sizes arrive, of many requests at once.
func TestAnswers(t *testing.T) {
	content := bytes.Repeat([]byte("sluice and h3 "), 100000)
	addr := serve(t, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		n, _ := ctx.QueryArgs().GetUint("n")
		ctx.SetBody(content[:n])
	}}, Config{})
	client := newClient(t)
	var wg sync.WaitGroup
	for _, n := range []int{0, 1, 1000, 4000, 4096, 5000, 32768, 33000, 70000, 1400000} {
		for range 4 {
			wg.Go(func() {
				resp, err := client.Get(fmt.Sprintf("https://%s/?n=%d", addr, n))
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				if body, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(body, content[:n]) {
					t.Errorf("%d bytes: %d, %v", n, len(body), err)
				}
			})
		}
	}
	wg.Wait()
}

// Streamed bodies, trailer fields and interim responses go through in both directions.
func TestStreams(t *testing.T) {
	addr := serve(t, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
		switch string(ctx.Path()) {
		case "/echo":
			ctx.SetBodyStream(ctx.RequestBodyStream(), -1)
		case "/trailer":
			body, err := io.ReadAll(ctx.RequestBodyStream())
			ctx.Response.Header.Set("Trailer", "X-Sum")
			fmt.Fprintf(ctx, "%s %s %v", body, ctx.Request.Header.Peek("X-Check"), err)
			ctx.Response.Header.Set("X-Sum", "42")
		case "/hints":
			ctx.Response.Header.Add("Link", "</a.css>; rel=preload")
			if err := ctx.EarlyHints(); err != nil {
				t.Error(err)
			}
			ctx.SetBodyString("hinted")
		}
	}}, Config{})
	client := newClient(t)
	large := strings.Repeat("abcdefgh", 50000)
	if _, body := fetch(t, client, request(t, "POST", "https://"+addr+"/echo", large)); body != large {
		t.Errorf("echo: %d bytes", len(body))
	}
	r := request(t, "POST", "https://"+addr+"/trailer", "body")
	r.ContentLength = -1
	r.Trailer = http.Header{"X-Check": {"7"}}
	resp, body := fetch(t, client, r)
	if body != "body 7 <nil>" || resp.Trailer.Get("X-Sum") != "42" {
		t.Errorf("trailer: %q, %v", body, resp.Trailer)
	}
	if _, body := fetch(t, client, request(t, "GET", "https://"+addr+"/hints", "")); body != "hinted" {
		t.Errorf("hints: %q", body)
	}
}

// Violations end the stream or the connection with the code of the RFC.
func TestViolations(t *testing.T) {
	addr := serve(t, &sluice.Server{Handler: echo, ReadBufferSize: 4096}, Config{})
	long := strings.Repeat("x", 5000)
	for _, row := range []struct {
		name    string
		send    []byte
		stream  wire.Code // 0: the connection
		conn    wire.Code
		status  string // of an answer
		remains bool   // the client does not end the stream
	}{
		{name: "DATA first", send: data("x"), conn: wire.FrameUnexpected},
		{name: "no head", send: nil, stream: wire.RequestIncomplete},
		{name: "half a head", send: get("/")[:5], conn: wire.FrameError},
		{name: "SETTINGS", send: frame(wire.FrameSettings, nil), conn: wire.FrameUnexpected},
		{name: "HTTP/2 frame", send: frame(0x6, nil), conn: wire.FrameUnexpected},
		{name: "dynamic table", send: frame(wire.FrameHeaders, []byte{0, 0, 0x80}), conn: wire.DecompressionFailed},
		{name: "capital letter", send: get("/", "X-A", "b"), stream: wire.MessageError},
		{name: "connection field", send: get("/", "connection", "close"), stream: wire.MessageError},
		{name: "short body", send: concat(head("POST", "/", "content-length", "5"), data("abc")), stream: wire.MessageError},
		{name: "long body", send: concat(head("POST", "/", "content-length", "2"), data("abc")), stream: wire.MessageError},
		{name: "no body", send: head("POST", "/", "content-length", "2"), stream: wire.MessageError},
		{name: "after trailer", send: concat(head("POST", "/"), data("abc"), frame(wire.FrameHeaders, []byte{0, 0}), data("x")), conn: wire.FrameUnexpected},
		{name: "pseudo-field in trailer", send: concat(head("POST", "/"), get("/")), stream: wire.MessageError},
		{name: "large head", send: get("/", "x-long", long), status: "431"},
		{name: "large body", send: head("POST", "/", "content-length", "99999999"), status: "413", remains: true},
		{name: "unknown frame", send: concat(frame(0x21, []byte("x")), get("/"), frame(0x21*2, nil)), status: "200"},
	} {
		c := dialRaw(t, addr)
		s := c.open(row.send)
		if !row.remains {
			s.Close()
		}
		got, err := io.ReadAll(s)
		var reset *quic.StreamError
		switch {
		case row.conn != 0:
			if code := c.closedWith(); code != row.conn {
				t.Errorf("%s: the connection has ended with %v", row.name, code)
			}
		case row.stream != 0:
			if !errors.As(err, &reset) || wire.Code(reset.ErrorCode) != row.stream {
				t.Errorf("%s: %q, %v", row.name, got, err)
			}
		case err != nil || !bytes.Contains(got, statusLine(row.status)):
			t.Errorf("%s: %q, %v", row.name, got, err)
		}
		if row.conn == 0 && c.Context().Err() != nil {
			t.Errorf("%s: the connection has ended", row.name)
		}
		c.CloseWithError(0, "")
	}
}

// statusLine returns a status as the server encodes it.
func statusLine(status string) []byte {
	code := 0
	fmt.Sscan(status, &code)
	var e wire.Encoder
	return e.AppendStatus(nil, code)
}

// A handler that has nothing to send learns by Flush, too, that the client takes no more.
func TestFlushAfterStop(t *testing.T) {
	flushed := make(chan error, 2)
	addr := serve(t, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		done := ctx.Done()
		flushed <- ctx.Flush()
		<-done
		flushed <- ctx.Flush()
	}}, Config{})
	s := dialRaw(t, addr).open(get("/"))
	s.Close()
	if err := <-flushed; err != nil {
		t.Error(err)
	}
	s.CancelRead(quic.StreamErrorCode(wire.RequestCancelled))
	if err := <-flushed; err != sluice.ErrConnectionClosed {
		t.Errorf("after STOP_SENDING: %v", err)
	}
}

// A client that gives up makes Done of the handler's context close.
func TestDone(t *testing.T) {
	gone, begun := make(chan bool), make(chan bool)
	addr := serve(t, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		done := ctx.Done()
		begun <- true
		select {
		case <-done:
			gone <- true
		case <-time.After(20 * time.Second):
			gone <- false
		}
	}}, Config{})
	c := dialRaw(t, addr)
	s := c.open(get("/"))
	s.Close()
	<-begun
	s.CancelRead(quic.StreamErrorCode(wire.RequestCancelled))
	if !<-gone {
		t.Error("STOP_SENDING: Done is not closed")
	}
	s = c.open(get("/"))
	s.Close()
	<-begun
	c.CloseWithError(0, "")
	if !<-gone {
		t.Error("end of the connection: Done is not closed")
	}
}
