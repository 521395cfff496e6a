//go:build linux && (amd64 || arm64)

package epoll

import (
	"syscall"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/sock"
)

// begin brings a new connection to where it can be fed. Anything but Read ends
// it. A TLS connection on which nothing has come yet waits for the client's
// hello without a goroutine (isSilent), and begins again then.
func (c *conn) begin() engine.Next {
	if !c.isAdmitted {
		if next := c.admit(); next != engine.Read {
			return next
		}
	}
	if c.serving.config != nil && c.tlsConn == nil {
		if next := c.beginTLS(); next != engine.Read || c.isSilent {
			return next
		}
		// The handshake's goroutine did not count against MaxWorkers. It must count
		// before it runs a handler, so the connection goes back to the queue.
		if c.isYielding = c.driver.options.MaxWorkers > 0; c.isYielding {
			return engine.Read
		}
	}
	var refusal []byte
	c.protocol, refusal = c.serving.acceptor.Open(c)
	if c.protocol == nil {
		return c.refuse(refusal)
	}
	c.isOpen = true
	c.isFed = true // it is asked to Pause before it sleeps for the first time
	if leftover := c.driver.takeLeftover(c.fd, c.gen); len(leftover) > 0 {
		c.unread = leftover
	}
	return engine.Start(c.protocol)
}

// beginTLS makes the handshake, or waits for its beginning (isSilent).
func (c *conn) beginTLS() engine.Next {
	s := c.slot()
	s.set(flagHandshake)
	// Shutdown sets closing before it looks for handshakes to end. So either it
	// finds this one, or closing is seen here.
	if c.driver.closing.Load() {
		c.fail(engine.ErrShutdown)
		return engine.Abort
	}
	if c.isSilent = isEmpty(c.fd); c.isSilent {
		return engine.Read
	}
	err := c.handshake()
	s.take(flagHandshake)
	if err != nil {
		c.fail(err)
		return engine.Abort
	}
	return engine.Read
}

// admit asks for permission.
func (c *conn) admit() engine.Next {
	ok, refusal := c.serving.acceptor.Admit(c.worker.describe(c))
	if !ok {
		if c.serving.config != nil {
			refusal = nil
		}
		return c.refuse(refusal)
	}
	c.isAdmitted = true
	if timeout := c.driver.options.HandshakeTimeout; timeout > 0 && c.serving.config != nil {
		c.SetReadDeadline(clock.Nanos(), timeout)
	}
	return engine.Read
}

// refusalReads is how often the input of a refused connection is read, so that
// closing does not reset it before the refusal has arrived.
const refusalReads = 16

// refuse writes refusal as far as it goes without waiting.
func (c *conn) refuse(refusal []byte) engine.Next {
	if len(refusal) == 0 {
		return engine.Abort
	}
	if c.tlsConn != nil {
		c.out = append(c.out[:0], refusal...)
		c.flushTLS()
		c.out, c.isBlocked = c.out[:0], false
	} else if _, errno := sock.Send(c.fd, refusal); errno != 0 {
		return engine.Abort
	}
	_ = syscall.Shutdown(c.fd, syscall.SHUT_WR)
	for range refusalReads {
		if n, errno := sock.Recv(c.fd, c.in); n <= 0 || errno != 0 {
			break
		}
	}
	return engine.Abort
}

// finish ends the connection in the way that next asks for. True: it has to wait
// before.
func (c *conn) finish(next engine.Next) (waits bool) {
	switch {
	case c.isHanded:
		c.giveAway()
		return false
	case c.err != nil || next == engine.Abort || c.isLingering:
	case next == engine.Detach:
		c.detachForGood()
		return false
	case next == engine.CloseLinger || c.hasInput():
		if c.linger() {
			return true
		}
	}
	c.end(next)
	return false
}

// hasInput tells whether closing would meet input that nobody has read: the
// peer may lose the last answer to the reset that this causes.
func (c *conn) hasInput() bool {
	if len(c.unread) > 0 {
		return true
	}
	if c.isDrained && c.slot().has(flagAdded) && !c.slot().has(flagInput) {
		return false
	}
	n, _ := sock.Recv(c.fd, c.in)
	return n > 0
}

// linger tells the peer that no more is coming and starts to read what it is
// still sending (RFC 9112 section 9.6). It tells whether there is more to wait
// for.
func (c *conn) linger() bool {
	if c.tlsConn != nil {
		c.tlsConn.sayGoodbye()
	}
	if syscall.Shutdown(c.fd, syscall.SHUT_WR) != nil {
		return false
	}
	c.isLingering = true
	c.lingerLeft = lingerDiscardLimit
	c.lingerBy = clock.Nanos() + int64(c.driver.options.LingerTimeout)
	return c.discard() == engine.Read
}

// discard reads what a lingering connection still gets. Read means to wait.
func (c *conn) discard() engine.Next {
	c.unread = nil
	for c.lingerLeft > 0 {
		n, errno := sock.Recv(c.fd, c.in)
		switch {
		case n > 0:
			c.lingerLeft -= n
		case errno == syscall.EAGAIN:
			return engine.Read
		default:
			return engine.Close
		}
	}
	return engine.Close
}

// end closes the connection and settles its accounts.
func (c *conn) end(next engine.Next) {
	if c.tlsConn != nil && next != engine.Abort && c.err == nil && !c.isLingering {
		c.tlsConn.sayGoodbye()
	}
	c.leave()
	if c.isStuck && (next == engine.Abort || c.err != nil) {
		forgetUnsent(c.fd)
	}
	c.serving.close(c.fd)
	c.conclude()
	c.recycle()
}

// forgetUnsent makes closing reset the connection: the system would otherwise
// keep what the peer does not take, megabytes for a long time.
func forgetUnsent(fd int) {
	_ = syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1}) // else it is kept
}

// recycle gives c to the worker for another connection.
func (c *conn) recycle() {
	w := c.worker
	if w.conn == c {
		w.conn = nil
	}
	c.keepGrown(w)
	c.reset()
	w.keep(c)
}

// tlsMemory is about what the state of a TLS connection takes.
const tlsMemory = 16 << 10

// leave makes the connection's slot and buffers free. The descriptor is still
// open, so that nobody else can get it.
func (c *conn) leave() {
	if run := c.run; run != nil { // a Run was cut short
		run.end(c)
		c.run = nil
	}
	c.wakeToEnd()
	if c.left == nil {
		c.left = c.worker.describe(c)
	}
	c.dropPendingOut()
	c.dropHeld()
	c.dropFile()
	c.hide()
	if c.tlsConn != nil {
		c.place.setTLSConn(nil)
		buf.LetGo(tlsMemory)
	}
	c.driver.takeLeftover(c.fd, c.gen)
	c.slot().close()
	c.driver.table.close(c.fd, c.place)
}

// wakeToEnd wakes a sleeping protocol so that it can be told of the end: what it
// left is in the slot, which is soon another connection's.
func (c *conn) wakeToEnd() {
	if !c.isOpen {
		return
	}
	defer func() {
		if recover() != nil { // it cannot be told, but the books are kept
			c.isOpen = false
		}
	}()
	c.brain()
}

// conclude makes the calls that end a connection, each once even when one of
// them does not return in the normal way.
func (c *conn) conclude() {
	defer c.driver.closed(c.fd, c.serving)
	defer c.serving.depart()
	defer c.deny() // it was wanted, but cannot be had
	if c.isAdmitted {
		c.isAdmitted = false
		defer c.serving.acceptor.Release(c.left)
	}
	if c.isOpen {
		c.isOpen = false
		p := c.brain()
		c.protocol = nil
		p.Closed(c.err)
	}
}

// abandon ends the connection of a worker that cannot go on.
func (c *conn) abandon(cause error) {
	if c.left != nil {
		return // it was ending
	}
	defer func() {
		_ = recover() // Closed or Release panicked, too; the books are kept
	}()
	c.fail(cause)
	c.leave()
	c.serving.close(c.fd)
	c.conclude()
}
