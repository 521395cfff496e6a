//go:build linux && race && (amd64 || arm64 || riscv64 || loong64)

package sock

import (
	"net"
	"syscall"
)

// The race detector knows about syscall.Read and syscall.Write: what happens
// before a write happens before the read that gets its bytes. It would see
// neither through a system call of ours.

// Recv reads into p, which is not empty. 0 bytes and no error are a FIN.
func (*Calls) Recv(fd int, p []byte) (int, syscall.Errno) {
	return retry(syscall.Read, fd, p)
}

// Send writes as much of p, which is not empty, as goes without waiting.
func (*Calls) Send(fd int, p []byte, more bool) (int, syscall.Errno) {
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

// SendBuffers writes as much of v as goes without waiting, 64 buffers at most.
// What was written is taken off v, and so are empty buffers in front of what is
// left: v is empty in the end if all was written, and v[0] is not empty if
// EAGAIN is returned. An error counts only if nothing was written before it.
func SendBuffers(fd int, v *net.Buffers) (int64, syscall.Errno) {
	var written int64
	consume(v, 0)
	for range maxVectors {
		if len(*v) == 0 {
			break
		}
		p := (*v)[0]
		n, errno := Send(fd, p)
		if errno != 0 && written == 0 {
			return 0, errno
		}
		if errno != 0 {
			break
		}
		written += int64(n)
		consume(v, n)
		if n < len(p) {
			break
		}
	}
	return written, 0
}
