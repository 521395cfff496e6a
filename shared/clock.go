package shared

import "time"

// A sharedClock is a monotonic clock in nanoseconds that is the same in all
// processes of a machine. Its origin is arbitrary.
type sharedClock struct {
	base   time.Time // carries the process's monotonic clock
	offset int64     // from that clock to the shared one
}

// newClock measures the offset between the process's monotonic clock, whose origin
// is the process's start, and the system's. Both are the same clock, so the offset
// is constant. A pause between two readings makes the measurement inexact, so
// newClock takes the best of several.
func newClock() (c sharedClock) {
	best := time.Duration(-1)
	for range 8 {
		base := time.Now()
		system, known := systemClock()
		took := time.Since(base)
		if !known {
			return sharedClock{base, base.UnixNano()}
		}
		if best < 0 || took < best {
			best, c = took, sharedClock{base, system - int64(took/2)}
		}
	}
	return c
}

func (c *sharedClock) now() int64 { return int64(time.Since(c.base)) + c.offset }
