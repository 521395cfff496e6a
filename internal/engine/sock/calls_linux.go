//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package sock

import "syscall"

// Calls has functions of this package as methods. A type that embeds it has them, too, and can be called
// through an interface without a further function in between.
type Calls struct{}

// Recv is Calls.Recv.
func Recv(fd int, p []byte) (int, syscall.Errno) { return (*Calls)(nil).Recv(fd, p) }

// Send is Calls.Send of what nothing follows at once.
func Send(fd int, p []byte) (int, syscall.Errno) { return (*Calls)(nil).Send(fd, p, false) }
