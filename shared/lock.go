package shared

import (
	"runtime"
	"time"
)

// lock acquires a lock word for this process. It waits for the owner, at most
// lockWait. If the owner has died, it takes over the lock and reports this, because
// the guarded data may be half written.
//
// A lock records the owning process, not the goroutine. It is held only briefly,
// and never acquired twice.
func (s *Segment) lock(w *word) (wasStolen, isLocked bool) {
	if w.CompareAndSwap(0, s.token) {
		return false, true
	}
	return s.lockSlowly(w)
}

func (s *Segment) lockSlowly(w *word) (wasStolen, isLocked bool) {
	var deadline time.Time
	pause := 10 * time.Microsecond
	for try := 0; ; try++ {
		owner := w.Load()
		if (owner == 0 || !s.isAlive(owner)) && w.CompareAndSwap(owner, s.token) {
			return owner != 0, true
		}
		switch { // the owner runs, was descheduled, or was stopped
		case try < 32:
		case try < 256:
			runtime.Gosched()
		case deadline.IsZero():
			deadline = time.Now().Add(s.lockWait)
		case time.Now().After(deadline):
			return false, false
		default:
			time.Sleep(pause)
			pause = min(2*pause, time.Millisecond)
		}
	}
}

// unlock releases a lock, unless another process has taken it over.
func (s *Segment) unlock(w *word) { w.CompareAndSwap(s.token, 0) }
