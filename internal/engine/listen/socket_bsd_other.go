//go:build dragonfly || netbsd || openbsd

package listen

import "golang.org/x/sys/unix"

func setReusePort(fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
}

// setDeferAccept does nothing: these systems have no common option for it.
func setDeferAccept(int) {}

// setFastOpen does nothing: these systems have no such option.
func setFastOpen(int) {}
