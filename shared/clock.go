package shared

import "time"

// A sharedClock tells the same time in all processes of a machine: nanoseconds
// that only go forward, from an origin that means nothing.
type sharedClock struct {
	base   time.Time // carries the process's monotonic clock
	offset int64     // from that clock to the shared one
}

// newClock measures how far the process's monotonic clock, whose origin is the
// process's start, is from the system's. Both are the same clock, so the distance
// stays; how exactly it is known depends on being undisturbed between two
// readings, hence the best of several.
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
