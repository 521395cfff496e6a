//go:build !unix

package prefork

import (
	"io/fs"
	"syscall"
)

// setMode does nothing: the path's mode is set afterwards.
func setMode(fs.FileMode) func(network, address string, c syscall.RawConn) error { return nil }
