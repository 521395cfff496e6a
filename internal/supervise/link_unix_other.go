//go:build unix && !linux

package supervise

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// controlType keeps message boundaries. macOS has no SOCK_SEQPACKET; that
	// datagram sockets do not tell the end is what the lifeline makes up for.
	controlType  = unix.SOCK_DGRAM
	receiveFlags = 0
)

// controlPair returns two connected sockets.
func controlPair() (one, other int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	pair, err := unix.Socketpair(unix.AF_UNIX, controlType, 0)
	if err == nil {
		for _, fd := range pair {
			unix.CloseOnExec(fd)
			// It bounds a datagram's size, to 2 KiB on macOS.
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 2*(headSize+maxPayload))
		}
	}
	return pair[0], pair[1], err
}
