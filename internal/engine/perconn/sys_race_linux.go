//go:build linux && race && (amd64 || arm64 || riscv64 || loong64)

package perconn

import (
	"syscall"

	"github.com/sluicehttp/sluice/internal/engine/sock"
)

// There is no wrapper for recvmsg that the race detector knows about, so here a
// second read tells whether a socket is drained.

type receiver struct{}

func (c *conn) recvQueue(p []byte) (int, syscall.Errno) {
	n, errno := sock.Recv(c.raw.fd, p)
	c.raw.drained = errno == syscall.EAGAIN
	return n, errno
}
