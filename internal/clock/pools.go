package clock

import (
	"sync"
	"time"
)

// timerPool holds stopped *time.Timer.
var timerPool sync.Pool

// AcquireTimer returns a pooled timer that fires after timeout. The caller owns it
// until ReleaseTimer.
func AcquireTimer(timeout time.Duration) *time.Timer {
	timer, ok := timerPool.Get().(*time.Timer)
	if !ok {
		return time.NewTimer(timeout)
	}
	// Since Go 1.23 no value of an earlier use is received after Stop or Reset.
	timer.Reset(timeout)
	return timer
}

// ReleaseTimer stops t and returns it to the pool. t must come from AcquireTimer
// or time.NewTimer, and must not be used afterwards.
func ReleaseTimer(t *time.Timer) {
	t.Stop()
	timerPool.Put(t)
}
