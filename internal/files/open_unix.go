//go:build unix

package files

import (
	"os"
	"syscall"
)

// openFlags keep open from waiting for a pipe's writer.
const openFlags = syscall.O_NONBLOCK

// setBlocking undoes openFlags: some file systems would honour it when reading.
func setBlocking(f *os.File) {
	_ = syscall.SetNonblock(int(f.Fd()), false)
}
