//go:build linux && race && (amd64 || arm64 || riscv64 || loong64)

package perconn

import (
	"net"
	"syscall"
)

// The race detector knows about syscall.Read and syscall.Write: what happens
// before a write happens before the read that gets its bytes. There is no such
// wrapper for recvmsg, so here a second read tells whether a socket is drained.

type receiver struct{}

func (c *conn) recvQueue(p []byte) (int, syscall.Errno) {
	n, errno := recvPlain(c.raw.fd, p)
	c.raw.drained = errno == syscall.EAGAIN
	return n, errno
}

func recvPlain(fd int, p []byte) (int, syscall.Errno) {
	return retry(syscall.Read, fd, p)
}

func send(fd int, p []byte) (int, syscall.Errno) {
	return retry(syscall.Write, fd, p)
}

func retry(call func(int, []byte) (int, error), fd int, p []byte) (int, syscall.Errno) {
	for {
		n, err := call(fd, p)
		if err == nil {
			return n, 0
		}
		errno, ok := err.(syscall.Errno)
		if !ok {
			return 0, syscall.EIO
		}
		if errno != syscall.EINTR {
			return 0, errno
		}
	}
}

// writeBuffersRaw implements WriteBuffers.
func (c *conn) writeBuffersRaw(v *net.Buffers) (int64, error) {
	var written int64
	for len(*v) > 0 {
		if p := (*v)[0]; len(p) > 0 {
			n, err := c.writeRaw(p)
			written += int64(n)
			if err != nil {
				(*v)[0] = p[n:]
				return written, err
			}
		}
		(*v)[0], *v = nil, (*v)[1:]
	}
	return written, nil
}
