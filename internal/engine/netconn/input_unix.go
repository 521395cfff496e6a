//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package netconn

import (
	"net"
	"syscall"
)

// hasInput reports whether the socket below nc has unread input. Closing it would reset the
// connection, and the peer could lose the last answer.
func hasInput(nc net.Conn) bool {
	if socket, ok := underneath(nc).(syscall.Conn); ok {
		return socketHasInput(socket)
	}
	return false
}

// socketHasInput allocates.
func socketHasInput(socket syscall.Conn) (has bool) {
	control, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	_ = control.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		has = n > 0 && err == nil
	})
	return has
}
