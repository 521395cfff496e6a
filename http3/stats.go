package http3

import (
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/server"
)

// stats counts what has happened on all connections.
type stats struct {
	resets, calmed, retries, refused, lost atomic.Uint64
}

// Handshakes implements server.Attached.
func (s *serving) Handshakes() int { return int(s.handshakes.Load()) }

// Stats implements server.Attached.
func (s *serving) Stats() server.AttachedStats {
	t := server.AttachedStats{
		Resets: s.stats.resets.Load(), Calmed: s.stats.calmed.Load(), Retries: s.stats.retries.Load(),
		Refused: s.stats.refused.Load(), Lost: s.stats.lost.Load(),
	}
	for _, c := range s.all() {
		c.mu.Lock()
		t.Connections++
		t.Streams += c.open
		if c.open == 0 {
			t.Idle++
		}
		c.mu.Unlock()
	}
	return t
}
