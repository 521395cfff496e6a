package http3

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	wire "github.com/sluicehttp/sluice/internal/wire/h3"
	"github.com/sluicehttp/sluice/sse"
	"github.com/sluicehttp/sluice/websocket"
)

// A rawTunnel is the stream of an extended CONNECT.
type rawTunnel struct {
	*quic.Stream
	t      testing.TB
	in     *bufio.Reader
	left   uint64 // of a DATA frame
	status []byte // the section of the head
}

// connect asks for a WebSocket.
func (c *rawConn) connect(path string, fields ...string) *rawTunnel {
	c.t.Helper()
	s := c.open(head("CONNECT", path, append([]string{":protocol", "websocket", "sec-websocket-version", "13"}, fields...)...))
	r := &rawTunnel{Stream: s, t: c.t, in: bufio.NewReader(s)}
	kind, length := r.header()
	if kind != wire.FrameHeaders {
		c.t.Fatalf("frame %v", kind)
	}
	r.status = make([]byte, length)
	if _, err := io.ReadFull(r.in, r.status); err != nil {
		c.t.Fatal(err)
	}
	return r
}

func (r *rawTunnel) header() (kind wire.FrameType, length uint64) {
	var numbers [2]uint64
	for i := range numbers {
		first, err := r.in.Peek(1)
		if err != nil {
			return 0x21, 0
		}
		in, _ := r.in.Peek(1 << (first[0] >> 6))
		n, size := wire.ReadVarint(in)
		r.in.Discard(size)
		numbers[i] = n
	}
	return wire.FrameType(numbers[0]), numbers[1]
}

// Read reads the content of DATA.
func (r *rawTunnel) Read(p []byte) (int, error) {
	for r.left == 0 {
		if _, err := r.in.Peek(1); err != nil {
			return 0, err
		}
		if _, r.left = r.header(); r.left == 0 {
			return 0, io.ErrUnexpectedEOF
		}
	}
	n, err := r.in.Read(p[:min(uint64(len(p)), r.left)])
	r.left -= uint64(n)
	return n, err
}

func (r *rawTunnel) send(p []byte) {
	r.t.Helper()
	if _, err := r.Stream.Write(frame(wire.FrameData, p)); err != nil {
		r.t.Fatal(err)
	}
}

// expect reads as many bytes as want has.
func (r *rawTunnel) expect(want string) {
	r.t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != want {
		r.t.Fatalf("%q, %v; want %q", got, err, want)
	}
}

func (r *rawTunnel) hasStatus(status string) bool {
	return bytes.HasPrefix(r.status[2:], statusLine(status))
}

// A WebSocket of package websocket works over a stream, and ends with 1001 on Shutdown.
func TestWebSocket(t *testing.T) {
	e := &websocket.Endpoint{OnMessage: func(c *websocket.Conn, m websocket.Message) error {
		return c.Write(context.Background(), m.Kind, m.Data)
	}}
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		if err := e.Upgrade(ctx, nil); err != nil {
			t.Error(err)
		}
	}}
	var read, written atomic.Uint64
	s.Control().Meter = &sluice.Meter{BytesRead: &read, BytesWritten: &written}
	addr := serve(t, s, Config{})
	c := dialRaw(t, addr)
	r := c.connect("/")
	if !r.hasStatus("200") {
		t.Fatalf("head %q", r.status)
	}
	for i := range 100 {
		r.send([]byte{0x81, 0x80 | 2, 0, 0, 0, 0, 'a', byte('0' + i%10)})
		r.expect("\x81\x02a" + string(rune('0'+i%10)))
	}
	large := strings.Repeat("x", 40000)
	r.send(append([]byte{0x81, 0x80 | 126, byte(len(large) >> 8), byte(len(large) & 0xff), 0, 0, 0, 0}, large...))
	r.expect("\x81\x7e" + string([]byte{byte(len(large) >> 8), byte(len(large) & 0xff)}) + large)
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown() }()
	last := make([]byte, 2)
	if _, err := io.ReadFull(r, last); err != nil || last[0] != 0x88 || last[1] < 2 {
		t.Fatalf("close frame %q, %v", last, err)
	}
	reason := make([]byte, last[1])
	if _, err := io.ReadFull(r, reason); err != nil || string(reason[:2]) != "\x03\xe9" {
		t.Fatalf("close frame with %q, %v", reason, err)
	}
	r.send([]byte{0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe9})
	if rest, err := io.ReadAll(r); err != nil || len(rest) != 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for what, n := range map[string]uint64{"read": read.Load(), "written": written.Load()} {
		if n < uint64(len(large)) || n > uint64(len(large))*3/2 {
			t.Errorf("%d bytes are counted as %s", n, what)
		}
	}
}

// Hijack handlers get a net.Conn over the stream.
func TestHijack(t *testing.T) {
	ended := make(chan error, 1)
	v, addr := serveHTTP3(t, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		switch string(ctx.Path()) {
		case "/self":
			ctx.HijackSetNoResponse(true)
		case "/refused":
			ctx.SetStatusCode(403)
			ctx.SetBodyString("no")
			return
		default:
			ctx.SetStatusCode(101)
		}
		self := string(ctx.Path()) == "/self"
		ctx.Hijack(func(c net.Conn) {
			if self {
				fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nX-Self: 1\r\n\r\n")
			}
			_, err := io.Copy(c, c)
			ended <- err
		})
	}}, Config{})
	c := dialRaw(t, addr)
	for _, path := range []string{"/", "/self"} {
		r := c.connect(path)
		if !r.hasStatus("200") {
			t.Fatalf("%s: head %q", path, r.status)
		}
		for range 10 {
			r.send([]byte("echo "))
			r.expect("echo ")
		}
		large := strings.Repeat("0123456789", 20000)
		go func() {
			r.send([]byte(large))
			r.Close()
		}()
		if got, err := io.ReadAll(r); err != nil || string(got) != large {
			t.Errorf("%s: %d bytes, %v", path, len(got), err)
		}
		if err := <-ended; err != nil {
			t.Errorf("%s: the handler ends with %v", path, err)
		}
	}
	if r := c.connect("/refused"); !r.hasStatus("403") {
		t.Errorf("refused: head %q", r.status)
	} else if got, err := io.ReadAll(r); err != nil || string(got) != "no" {
		t.Errorf("refused: %q, %v", got, err)
	}
	r := c.connect("/")
	r.CancelWrite(quic.StreamErrorCode(wire.RequestCancelled))
	if err := <-ended; !errors.Is(err, errTunnelReset) {
		t.Errorf("reset: %v", err)
	}
	c.connect("/")
	c.CloseWithError(0, "")
	if err := <-ended; err == nil {
		t.Error("the connection's end: no error")
	}
	if !nettest.Poll(10*time.Second, func() bool { return v.Stats().Connections == 0 }) {
		t.Errorf("%+v", v.Stats())
	}
}

// A request without CONNECT cannot be hijacked.
func TestHijackNeedsConnect(t *testing.T) {
	addr := serve(t, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		ctx.Hijack(func(net.Conn) { t.Error("called") })
	}}, Config{})
	if resp, _ := fetch(t, newClient(t), request(t, "GET", "https://"+addr+"/", "")); resp.StatusCode != 501 {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// Shutdown cuts tunnels that no other request keeps alive.
func TestShutdownCutsTunnels(t *testing.T) {
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		ctx.SetStatusCode(101)
		ctx.Hijack(func(c net.Conn) { io.Copy(io.Discard, c) })
	}}
	c := dialRaw(t, serve(t, s, Config{}))
	r := c.connect("/")
	if err := s.Shutdown(); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(r); err == nil {
		t.Error("the tunnel ends in order")
	}
}

// DisableWebSocket refuses extended CONNECT.
func TestDisableWebSocket(t *testing.T) {
	c := dialRaw(t, serve(t, &sluice.Server{Handler: echo}, Config{DisableWebSocket: true}))
	_, err := c.exchange(head("CONNECT", "/", ":protocol", "websocket"))
	var reset *quic.StreamError
	if !errors.As(err, &reset) || wire.Code(reset.ErrorCode) != wire.MessageError {
		t.Errorf("%v", err)
	}
}

// Server-sent events of package sse arrive, with heartbeats; a client that goes away leaves.
func TestEvents(t *testing.T) {
	hub, err := sse.New(sse.Options{Heartbeat: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		if err := hub.Serve(ctx, "a"); err != nil {
			t.Error(err)
		}
	}}
	addr := serve(t, s, Config{})
	client := newClient(t)
	joined := func(n int) bool {
		return nettest.Poll(10*time.Second, func() bool { return hub.Stats().Streams == n })
	}
	get := func() *http.Response {
		resp, err := client.Get("https://" + addr + "/")
		if err != nil || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatal(resp, err)
		}
		return resp
	}
	first, second := get(), get()
	defer second.Body.Close()
	if !joined(2) {
		t.Fatalf("%+v", hub.Stats())
	}
	for i := range 500 {
		if err := hub.Publish("a", sse.Event{Data: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, resp := range []*http.Response{first, second} {
		r := sse.NewReader(resp.Body)
		for i := range 500 {
			if e, err := r.Next(); err != nil || string(e.Data) != fmt.Sprint(i) {
				t.Fatalf("event %q, %v, want %d", e.Data, err, i)
			}
		}
	}
	first.Body.Close()
	if !joined(1) {
		t.Errorf("one has left: %+v", hub.Stats())
	}
	beats := bufio.NewReader(second.Body)
	for n := 0; n < 3; {
		line, err := beats.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == ":\n" {
			n++
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown() }()
	if _, err := io.ReadAll(beats); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
