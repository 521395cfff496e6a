package http2_test

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/wire/h2"
	"github.com/sluicehttp/sluice/test/harness"
)

// A steadyHTTP2 is a client of HTTP/2 that costs nothing itself: one request after the
// other on one connection.
type steadyHTTP2 struct {
	tb     testing.TB
	conn   net.Conn
	block  []byte // of every request
	body   []byte
	stream uint32
	buffer []byte
}

// newSteadyHTTP2 has engine serve a handler that does what users' handlers do.
func newSteadyHTTP2(tb testing.TB, engine sluice.Engine, bodySize int) *steadyHTTP2 {
	s := &sluice.Server{Engine: engine, Logger: harness.QuietLogger{}, Handler: func(ctx *sluice.RequestCtx) {
		if ctx.Request.Header.ConnectionUpgrade() {
			ctx.SetStatusCode(sluice.StatusSwitchingProtocols)
			ctx.Hijack(echoAll)
			return
		}
		if string(ctx.Path()) != "/articles" || len(ctx.UserAgent()) == 0 || string(ctx.QueryArgs().Peek("page")) != "2" || len(ctx.PostBody()) != bodySize {
			ctx.SetStatusCode(sluice.StatusBadRequest)
			return
		}
		ctx.SetContentType("text/plain")
		ctx.WriteString("Hello, World!")
	}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = conn.Close()
		_ = ln.Close() // Serve may not have begun
		if err := s.Shutdown(); err != nil {
			tb.Error(err)
		}
		<-served
	})
	c := &steadyHTTP2{tb: tb, conn: conn, body: make([]byte, bodySize), stream: 1, buffer: make([]byte, 0, 8<<10)}
	c.block = append(c.block, 0x82, 0x86) // GET, http
	if bodySize > 0 {
		c.block[0] = 0x83 // POST
	}
	for _, field := range []struct {
		index byte
		value string
	}{{0x01, "h"}, {0x04, "/articles?page=2"}, {0x0f, ""}} {
		c.block = append(c.block, field.index)
		if field.index == 0x0f { // user-agent is number 58
			c.block = append(c.block, 58-15)
			field.value = "Mozilla/5.0"
		}
		c.block = append(append(c.block, byte(len(field.value))), field.value...)
	}
	own, inForce := h2.DefaultSettings(), h2.DefaultSettings()
	first := append([]byte(h2.Preface), h2.AppendSettings(nil, &own, &inForce)...)
	if _, err := conn.Write(h2.AppendSettingsAck(first)); err != nil {
		tb.Fatal(err)
	}
	return c
}

// exchange sends a request and reads its response, and gives back the window.
func (c *steadyHTTP2) exchange() {
	const window = 13 // of the response's content
	out := h2.AppendWindowUpdate(c.buffer[:0], 0, window)
	out = h2.AppendHeaders(out, c.stream, c.block, len(c.body) == 0, h2.MinMaxFrameSize)
	if len(c.body) > 0 {
		out = append(h2.AppendDataHead(out, c.stream, len(c.body), true), c.body...)
	}
	if _, err := c.conn.Write(out); err != nil {
		c.tb.Fatal(err)
	}
	for !c.readFrame() {
	}
	c.stream += 2
}

// The parts of a frame's head (RFC 9113 section 4.1).
const (
	frameHead    = 9
	frameHeaders = 1
	endStream    = 1
)

// readFrame reads a frame, and reports whether it was the last one of the response.
func (c *steadyHTTP2) readFrame() (isLast bool) {
	kind, flags, stream, payload := c.nextFrame()
	if kind == frameHeaders && payload[0] != 0x88 { // 200
		c.tb.Fatalf("head %x", payload)
	}
	return stream == c.stream && kind <= frameHeaders && flags&endStream != 0
}

func (c *steadyHTTP2) nextFrame() (kind, flags byte, stream uint32, payload []byte) {
	head := c.buffer[:frameHead]
	if _, err := io.ReadFull(c.conn, head); err != nil {
		c.tb.Fatal(err)
	}
	length := int(head[0])<<16 | int(binary.BigEndian.Uint16(head[1:]))
	kind, flags, stream = head[3], head[4], binary.BigEndian.Uint32(head[5:])
	payload = c.buffer[:length]
	if _, err := io.ReadFull(c.conn, payload); err != nil {
		c.tb.Fatal(err)
	}
	return kind, flags, stream, payload
}

// TestHTTP2SteadyState: a request of HTTP/2 costs no allocation, through the whole
// server. EnginePerConn passes a Task to a goroutine, and a response interrupts a read,
// whose error package net allocates.
func TestHTTP2SteadyState(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector allocates")
	}
	for _, engine := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		if engine == sluice.EngineEpoll && (&sluice.Server{}).EngineInfo(nil).Engine != sluice.EngineEpoll {
			continue
		}
		for name, size := range map[string]int{"GET": 0, "POST of 1 KiB": 1 << 10} {
			t.Run(strings.Join([]string{engine.String(), name}, "/"), func(t *testing.T) {
				c := newSteadyHTTP2(t, engine, size)
				for range 100 {
					c.exchange()
				}
				most := 0.0
				if engine == sluice.EnginePerConn {
					most = 2
				}
				if n := testing.AllocsPerRun(2000, c.exchange); n > most {
					t.Errorf("%v allocations, want at most %v", n, most)
				}
			})
		}
	}
}

// echoAll echoes with one buffer.
func echoAll(c net.Conn) {
	p := make([]byte, 4<<10)
	for {
		n, err := c.Read(p)
		if err != nil {
			return
		}
		if _, err := c.Write(p[:n]); err != nil {
			return
		}
	}
}

// TestTunnelSteadyState: Read and Write of a WebSocket over HTTP/2 allocate nothing, through
// the whole server. Of EnginePerConn, see TestHTTP2SteadyState.
func TestTunnelSteadyState(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector allocates")
	}
	for _, engine := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		if engine == sluice.EngineEpoll && (&sluice.Server{}).EngineInfo(nil).Engine != sluice.EngineEpoll {
			continue
		}
		for _, size := range []int{1, 1 << 10, 4 << 10} {
			c := newSteadyHTTP2(t, engine, 0)
			// CONNECT; http, and the path /; the protocol
			block := append([]byte{0x02, 7}, "CONNECT\x86\x84\x01\x01h\x00\x09:protocol\x09websocket"...)
			out := h2.AppendHeaders(nil, c.stream, block, false, h2.MinMaxFrameSize)
			message := make([]byte, size)
			exchange := func() {
				out = h2.AppendWindowUpdate(h2.AppendWindowUpdate(out, 0, uint32(size)), c.stream, uint32(size))
				out = append(h2.AppendDataHead(out, c.stream, size, false), message...)
				if _, err := c.conn.Write(out); err != nil {
					t.Fatal(err)
				}
				out = out[:0]
				for left := size; left > 0; {
					if kind, _, _, payload := c.nextFrame(); kind == 0 {
						left -= len(payload)
					}
				}
			}
			for range 100 {
				exchange()
			}
			most := 0.0
			if engine == sluice.EnginePerConn {
				most = 2
			}
			if n := testing.AllocsPerRun(2000, exchange); n > most {
				t.Errorf("%v, %d bytes: %v allocations, want at most %v", engine, size, n, most)
			}
		}
	}
}
