package pool

import (
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// maxStep is the largest possible delay of a Pool's clock.
const maxStep = 500 * time.Millisecond

// step returns the maximum delay of Now. 0: Now is exact.
func (s Settings[T]) step() time.Duration {
	step := min(s.MaxIdle/16, maxStep)
	if step < time.Millisecond {
		return 0
	}
	return step
}

// Now returns a time of clock.Nanos that may be up to half a second old.
func (p *Pool[T]) Now() int64 {
	if ticked := p.ticked.Load(); ticked != 0 {
		return ticked
	}
	return clock.Nanos()
}

// IsExpired reports whether a connection of Take or Wait was idle for too long
// to be used.
func (p *Pool[T]) IsExpired(s Settings[T], conn Idle[T]) bool {
	// Not if it was used since the clock ticked; LastUse is not 0.
	return p.ticked.Load() != conn.LastUse && p.isOld(s, conn)
}

// isOld is IsExpired, but it looks at the clock.
func (p *Pool[T]) isOld(s Settings[T], conn Idle[T]) bool { return s.isExpired(conn, p.Now()) }

func (s Settings[T]) isExpired(conn Idle[T], now int64) bool {
	return now-conn.LastUse >= int64(s.MaxIdle-s.step())
}

// startJanitorLocked schedules the janitor, because a connection has become idle.
// Called with the lock.
func (p *Pool[T]) startJanitorLocked(s Settings[T], now int64) {
	step := s.step()
	if step > 0 {
		p.ticked.Store(now)
	} else {
		step = s.MaxIdle
	}
	switch {
	case p.janitor == nil:
		p.janitor = time.AfterFunc(step, func() { p.closeExpired(s) })
	case p.ticked.Load() != 0:
		p.janitor.Reset(step) // it was to run only when the oldest connection expires
	}
}

// closeExpired closes the connections that have been idle for too long. The
// janitor's timer calls it.
func (p *Pool[T]) closeExpired(s Settings[T]) {
	now := clock.Nanos()
	p.mu.Lock()
	var expired []Idle[T]
	for len(p.idle) > 0 && s.isExpired(p.idle[0], now) { // the oldest is the first
		expired = append(expired, p.takeFirstLocked())
	}
	p.nextTurnLocked(s, now)
	p.mu.Unlock()
	p.discardAll(s, expired)
}

// nextTurnLocked schedules the next run of the janitor. While connections are used,
// that is after a step, so that ticked stays current; otherwise it is when the
// oldest connection expires. Called with the lock.
func (p *Pool[T]) nextTurnLocked(s Settings[T], now int64) {
	wasTicking := p.ticked.Load() != 0
	switch {
	case wasTicking && p.wasUsed:
		p.wasUsed = false
		p.ticked.Store(now)
		p.janitor.Reset(s.step())
	case len(p.idle) == 0:
		p.ticked.Store(0)
		p.janitor = nil
	default:
		p.ticked.Store(0)
		age := time.Duration(now - p.idle[0].LastUse)
		p.janitor.Reset(max(s.MaxIdle-age, time.Millisecond))
	}
}
