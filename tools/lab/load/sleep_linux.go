package load

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleep sleeps for a short time. time.Sleep rounds up to whole milliseconds where
// nothing else goes on.
func sleep(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil) // a signal: the caller looks at the clock
}
