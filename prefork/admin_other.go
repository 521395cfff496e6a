//go:build !unix

package prefork

import (
	"io/fs"
	"syscall"
)

// setMode does nothing; the caller sets the path's mode after the bind.
func setMode(fs.FileMode) func(network, address string, c syscall.RawConn) error { return nil }
