//go:build unix

package files

import (
	"os"
	"syscall"
)

// openFlags prevent open from waiting for a pipe's writer.
const openFlags = syscall.O_NONBLOCK

// setBlocking clears the flag, because some file systems would honour it when
// reading.
func setBlocking(f *os.File) {
	_ = syscall.SetNonblock(int(f.Fd()), false)
}
