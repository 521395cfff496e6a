//go:build unix

package prefork

import (
	"io/fs"
	"syscall"
)

// setMode sets a socket's mode before it is bound to a path. Some systems refuse or
// ignore this, so the caller must set the path's mode too.
func setMode(mode fs.FileMode) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), uint32(mode.Perm())) })
	}
}
