//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package sock

import "syscall"

// Calls has functions of this package as methods. A type that embeds Calls has them, too, so a call
// through an interface reaches them without a wrapper.
type Calls struct{}

// Recv is Calls.Recv.
func Recv(fd int, p []byte) (int, syscall.Errno) { return (*Calls)(nil).Recv(fd, p) }

// Send is Calls.Send without more.
func Send(fd int, p []byte) (int, syscall.Errno) { return (*Calls)(nil).Send(fd, p, false) }
