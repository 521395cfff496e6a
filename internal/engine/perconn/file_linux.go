//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package perconn

import (
	"io"
	"runtime"
	"syscall"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/sock"
)

// sendFileRaw is flushFile for a socket.
func (c *conn) sendFileRaw() error {
	_, err := c.sendPieces()
	if err != syscall.EAGAIN {
		return err
	}
	c.boundWait(clock.Nanos())
	var failed error
	err = c.raw.control.Write(func(uintptr) bool {
		var progresses bool
		progresses, failed = c.sendPieces()
		if failed != syscall.EAGAIN {
			return true
		}
		if progresses {
			c.boundWait(clock.Nanos()) // the time-out is one of making no progress
		}
		return false
	})
	if err == nil {
		err = failed
	}
	return err
}

// sendPieces sends of the file what goes without waiting. EAGAIN: there is no
// more room, though some may have been sent.
func (c *conn) sendPieces() (progresses bool, err error) {
	f := c.file
	for sent := 0; f.Size > 0; {
		n, err := sock.SendFile(c.raw.fd, f.Source, f.Offset, f.Size)
		switch err {
		case nil:
		case io.EOF:
			return progresses, engine.ErrShortFile
		default:
			return progresses, err
		}
		f.Advance(n)
		progresses = true
		if sent += n; sent >= bytesInARow {
			runtime.Gosched()
			sent = 0
		}
	}
	return progresses, nil
}
