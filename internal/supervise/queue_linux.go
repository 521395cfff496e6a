package supervise

import (
	"os"

	"golang.org/x/sys/unix"
)

// queueLength returns the number of connections that wait to be accepted in a
// listening TCP socket; of other files 0.
func queueLength(f *os.File) int {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	waiting := 0
	raw.Control(func(fd uintptr) {
		// Of a listening socket this is the length of its queue.
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			waiting = int(info.Unacked)
		}
	})
	return waiting
}
