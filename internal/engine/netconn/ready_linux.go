//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package netconn

import (
	"net"
	"syscall"

	"github.com/sluicehttp/sluice/internal/engine/sock"
)

// A readyWriter is a call of WriteReady. It is pooled, because otherwise each call would
// allocate its function.
type readyWriter struct {
	write   func(fd uintptr) (isDone bool)
	left    *net.Buffers
	written int64
}

func newReadyWriter() any {
	w := &readyWriter{}
	w.write = func(fd uintptr) bool {
		w.written, _ = sock.SendBuffers(int(fd), w.left)
		return true
	}
	return w
}

// WriteReady implements engine.Conn. Package net waits in every write of its own.
func (c *conn) WriteReady(v *net.Buffers) int64 {
	if c.socket == nil {
		if !isBare(c.nc) {
			return 0
		}
		socket, err := c.nc.(syscall.Conn).SyscallConn()
		if err != nil {
			return 0
		}
		c.socket = socket
	}
	w := acquireReadyWriter(v)
	defer releaseReadyWriter(w)
	_ = c.socket.Write(w.write) // if it fails, nothing is written
	return w.written
}
