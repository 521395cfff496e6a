package sluice

import (
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// AcquireTimer returns a timer from a pool. The timer sends the time on its
// channel after timeout. Return it with ReleaseTimer when it is no longer used.
// This is optional and saves allocations.
func AcquireTimer(timeout time.Duration) *time.Timer { return clock.AcquireTimer(timeout) }

// ReleaseTimer stops t and returns it to the pool. t must come from AcquireTimer
// or time.NewTimer, and must not be used afterwards.
func ReleaseTimer(t *time.Timer) { clock.ReleaseTimer(t) }
