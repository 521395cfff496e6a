package sluice

import "time"

// AcquireTimer returns a timer from a pool. The timer sends the time on its
// channel after timeout. Return it with ReleaseTimer when it is no longer used.
// This is optional and saves allocations.
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
