//go:build unix

package enginetest

import (
	"os"
	"syscall"
)

// fixInput is a net.ListenConfig's Control: the system holds up to 1 MiB of input for each
// connection. Otherwise Linux lets it grow to tcp_rmem, which is 32 MB on some machines, the
// sooner the slower the engine reads.
func fixInput(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 512<<10))
	})
	if err != nil {
		return err
	}
	return failed
}
