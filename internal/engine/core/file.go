//go:build linux && (amd64 || arm64)

package core

import (
	"io"
	"syscall"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// A file is pending output, sent after c.Out. A connection whose peer does not read
// waits in its slot, without a goroutine and without buffers.

// bytesInARow is how much of a file a worker sends before it serves other
// connections, if the peer accepts everything.
const bytesInARow = 1 << 20

// SendFile implements engine.Conn.
func (c *conn) SendFile(f engine.File) {
	if c.hasFile() {
		_ = f.Release()
		panic("sluice: SendFile called twice in a Run")
	}
	c.file = f
}

func (c *conn) hasFile() bool { return c.file.Source != nil }

// flushFile sends the rest of the file. The result false means that a part remains,
// because there is no room or other connections come first (isBlocked is true), or
// that sending failed.
func (c *conn) flushFile() bool {
	// The time-out restarts with every progress, and writing the output before the
	// file is progress.
	progresses := len(c.Out) > 0
	c.emptyOut()
	c.beginStall() // even if it never blocks
	for sent := 0; c.file.Size > 0; {
		if sent >= bytesInARow {
			c.block(true)
			c.wait = waitTurn
			return false
		}
		n, err := c.sendPiece()
		progresses = progresses || n > 0
		c.file.Advance(n)
		sent += n
		switch err {
		case nil:
		case syscall.EAGAIN:
			c.block(progresses)
			return false
		default:
			if err == io.EOF {
				err = engine.ErrShortFile
			}
			c.wait = waitInput
			c.Fail(err)
			return false
		}
	}
	c.dropFile()
	return true
}

// sendPiece sends a part of the file. EAGAIN means that there is no more room; a part
// may have been sent.
func (c *conn) sendPiece() (int, error) {
	if c.tlsConn != nil {
		return c.tlsConn.sendPiece(&c.file)
	}
	return c.driver.source.SendFile(c.fd, c.file.Source, c.file.Offset, c.file.Size)
}

// sendPiece seals a record of the file.
func (s *tlsConn) sendPiece(f *engine.File) (int, error) {
	b := buf.Get(gatherSize)
	defer b.Release()
	n, err := f.ReadPiece(b.B[:gatherSize])
	if err != nil {
		return 0, err
	}
	if _, err := s.session.Write(b.B[:n]); err != nil {
		return 0, err
	}
	if len(s.pending) > 0 {
		return n, syscall.EAGAIN
	}
	return n, nil
}

// dropFile releases the file, if there is one.
func (c *conn) dropFile() {
	if err := c.file.Release(); err != nil {
		c.Fail(err)
	}
}

// longOutput is the size from which on the time of writing output counts as a stall.
const longOutput = 64 << 10

// beginStall notes that the protocol waits for its output to be written.
func (c *conn) beginStall() {
	if c.stalledSince == 0 {
		c.stalledSince = clock.Nanos()
	}
}

// endStall moves the deadline for input by the time since beginStall. The protocol
// had set it before.
func (c *conn) endStall() {
	since := c.stalledSince
	c.stalledSince = 0
	if c.readDeadline() != 0 {
		c.deadline += clock.Nanos() - since
	}
}

// giveTurn queues the connection after those that wait for a worker. From then on
// another worker may own it.
//
// The worker does not also yield to other goroutines: sendfile(2) has told the
// scheduler, and a queue without a running worker would get another one for each
// download.
func (c *conn) giveTurn() {
	queue, fd := &c.loop.queue, c.fd
	c.detach()
	c.show()
	queue.push(int32(fd))
}
