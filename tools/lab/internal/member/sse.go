//go:build linux

package member

import (
	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/sse"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
)

// answerData is the data of each event.
var answerData = []byte("pingpong")

// longHistory is that of streams with goroutines. All topics share a history, and a
// goroutine may wait for a processor while tens of thousands of events pass.
const longHistory = 50_000

// newHub returns the Hub of a server. There are no heartbeats, which would be a load of
// their own.
func (p *process) newHub() *sse.Hub {
	o := sse.Options{Heartbeat: -1}
	if p.config.Scenario.Server == scenario.Goroutine {
		o.History = longHistory
	}
	hub, _ := sse.New(o) // without a name it cannot fail
	return hub
}

// publish returns the handler of a server of events. The path is a topic: GET answers with
// the stream of its events, and POST publishes one.
func (s *server) publish(work scenario.Workload) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		topic := string(ctx.Path())
		if ctx.IsGet() {
			if err := s.hub.Serve(ctx, topic); err != nil {
				ctx.Error(err.Error(), sluice.StatusServiceUnavailable)
			}
			return
		}
		n := s.requests.Add(1)
		if work.Kind != scenario.Discard {
			labour(work, seedOf(n))
			if err := s.hub.Publish(topic, sse.Event{Data: answerData}); err != nil {
				ctx.Error(err.Error(), sluice.StatusInternalServerError)
				return
			}
		}
		ctx.SetStatusCode(sluice.StatusNoContent)
	}
}
