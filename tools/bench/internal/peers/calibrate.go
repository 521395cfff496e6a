package peers

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Calibrate returns how many of Spin take a thread so much CPU time.
func Calibrate(want time.Duration) (spins int, err error) {
	runtime.LockOSThread() // the clock is the thread's
	defer runtime.UnlockOSThread()
	const sample, tries = 20_000, 5
	fastest := time.Duration(0)
	for range tries {
		before, err := threadTime()
		if err != nil {
			return 0, err
		}
		Spin(sample)
		after, err := threadTime()
		if err != nil {
			return 0, err
		}
		if used := after - before; fastest == 0 || used < fastest {
			fastest = used // interference only adds
		}
	}
	return int(want * sample / max(fastest, 1)), nil
}

// threadTime returns the CPU time of the calling thread.
func threadTime() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano()), err
}
