//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package sock

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
)

const (
	// filePiece is how much one call of SendFile takes: it may read from a disk,
	// and others want to be served, too.
	filePiece = 1 << 20
	// copyPiece is the same where the bytes are copied.
	copyPiece = 32 << 10
)

// SendFile writes as much of size > 0 bytes at offset of f as goes without
// waiting, 1 MiB at most, and returns their number. An error comes alone:
// syscall.EAGAIN if there is no room, io.EOF if the file has no bytes there, or
// what ends the connection. The offset of f is neither used nor moved.
//
// The call may wait for the disk, which the scheduler is told of.
func SendFile(fd int, f *os.File, offset, size int64) (int, error) {
	at := offset
	for {
		n, err := syscall.Sendfile(fd, int(f.Fd()), &at, int(min(size, filePiece)))
		runtime.KeepAlive(f)
		switch err {
		case nil:
			if n == 0 {
				return 0, io.EOF
			}
			return n, nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, err
		case syscall.EPIPE, syscall.ECONNRESET, syscall.ETIMEDOUT:
			return 0, os.NewSyscallError("sendfile", err)
		default:
			// Some file systems do not have it, some sandboxes forbid it.
			return copyFile(fd, f, offset, size)
		}
	}
}

// copyFile is SendFile without sendfile(2). What was read and finds no room is
// read again.
func copyFile(fd int, f *os.File, offset, size int64) (int, error) {
	p := make([]byte, min(size, copyPiece))
	n, err := f.ReadAt(p, offset)
	if n == 0 {
		if err == io.EOF || err == nil {
			return 0, io.EOF
		}
		// Not wrapped: it must not be taken for an error of the connection.
		return 0, fmt.Errorf("sluice: cannot read a file that is being sent: %v", err)
	}
	sent, errno := Send(fd, p[:n])
	switch errno {
	case 0:
		return sent, nil
	case syscall.EAGAIN:
		return 0, errno
	}
	return 0, os.NewSyscallError("send", errno)
}
