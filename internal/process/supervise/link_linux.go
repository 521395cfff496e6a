package supervise

import "golang.org/x/sys/unix"

const (
	// controlType keeps message boundaries and tells the end.
	controlType  = unix.SOCK_SEQPACKET
	receiveFlags = unix.MSG_CMSG_CLOEXEC
)

// controlPair returns two connected sockets.
func controlPair() (one, other int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, controlType|unix.SOCK_CLOEXEC, 0)
	return pair[0], pair[1], err
}
