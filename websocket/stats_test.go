package websocket

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/ws"
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
