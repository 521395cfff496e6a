//go:build linux && (amd64 || arm64)

package core

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// Deadlines are counted in ticks of a millisecond since the process began, in 32
// bits. They wrap around after 49 days, so a time-out can be 24 days long. 0 means
// no deadline.
const tick = int64(time.Millisecond)

// longestWait is slightly less than the longest time-out that ticks can express. A
// longer time-out counts as none.
const longestWait = 24 * 24 * time.Hour

// tickOf returns the tick that now is in.
func tickOf(now int64) uint32 { return uint32(now / tick) }

// expiryOf returns the first tick at which the deadline has certainly passed; 0 for
// no deadline.
func expiryOf(deadline int64) uint32 {
	if deadline == 0 {
		return 0
	}
	return max(uint32((deadline+tick-1)/tick), 1)
}

// isBefore compares ticks that are less than 24 days apart.
func isBefore(a, b uint32) bool { return int32(a-b) < 0 }

// nanosOf returns the deadline that expiry stands for.
func nanosOf(expiry uint32, now int64) int64 {
	if expiry == 0 {
		return 0
	}
	return (now/tick + int64(int32(expiry-tickOf(now)))) * tick
}

const (
	// longWait is the least time-out that may be late by a part of its length.
	longWait = 4 * time.Second
	// mostGrain is the most that it is late, about a second. It is a power of two.
	mostGrain = 1 << 30
)

// deadlineOf returns the deadline of a time-out. Long ones end at multiples of a power of
// two that is at most 1/64 of them. The deadlines of many connections then coincide, and
// a round of the sweep finds all of them at once. Otherwise a round would always be due:
// half of a core for the pings of a million WebSockets in 51 processes.
func deadlineOf(now int64, timeout time.Duration) int64 {
	at := now + int64(timeout)
	if timeout < longWait {
		return at
	}
	grain := min(int64(1)<<(bits.Len64(uint64(timeout))-1)/64, mostGrain)
	return (at + grain - 1) &^ (grain - 1)
}

const (
	// leastPause is the least time between two rounds of the sweep.
	leastPause = 10 * time.Millisecond
	// pauseFactor bounds the share of a processor that the sweep uses: after a round
	// it pauses for pauseFactor times the round's duration.
	pauseFactor = 100
	// mostPause bounds the pause. A round may have been long because others had the
	// processor, which says nothing of its cost.
	mostPause = time.Second
)

// pauseAfter returns how long the sweep pauses after a round.
func pauseAfter(took time.Duration) time.Duration {
	return min(took, mostPause/pauseFactor) * pauseFactor
}

// A deadlineSweep visits all slots and claims the connections whose deadline has
// passed. Connections have no timers of their own. A round finds the earliest
// deadline of the waiting connections, and sets the timer of the next round to it.
// Most connections become active before their deadline.
//
// A request therefore costs one comparison with next. With few connections, a
// time-out is exact to leastPause, but see deadlineOf. With a million, it may be half a second late,
// because a round then takes milliseconds. The pause never makes it later than mostPause.
type deadlineSweep struct {
	driver *driver
	next   atomic.Uint32 // tick of the next round; 0: none is due

	mu     sync.Mutex
	timer  *time.Timer
	pause  time.Duration
	closed bool
}

// schedule ensures that a round follows at the tick expiry.
func (s *deadlineSweep) schedule(expiry uint32) {
	next := s.next.Load()
	if next != 0 && !isBefore(expiry, next) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next = s.next.Load()
	if s.closed || next != 0 && !isBefore(expiry, next) {
		return
	}
	s.next.Store(expiry)
	now := clock.Nanos()
	delay := max(time.Duration(nanosOf(expiry, now)-now), s.pause, leastPause)
	if s.timer == nil {
		s.timer = time.AfterFunc(delay, s.round)
	} else {
		s.timer.Reset(delay)
	}
}

// round claims the connections whose deadline has passed.
func (s *deadlineSweep) round() {
	s.next.Store(0)
	begin := clock.Nanos()
	now := tickOf(begin)
	var earliest uint32
	var passed []int32
	s.driver.table.each(func(fd int, p place) {
		slot := p.slot()
		at := slot.expiry.Load()
		if at == 0 {
			return
		}
		if isBefore(now, at) {
			if earliest == 0 || isBefore(at, earliest) {
				earliest = at
			}
			return
		}
		// A busy connection sets another deadline when it waits again.
		if slot.claim(flagExpired, 0) {
			passed = append(passed, int32(fd))
		}
	})
	s.driver.queueAll(passed)
	s.mu.Lock()
	s.pause = pauseAfter(time.Duration(clock.Nanos() - begin))
	s.mu.Unlock()
	if earliest != 0 {
		s.schedule(earliest)
	}
}

func (s *deadlineSweep) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
}
