package control

import "golang.org/x/sys/unix"

// Nanos returns the time of CLOCK_MONOTONIC, which is the same in all processes of a machine.
func Nanos() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it cannot fail
	return now.Nano()
}
