package http3

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	peer "github.com/quic-go/quic-go/http3"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	wire "github.com/sluicehttp/sluice/internal/wire/h3"
)

// What handlers do beyond a plain answer works as over HTTP/2.
func TestHandlers(t *testing.T) {
	content := bytes.Repeat([]byte("file "), 50000)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	stream := ""
	for i := range 100 {
		stream += fmt.Sprintf("%d,", i)
	}
	late := make(chan bool)
	s := &sluice.Server{Logger: discard{}, Handler: func(ctx *sluice.RequestCtx) {
		switch string(ctx.Path()) {
		case "/panic":
			panic("expected")
		case "/abort":
			ctx.SetBodyString("never seen")
			panic(sluice.ErrAbortHandler)
		case "/file":
			ctx.SendFile(file)
		case "/timeout":
			go func() { <-late; ctx.SetBodyString("dropped") }()
			ctx.TimeoutError("too late")
		case "/close":
			ctx.Conn().Close()
		case "/conn":
			_, err := ctx.Conn().Write([]byte("x"))
			fmt.Fprintf(ctx, "%v %v %v %d", err == sluice.ErrNotSupportedHTTP2, ctx.IsTLS(), ctx.TLSConnectionState().NegotiatedProtocol, ctx.ProtoMajor())
		case "/short":
			ctx.SetBodyStream(strings.NewReader("short"), 100)
		case "/stream":
			ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
				for i := range 100 {
					fmt.Fprintf(w, "%d,", i)
					w.Flush()
				}
			})
		}
	}}
	addr := serve(t, s, Config{})
	client := newClient(t)
	for _, row := range []struct {
		path, want string
		status     int
	}{
		{"/panic", "Internal Server Error", 500}, {"/timeout", "too late", 408}, {"/stream", stream, 200}, {"/file", string(content), 200}, {"/conn", "true true h3 3", 200},
	} {
		if resp, body := fetch(t, client, request(t, "GET", "https://"+addr+row.path, "")); resp.StatusCode != row.status || body != row.want {
			t.Errorf("%s: %d %.40q", row.path, resp.StatusCode, body)
		}
	}
	for path, want := range map[string]wire.Code{"/abort": wire.InternalError, "/close": wire.RequestCancelled, "/short": wire.InternalError} {
		resp, err := client.Get("https://" + addr + path)
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		var reset *peer.Error
		if !errors.As(err, &reset) || wire.Code(reset.ErrorCode) != want {
			t.Errorf("%s: the answer ends with %v, want %v", path, err, want)
		}
	}
	close(late)
}

type discard struct{}

func (discard) Printf(string, ...any) {}

// A client that waits for 100-continue gets it, or the refusal without having sent its body.
func TestExpectContinue(t *testing.T) {
	for _, isStreamed := range []bool{false, true} {
		addr := serve(t, &sluice.Server{
			StreamRequestBody: isStreamed,
			ContinueHandler:   func(h *sluice.RequestHeader) bool { return len(h.Peek("X-Refuse")) == 0 },
			Handler: func(ctx *sluice.RequestCtx) {
				var body []byte
				if isStreamed {
					body, _ = io.ReadAll(ctx.RequestBodyStream())
				} else {
					body = ctx.PostBody()
				}
				fmt.Fprintf(ctx, "got %s", body)
			},
		}, Config{})
		c := dialRaw(t, addr)
		s := c.open(head("POST", "/", "expect", "100-continue", "content-length", "4"))
		first := make([]byte, 64)
		n, err := s.Read(first)
		if err != nil || !bytes.Contains(first[:n], statusLine("100")) {
			t.Fatalf("%v: %q, %v", isStreamed, first[:n], err)
		}
		s.Write(data("body"))
		s.Close()
		if rest, err := io.ReadAll(s); err != nil || !bytes.HasSuffix(rest, []byte("got body")) {
			t.Errorf("%v: %q, %v", isStreamed, rest, err)
		}
		s = c.open(head("POST", "/", "expect", "100-continue", "content-length", "4", "x-refuse", "1"))
		if answer, err := io.ReadAll(s); err != nil || !bytes.Contains(answer, statusLine("417")) {
			t.Errorf("%v: refused: %q, %v", isStreamed, answer, err)
		}
	}
}

// The parts of a streamed body reach the handler before the body ends, and its answer the client.
func TestConversation(t *testing.T) {
	addr := serve(t, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
		ctx.SetBodyStream(ctx.RequestBodyStream(), -1)
	}}, Config{})
	c := dialRaw(t, addr)
	s := c.open(head("POST", "/"))
	r := &rawTunnel{Stream: s, t: t, in: bufio.NewReader(s)}
	if _, length := r.header(); length > 0 {
		io.CopyN(io.Discard, r.in, int64(length))
	}
	for i := range 50 {
		part := fmt.Sprintf("part %d,", i)
		r.send([]byte(part))
		r.expect(part)
	}
	s.Close()
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
}

// A client that resets its body makes the handler's read fail, and Done close.
func TestBodyReset(t *testing.T) {
	begun, ended := make(chan bool), make(chan error, 1)
	addr := serve(t, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
		done := ctx.Done()
		begun <- true
		_, err := io.ReadAll(ctx.RequestBodyStream())
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			err = errors.New("Done is open")
		}
		ended <- err
	}}, Config{})
	s := dialRaw(t, addr).open(concat(head("POST", "/"), data("x")))
	<-begun
	s.CancelWrite(quic.StreamErrorCode(wire.RequestCancelled))
	if err := <-ended; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
}

// The read deadline of a handler bounds the wait for the body.
func TestReadDeadline(t *testing.T) {
	addr := serve(t, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
		if err := ctx.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Error(err)
		}
		_, err := io.ReadAll(ctx.RequestBodyStream())
		fmt.Fprint(ctx, errors.Is(err, os.ErrDeadlineExceeded))
	}}, Config{})
	s := dialRaw(t, addr).open(concat(head("POST", "/"), data("x")))
	if answer, err := io.ReadAll(s); err != nil || !bytes.HasSuffix(answer, []byte("true")) {
		t.Errorf("%q, %v", answer, err)
	}
}

// ConnState, the Meter and MaxRequestsPerConn know of the connections.
func TestConnections(t *testing.T) {
	var states [5]atomic.Int32
	s := &sluice.Server{MaxRequestsPerConn: 3, Handler: echo, ConnState: func(c net.Conn, state sluice.ConnState) {
		if c.RemoteAddr() == nil {
			t.Error("no address")
		}
		states[state].Add(1)
	}}
	addr := serve(t, s, Config{})
	c := dialRaw(t, addr)
	for range 3 {
		if _, err := c.exchange(get("/")); err != nil {
			t.Fatal(err)
		}
	}
	if code := c.closedWith(); code != wire.NoError {
		t.Errorf("closed with %v", code)
	}
	if !nettest.Poll(10*time.Second, func() bool { return states[sluice.StateClosed].Load() == 1 }) ||
		states[sluice.StateNew].Load() != 1 || states[sluice.StateActive].Load() < 1 || states[sluice.StateIdle].Load() < 1 {
		t.Errorf("states: %v", &states)
	}
}

// CloseOnNextResponse moves clients to new connections without an error. The client is ours:
// that of quic-go fails requests that it begins while GOAWAY arrives.
func TestCloseOnNextResponse(t *testing.T) {
	s := &sluice.Server{Handler: echo}
	addr := serve(t, s, Config{})
	client := &sluice.Client{TLSConfig: clientTLS.Clone(), Transport: &Transport{Mode: Only}}
	defer client.CloseIdleConnections()
	get := func() {
		t.Helper()
		if status, _, err := client.Get(nil, "https://"+addr+"/"); err != nil || status != 200 {
			t.Fatalf("status %d, %v", status, err)
		}
	}
	get()
	s.Control().CloseOnNextResponse()
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
		get()
	}
}

// A handler that blocks delays no other request of its connection.
func TestBlockedHandler(t *testing.T) {
	goOn := make(chan bool)
	addr := serve(t, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		if string(ctx.Path()) == "/blocks" {
			<-goOn
		}
	}}, Config{})
	c := dialRaw(t, addr)
	blocked := c.open(get("/blocks"))
	blocked.Close()
	burst(t, c.Conn, get("/"), 100)
	close(goOn)
	if answer, err := io.ReadAll(blocked); err != nil || len(answer) == 0 {
		t.Errorf("%q, %v", answer, err)
	}
}
