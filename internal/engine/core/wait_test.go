//go:build linux && (amd64 || arm64)

package core

import (
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// The waits of a direction share a timer. None sees that an earlier one has expired.
func TestSignalServesAgain(t *testing.T) {
	var s signal
	<-s.expiresAt(clock.Nanos())
	s.timer.Stop()
	s.expiresAt(clock.Nanos())
	time.Sleep(time.Millisecond) // it expires, and the channel is not read
	s.timer.Stop()
	select {
	case <-s.expiresAt(clock.Nanos() + int64(time.Hour)):
		t.Error("a wait has expired early")
	default:
	}
	allocs := testing.AllocsPerRun(100, func() {
		s.expiresAt(clock.Nanos() + int64(time.Hour))
		s.timer.Stop()
	})
	if allocs > 0 {
		t.Errorf("a wait allocates %v times", allocs)
	}
}

// An idle connection has no signals, but a free conn has them for the next connection.
func TestSignalsOfFreeConn(t *testing.T) {
	c := &conn{connState: connState{driver: &driver{}}}
	s := c.waiters()
	if c.slim(true); c.waiters() != s {
		t.Error("a free conn makes signals again")
	}
	if c.slim(false); c.signals.Load() != nil {
		t.Error("a connection that waits keeps its signals")
	}
}
