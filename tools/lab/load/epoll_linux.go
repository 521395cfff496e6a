//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package load

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// epollWait waits for events for some milliseconds at most, and returns their
// number.
//
// The scheduler is not told that the thread sleeps. If it were, its monitor would
// look after the thread every 20 microseconds, and take its processor away to give
// it to nobody. Who else wants to run (the collector, the garbage collector) gets
// the processor all the same: after 10 ms the monitor sends a signal, which ends
// the wait. Loops never wait for longer than 100 ms.
func epollWait(epoll int, events []unix.EpollEvent, milliseconds int) int {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(epoll),
		uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr(milliseconds), 0, 0)
	if errno != 0 {
		return 0 // the signal
	}
	return int(n)
}
