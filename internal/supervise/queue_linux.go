package supervise

import (
	"os"

	"golang.org/x/sys/unix"
)

// queueLength returns the number of connections that wait to be accepted from a
// listening TCP socket, and 0 for other files.
func queueLength(f *os.File) int {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	waiting := 0
	raw.Control(func(fd uintptr) {
		// For a listening socket, Unacked is the length of its queue.
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			waiting = int(info.Unacked)
		}
	})
	return waiting
}
