//go:build linux && (amd64 || arm64)

package epoll

import (
	"io"
	"syscall"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/sock"
)

// A file is pending output as c.out is, and comes behind it: a connection whose
// peer does not read waits in its slot, without a goroutine and without buffers.

// bytesInARow is how much of a file a connection sends to a peer that takes
// everything before other connections have a turn.
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

// flushFile sends what is left of the file. False: not all of it, since there is
// no room or since others have a turn (isBlocked), or since it failed.
func (c *conn) flushFile() bool {
	// The time-out is one of making no progress, and writing the output before
	// the file is some.
	progresses := len(c.out) > 0
	c.emptyOut()
	c.beginStall() // also where it never blocks
	for sent := 0; c.file.Size > 0; {
		if sent >= bytesInARow {
			c.block(true)
			c.isYielding = true
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
			c.isBlocked = false
			c.fail(err)
			return false
		}
	}
	c.dropFile()
	return true
}

// sendPiece sends some of the file. EAGAIN: there is no more room, though some
// may have been sent.
func (c *conn) sendPiece() (int, error) {
	if c.tlsConn != nil {
		return c.tlsConn.sendPiece(&c.file)
	}
	return sock.SendFile(c.fd, c.file.Source, c.file.Offset, c.file.Size)
}

// sendPiece seals a record of the file.
func (s *tlsConn) sendPiece(f *engine.File) (int, error) {
	b := buf.Get(gatherSize)
	defer b.Release()
	n, err := f.ReadPiece(b.B[:gatherSize])
	if err != nil {
		return 0, err
	}
	if _, err := s.tls.Write(b.B[:n]); err != nil {
		return 0, err
	}
	if len(s.pending) > 0 {
		return n, syscall.EAGAIN
	}
	return n, nil
}

// dropFile gives the file back to whom it belongs, if there is one.
func (c *conn) dropFile() {
	if err := c.file.Release(); err != nil {
		c.fail(err)
	}
}

// longOutput is so much output that writing it takes a while.
const longOutput = 64 << 10

// beginStall notes that the protocol waits for its output to be written.
func (c *conn) beginStall() {
	if c.stalledSince == 0 {
		c.stalledSince = clock.Nanos()
	}
}

// endStall has the time since beginStall not count toward the deadline for
// input, which the protocol has set before.
func (c *conn) endStall() {
	since := c.stalledSince
	c.stalledSince = 0
	if c.readDeadline() != 0 {
		c.deadline += clock.Nanos() - since
	}
}

// giveTurn queues the connection, which is in the middle of a file, behind those
// that wait for a worker. From here on it may be at work elsewhere.
//
// The worker does not yield to other goroutines as well: sendfile(2) has told the
// scheduler, and a queue whose worker is not running gets another one for each
// download.
func (c *conn) giveTurn() {
	c.isYielding = false
	queue, fd := &c.driver.loopOf(c.fd).queue, c.fd
	c.detach()
	c.show()
	queue.push(int32(fd))
}
