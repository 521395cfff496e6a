package websocket

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/server/http2/http2test"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// TestHTTP2Goroutines: WebSockets over HTTP/2 hold none while they are idle, and go on after
// they have slept.
func TestHTTP2Goroutines(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		var g Group
		f := startEndpoint(t, e, &Endpoint{OnOpen: g.Add, OnMessage: echoMessage, ReadLimit: 1 << 20, MaxPending: 1 << 20})
		w := newWire(t, f.addr, 64<<10)
		first, stream := w.open()
		first.raw(masked(ws.OpText, "hi"))
		first.expect("text hi")
		before := runtime.NumGoroutine()
		all, streams := []*client{first}, []*http2test.Stream{stream}
		for range 100 {
			c, s := w.open()
			c.raw(masked(ws.OpText, "hi"))
			c.expect("text hi")
			all, streams = append(all, c), append(streams, s)
		}
		eventually(t, "the workers end, but for some", func() bool { return runtime.NumGoroutine() < before+30 })
		for i := range 3 {
			if n := g.Broadcast(Prepare(Text, []byte("news")), nil); n != len(all) {
				t.Errorf("the news go to %d", n)
			}
			for _, c := range all {
				c.expect("text news")
				if i == 1 {
					c.raw(part(ws.OpText, longText[:40_000]))
				}
			}
		}
		for i, c := range all {
			rest := masked(ws.OpContinuation, longText[40_000:])
			eventually(t, "the server gives credit for the rest", func() bool { return streams[i].Window() >= len(rest) })
			c.raw(rest)
			c.expect(long("text", longText))
		}
	})
}

// TestHTTP2Blocked: an OnMessage that blocks keeps the window of its stream, and delays no
// other stream.
func TestHTTP2Blocked(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		goOn, entered := make(chan bool), make(chan bool, 1)
		var count atomic.Int32
		f := startEndpoint(t, e, &Endpoint{OnMessage: func(c *Conn, m Message) error {
			if count.Add(1); m.Kind == Binary && len(m.Data) == 1000 {
				select {
				case entered <- true:
				default:
				}
				<-goOn
			}
			return c.TryWrite(Text, m.Data[:min(len(m.Data), 10)])
		}})
		w := newWire(t, f.addr, 64<<10)
		slow, stream := w.open()
		fast, _ := w.open()
		frame := masked(ws.OpBinary, strings.Repeat("x", 1000))
		sent := 0
		for stream.Window() >= len(frame) {
			slow.raw(frame)
			sent++
		}
		<-entered
		for range 100 {
			fast.raw(masked(ws.OpText, "go on"))
			fast.expect("text go on")
		}
		if n := stream.Window(); n >= len(frame) {
			t.Errorf("a stream that is blocked has a window of %d bytes", n)
		}
		if n := count.Load(); n != 101 {
			t.Errorf("%d messages", n)
		}
		close(goOn)
		for range sent {
			slow.expect("text xxxxxxxxxx")
		}
		eventually(t, "the window is back", func() bool { return stream.Window() >= http2test.Window/2 })
	})
}

// TestHTTP2SlowReader: what waits for a stream without a window is bounded, and it ends
// when its peer takes nothing for WriteTimeout.
func TestHTTP2SlowReader(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		end := newEnds()
		f, conns := opened(t, e, &Endpoint{Slow: SlowDropNew, MaxPending: 100 << 10, OnClose: end.onClose, WriteTimeout: 300 * time.Millisecond})
		w := newWire(t, f.addr, 50<<10)
		c, stream := w.open()
		stream.SetMean(true)
		conn := <-conns
		message, accepted := make([]byte, 10<<10), 0
		for range 1000 {
			if conn.TryWrite(Binary, message) == nil {
				accepted += len(message)
			}
			if n := conn.Pending(); n > 100<<10+32<<10+len(message) {
				t.Fatalf("%d bytes wait", n)
			}
		}
		// The peer's window, what the stream holds, the output of a call, and MaxPending.
		if accepted > (50+32+32+10+100)<<10 || conn.Dropped() == 0 {
			t.Errorf("%d bytes were accepted", accepted)
		}
		eventually(t, "the window is full", func() bool { return stream.Held() == 50<<10 })
		end.expect(t, "i/o timeout")
		for c.next() == long("binary", string(message)) {
		}
	})
}

// TestHTTP2Reader: a reader that goes on gets all, in order, also of Write that waits.
func TestHTTP2Reader(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		f, conns := opened(t, e, &Endpoint{MaxPending: 20 << 10, WriteTimeout: patience, OnMessage: func(c *Conn, m Message) error {
			for range 20 {
				if err := c.Write(context.Background(), Text, []byte(longText)); err != nil {
					return err
				}
			}
			return nil
		}})
		w := newWire(t, f.addr, 10<<10)
		c, stream := w.open()
		conn := <-conns
		stream.SetMean(true)
		done := make(chan error, 1)
		go func() {
			for range 50 {
				if err := conn.Write(t.Context(), Text, []byte(longText[:10_003])); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		eventually(t, "the window is full", func() bool { return stream.Held() == 10<<10 })
		stream.SetMean(false)
		for range 50 {
			c.expect(long("text", longText[:10_003]))
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		c.raw(masked(ws.OpText, "more"))
		for range 20 {
			c.expect(long("text", longText))
		}
	})
}

// TestHTTP2Ends: how streams end, and that OnClose is called once.
func TestHTTP2Ends(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		end := newEnds()
		goOn, entered := make(chan bool), make(chan bool)
		f := startEndpoint(t, e, &Endpoint{OnClose: end.onClose, PingAfter: -1, OnMessage: func(c *Conn, m Message) error {
			if string(m.Data) == "wait" {
				entered <- true
				<-goOn
			}
			return c.TryWrite(m.Kind, m.Data)
		}})
		w := newWire(t, f.addr, 64<<10)
		c, _ := w.open()
		c.raw(closing(1000, "bye"))
		c.expect("close 1000", "end")
		end.expect(t, "bye")
		c, stream := w.open()
		stream.CloseWrite()
		c.expect("end")
		end.expect(t, "the peer has ended the connection")
		_, stream = w.open()
		stream.Reset(http2.ErrCodeCancel)
		end.expect(t, "connection reset")
		c, _ = w.open()
		c.raw("\xff\xff")
		c.expect("close 1002 a frame has reserved bits set that no extension uses")
		<-end
		blocked, stream := w.open()
		blocked.raw(masked(ws.OpText, "wait"))
		<-entered
		stream.Reset(http2.ErrCodeCancel)
		open, _ := w.open()
		open.raw(masked(ws.OpText, "x"))
		open.expect("text x")
		if len(end) > 0 {
			t.Error("OnClose was called during OnMessage")
		}
		close(goOn)
		end.expect(t, "connection reset")
		w.Close()
		end.expect(t, "")
		eventually(t, "all have ended", func() bool { return f.server.GetOpenConnectionsCount() == 0 })
		if len(end) > 0 {
			t.Errorf("OnClose got %v, too", <-end)
		}
	})
}

// TestHTTP2Times: a ping comes after silence, and the stream ends without a pong.
func TestHTTP2Times(t *testing.T) {
	onEngines(t, func(t *testing.T, e sluice.Engine) {
		end := newEnds()
		f, conns := opened(t, e, &Endpoint{OnClose: end.onClose, PingAfter: 20 * time.Millisecond, PongWithin: 400 * time.Millisecond, CloseWithin: 20 * time.Millisecond})
		w := newWire(t, f.addr, 64<<10)
		c, _ := w.open()
		for range 3 {
			c.expect("ping")
			c.raw(masked(ws.OpPong, ""))
		}
		end.expect(t, "no answer to a ping")
		<-conns
		w.open()
		if err := (<-conns).Close(CodeNormal, "enough"); err != nil {
			t.Error(err)
		}
		end.expect(t, "enough")
	})
}

// TestHTTP2Shutdown: all get 1001, and Shutdown waits for their answers; those of Accept,
// too.
func TestHTTP2Shutdown(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		for _, accepts := range []bool{false, true} {
			end := newEnds()
			e := &Endpoint{OnClose: end.onClose, OnMessage: echoMessage}
			f := start(t, engine, func(ctx *sluice.RequestCtx) {
				if !accepts {
					_ = e.Upgrade(ctx, nil)
					return
				}
				_ = e.Accept(ctx, func(c *Conn) error {
					for {
						m, err := c.Read(context.Background())
						if err != nil {
							end <- err
							return err
						}
						if err := c.Write(context.Background(), m.Kind, m.Data); err != nil {
							return err
						}
					}
				})
			})
			w := newWire(t, f.addr, 64<<10)
			var all []*client
			for range 20 {
				c, _ := w.open()
				c.raw(masked(ws.OpText, longText[:60_000]))
				c.expect(long("text", longText[:60_000]))
				all = append(all, c)
			}
			done := make(chan error, 1)
			go func() { done <- f.server.Shutdown() }()
			for _, c := range all {
				c.expect("close 1001 the server shuts down")
			}
			select {
			case err := <-done:
				t.Error("Shutdown has not waited", err)
			default:
			}
			for _, c := range all {
				c.raw(closing(1001, ""))
				c.expect("end")
				end.expect(t, "the server shuts down")
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestHTTP2Handshake: what Upgrade answers to an extended CONNECT. RFC 8441 section 5: the key is
// not processed; RFC 9220 section 3: another protocol is not implemented.
func TestHTTP2Handshake(t *testing.T) {
	f := startEndpoint(t, sluice.EngineAuto, &Endpoint{OnMessage: echoMessage})
	w := newWire(t, f.addr, 64<<10)
	const version = "sec-websocket-version"
	for _, test := range []struct {
		protocol string
		fields   [][2]string
		want     string
	}{
		{"websocket", [][2]string{{version, "13"}}, "200"},
		{"WebSocket", [][2]string{{version, "13"}}, "200"},
		{"websocket", [][2]string{{version, "13"}, {"sec-websocket-key", "short"}}, "200"},
		{"websocket", [][2]string{{version, "13"}, {"sec-websocket-key", strings.Repeat("A", 500)}}, "200"},
		{"websocket", [][2]string{{version, "13"}, {"sec-websocket-key", "a"}, {"sec-websocket-key", "b"}}, "200"},
		{"websocket", nil, "426"},
		{"websocket", [][2]string{{version, "8"}}, "426"},
		{"websocket", [][2]string{{version, "13"}, {"origin", "http://evil"}}, "403"},
		{"connect-udp", [][2]string{{version, "13"}}, "501"},
	} {
		head := append([][2]string{{":method", "CONNECT"}, {":protocol", test.protocol}, {":scheme", "http"}, {":authority", "h"}, {":path", "/"}}, test.fields...)
		if status, err := w.Open(false, head...).Status(); status != test.want {
			t.Errorf("%s %.80q: status %q, %v, want %s", test.protocol, test.fields, status, err, test.want)
		}
	}
}
