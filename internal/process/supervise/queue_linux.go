package supervise

import (
	"os"

	"golang.org/x/sys/unix"
)

// queueLength returns the number of connections that wait to be accepted from a
// listening TCP socket, and 0 for other files. f comes from hold, so its Fd method leaves
// the flags alone.
func queueLength(f *os.File) int {
	info, err := unix.GetsockoptTCPInfo(int(f.Fd()), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0
	}
	return int(info.Unacked) // of a listening socket: the length of its queue
}
