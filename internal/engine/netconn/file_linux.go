//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package netconn

import (
	"io"
	"syscall"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/sock"
)

// sendFile sends the file by sendfile(2) if the connection is a bare socket.
// Otherwise isSent is false.
func (c *conn) sendFile() (isSent bool, err error) {
	if !isBare(c.nc) {
		return false, nil
	}
	control, err := c.nc.(syscall.Conn).SyscallConn()
	if err != nil {
		return false, nil
	}
	c.boundWrite()
	var failed error
	err = control.Write(func(fd uintptr) bool {
		for f, progresses := &c.file, false; f.Size > 0; progresses = true {
			n, err := sock.SendFile(int(fd), f.Source, f.Offset, f.Size)
			switch err {
			case nil:
				f.Advance(n)
				continue
			case syscall.EAGAIN:
				if progresses {
					c.boundWrite() // the time-out restarts with every progress
				}
				return false
			case io.EOF:
				err = engine.ErrShortFile
			}
			failed = err
			return true
		}
		return true
	})
	if err == nil {
		err = failed
	}
	c.isStuck = err != nil && isTimeout(err)
	return true, err
}
