package http2_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"golang.org/x/net/http2"
)

// TestHTTP2StreamMemory: what an open stream of HTTP/2 costs while something is waited
// for: 100 connections have 100 of them each.
func TestHTTP2StreamMemory(t *testing.T) {
	skipHTTP2Memory(t)
	t.Parallel() // it mostly waits
	const conns, streams = 100, 100
	for _, test := range []struct {
		kind  string
		limit int // bytes for each stream
		open  func(c *idleClient)
	}{
		{"blocked", 9500, func(c *idleClient) { c.begin(true, ":path", "/wait") }},
		{"buffered", 2560, func(c *idleClient) { c.beginBody("/") }},
		{"streamed", 10 << 10, func(c *idleClient) { c.beginBody("/read") }},
		{"stalled", 1536, func(c *idleClient) { c.begin(true, ":path", "/large") }},
	} {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			s := newIdleHTTP2(t, test.kind)
			before := s.memory()
			for range conns {
				c := s.dial()
				defer c.Close()
				if test.kind == "stalled" {
					c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
				}
				for range streams {
					test.open(c)
				}
				if test.kind == "stalled" {
					c.readHeads(streams)
				}
			}
			s.awaitStreams(conns * streams)
			s.awaitMemory(before, conns*streams, test.limit)
		})
	}
}

// beginBody begins a request whose body does not end.
func (c *idleClient) beginBody(path string) {
	stream := c.stream
	c.begin(false, ":path", path, "content-length", "1000")
	c.framer.WriteData(stream, false, make([]byte, 100))
}

// readHeads reads the heads of count responses.
func (c *idleClient) readHeads(count int) {
	for count > 0 {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			c.t.Fatal(err)
		}
		if _, ok := frame.(*http2.HeadersFrame); ok {
			count--
		}
	}
}

// awaitStreams waits until count streams are open, and their handlers wait.
func (s *idleHTTP2) awaitStreams(count int) {
	want := fmt.Sprint(count, count)
	if s.kind == "buffered" || s.kind == "stalled" {
		want = fmt.Sprint(count, 0)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		fmt.Fprintln(s.in, "streams")
		got := s.line()
		if got == want {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("streams and handlers: %s, want %s", got, want)
		}
	}
}

// A waitingHandler answers requests late, if at all.
type waitingHandler struct {
	running, begun atomic.Int64
	large          []byte
}

func (h *waitingHandler) serve(ctx *sluice.RequestCtx) {
	h.running.Add(1)
	defer h.running.Add(-1)
	h.begun.Add(1)
	switch string(ctx.Path()) {
	case "/wait":
		<-ctx.Done()
	case "/read":
		_, _ = ctx.RequestBodyStream().Read(make([]byte, 200))
		_, _ = ctx.RequestBodyStream().Read(make([]byte, 200))
	case "/large":
		ctx.Response.SetBodyRaw(h.large)
	default:
		if h.serveFresh(ctx) {
			return
		}
		fmt.Fprint(ctx, ctx.ConnRequestNum(), ctx.IsTLS())
	}
}

func newWaitingHandler() *waitingHandler {
	return &waitingHandler{large: bytes.Repeat([]byte("x"), 100<<10)}
}
