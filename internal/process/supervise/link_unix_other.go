//go:build unix && !linux

package supervise

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// controlType keeps message boundaries. macOS has no SOCK_SEQPACKET. A datagram
	// socket does not report that the other end has closed; the lifeline does.
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
			// SO_SNDBUF bounds a datagram's size: by default 2 KiB on macOS.
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 2*(headSize+maxPayload))
		}
	}
	return pair[0], pair[1], err
}
