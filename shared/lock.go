package shared

import (
	"runtime"
	"time"
)

// lock takes a lock word for this process. It waits for the owner, at most
// lockWait; if the owner has died it takes the lock from it and says so: then
// what the lock guards may be half written.
//
// A lock says which process has it, not which goroutine: it is taken for short
// moments only, and never twice.
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
		switch { // the owner is at work, was descheduled, was stopped
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

// unlock gives a lock back, unless it was taken away.
func (s *Segment) unlock(w *word) { w.CompareAndSwap(s.token, 0) }
