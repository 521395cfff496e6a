//go:build linux

package member

import (
	"context"
	"sync/atomic"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
	"github.com/sluicehttp/sluice/websocket"
)

// upgrade returns the handler of a server of WebSocket. All connections are members of one
// room, as those of a chat or of a feed would be, and each has a state: its number. The server
// sends no pings, which would be a load of their own, unless the scenario has some.
func (s *server) upgrade(work scenario.Workload) sluice.RequestHandler {
	var last atomic.Uint64
	pings := s.config.Scenario.Pings
	if pings == 0 {
		pings = -1
	}
	endpoint := &websocket.Endpoint{
		Origins:   []string{"*"},
		PingAfter: pings,
		OnOpen:    func(c *websocket.Conn) error { return s.rooms.Join(c, everybody) },
		OnMessage: func(c *websocket.Conn, m websocket.Message) error {
			n := s.requests.Add(1)
			switch work.Kind {
			case scenario.Discard:
				return nil
			case scenario.IO, scenario.Pow:
				labour(work, seedOf(n))
			}
			return c.Write(context.Background(), m.Kind, m.Data)
		},
	}
	return func(ctx *sluice.RequestCtx) { _ = endpoint.Upgrade(ctx, last.Add(1)) } // a refusal is answered
}
