//go:build unix

package prefork

import (
	"io/fs"
	"syscall"
)

// setMode gives a socket a mode before it is bound to a path. Systems that do
// not know of that refuse it, or ignore it: the path's mode is to be set too.
func setMode(mode fs.FileMode) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), uint32(mode.Perm())) })
	}
}
