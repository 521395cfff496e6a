package websocket

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

func TestStats(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		var g Group
		e := &Endpoint{OnOpen: g.Add, OnMessage: echoMessage, MaxPending: 1 << 10, Slow: SlowDropNew}
		f := start(t, engine, func(ctx *sluice.RequestCtx) { _ = e.Upgrade(ctx, nil) })
		clients := []*client{f.dial(), f.dial(), f.dial(), f.dial()}
		for _, c := range clients {
			c.raw(masked(ws.OpText, "hi"))
			c.expect("text hi")
		}
		g.Broadcast(Prepare(Text, []byte("to all")), nil)
		for _, c := range clients {
			c.expect("text to all")
		}
		for i, body := range []string{"\x03\xe8", "\x0f\xa0", ""} {
			clients[i].raw(masked(ws.OpClose, body))
			clients[i].next()
			clients[i].Close()
		}
		clients[3].Close()
		want := Stats{Opened: 4, Received: 4, Sent: 8, Closed: map[Code]uint64{CodeNormal: 1, 4000: 1, CodeNone: 1, CodeAbnormal: 1}}
		eventually(t, "all are counted", func() bool { return fmt.Sprint(e.Stats()) == fmt.Sprint(want) })
		slow := f.dial()
		defer slow.Close()
		text := Prepare(Text, []byte(strings.Repeat("x", 256<<10)))
		eventually(t, "messages are dropped", func() bool {
			g.Broadcast(text, nil)
			return e.Stats().Dropped > 0
		})
		if s := e.Stats(); s.Open != 1 || s.Pending == 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestBytesAreCounted: the Meter counts each byte once, of the answer, of callbacks, of
// broadcasts and of what waits.
func TestBytesAreCounted(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		var g Group
		m := &sluice.Meter{BytesRead: new(atomic.Uint64), BytesWritten: new(atomic.Uint64)}
		e := &Endpoint{OnMessage: echoMessage, OnOpen: func(c *Conn) error {
			_ = g.Add(c)
			return c.Write(t.Context(), Binary, make([]byte, 1000))
		}}
		f := start(t, engine, func(ctx *sluice.RequestCtx) { _ = e.Upgrade(ctx, nil) }, func(s *sluice.Server) { s.Control().Meter = m })
		c := f.connect()
		read, written := 0, 0
		send := func(text string) { read += len(text); c.raw(text) }
		send(hello)
		written += len(c.head())
		for _, size := range []int{1000, 5, 70_000, 9} {
			switch size {
			case 5:
				send(masked(ws.OpText, "hello"))
			case 70_000:
				g.Broadcast(Prepare(Binary, make([]byte, size)), nil)
			case 9:
				g.Range(func(c *Conn) bool { return c.TryWrite(Text, []byte("from here")) == nil })
			}
			c.next()
			written += len(ws.AppendFrame(nil, ws.OpBinary, make([]byte, size)))
		}
		eventually(t, "all bytes are counted", func() bool { return m.BytesRead.Load() == uint64(read) && m.BytesWritten.Load() == uint64(written) })
		if got := m.BytesWritten.Load(); got != uint64(written) {
			t.Errorf("%d bytes written, want %d", got, written)
		}
	})
}
