//go:build linux

package member

import (
	"fmt"
	"testing"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
)

// TestBroadcast: every WebSocket hears every broadcast.
func TestBroadcast(t *testing.T) {
	for _, kind := range []scenario.ClientKind{scenario.EpollClient, scenario.GoroutineClient} {
		t.Run(string(kind), func(t *testing.T) {
			s, addr := startWebSocket(t, scenario.Epoll)
			c := clientOf(t, processOf(scenario.Epoll, kind))
			for range 3 {
				c.dialOne(t, addr)
			}
			var stats control.Stats
			for round := 1; round <= 2; round++ {
				at := control.Nanos()
				s.receive(control.Message{Broadcast: &control.Broadcast{At: at}})
				eventually(t, "all have the message", func() bool { c.audience.count(&stats); return stats.HeardTotal == 3*round })
				asked := control.Stats{Asked: true}
				c.audience.count(&asked)
				if h := asked.Heard; h.At != at || h.Count != 3 || h.First <= at || h.Last < h.First || len(h.Latencies) == 0 {
					t.Errorf("%+v", h)
				}
			}
			if c.lost.Load() != 0 || stats.Heard != nil {
				t.Errorf("%d lost", c.lost.Load())
			}
		})
	}
}

// TestAudience: what is no broadcast, or comes twice or too late, is an error.
func TestAudience(t *testing.T) {
	var a audience
	one, two := &peer{}, &peer{}
	for i, c := range []struct {
		p    *peer
		text string
		isOK bool
	}{
		{one, "x", false},
		{one, "10", true}, {one, "10", false}, {two, "10", true},
		{one, "11", true}, {two, "10", false}, {one, "10", false}, {two, "11", true},
	} {
		if err := a.hears(c.p, fmt.Appendf(nil, "%032s", c.text), 12); (err == nil) != c.isOK {
			t.Errorf("%d: %v", i, err)
		}
	}
	stats := control.Stats{Asked: true}
	if a.count(&stats); stats.HeardTotal != 4 || stats.Heard.Count != 2 || stats.Heard.At != 11 {
		t.Errorf("%+v", stats.Heard)
	}
}
