//go:build linux && (amd64 || arm64)

package core

import (
	"syscall"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/sock"
	"github.com/sluicehttp/sluice/internal/invariants"
)

// begin opens a new connection: it receives a proxy's header, asks for admission, makes the
// TLS handshake, and gets a protocol. A result other than Read ends the connection. A
// connection waits for the whole header, and the whole ClientHello, and has only its slot
// meanwhile (waitHello); begin is then called again.
func (c *conn) begin() engine.Next {
	c.wait = waitInput
	if c.phase == phaseFresh {
		if c.serving.hooks.Proxy != nil && c.slot().has(flagHandshake) {
			if next := c.awaitHeader(); next != engine.Read || c.wait == waitHello {
				return next
			}
		}
		if next := c.admit(); next != engine.Read {
			return next
		}
	}
	if c.serving.config != nil && c.tlsConn == nil {
		if next := c.beginTLS(); next != engine.Read || c.wait == waitHello {
			return next
		}
		// The handshake's goroutine did not count against MaxWorkers. It must count
		// before it runs a handler, so the connection goes back to the queue.
		if c.driver.options.MaxWorkers > 0 {
			c.wait = waitWorker
			return engine.Read
		}
	}
	parcel := c.driver.takeParcel(c.fd, c.gen)
	if len(parcel.TLS) > 0 {
		if err := c.adoptTLS(parcel.TLS); err != nil {
			c.Fail(err)
			return engine.Abort
		}
	}
	p, refusal := engine.Open(c.serving.acceptor, c, parcel.State)
	if p == nil {
		return c.refuse(refusal)
	}
	c.phase = phaseOpen
	if len(parcel.Leftover) > 0 {
		c.Unread = parcel.Leftover
	}
	return c.Begin(p)
}

// beginTLS makes the handshake, or sets waitHello if there is no ClientHello yet.
func (c *conn) beginTLS() engine.Next {
	s := c.slot()
	s.set(flagHandshake)
	// Shutdown reaches StageShutDown before it looks for handshakes to end. So either
	// it finds this one, or the Stage is seen here.
	if c.driver.life.Has(engine.StageShutDown) {
		c.Fail(engine.ErrShutdown)
		return engine.Abort
	}
	if !c.hasHello() {
		c.wait = waitHello
		return engine.Read
	}
	err := c.handshake()
	s.take(flagHandshake)
	if err != nil {
		c.worker.isLast = true
		c.Fail(err)
		if _, refusal := engine.PlainRefusal(c.serving.acceptor, err); len(refusal) > 0 {
			c.refusePlain(refusal)
		}
		return engine.Abort
	}
	return engine.Read
}

// admit asks the acceptor for admission.
func (c *conn) admit() engine.Next {
	ok, refusal := c.serving.acceptor.Admit(c.worker.describe(c))
	if !ok {
		if c.slot().has(flagTLS) {
			refusal = nil // there is no session yet that could protect it
		}
		return c.refuse(refusal)
	}
	c.phase = phaseAdmitted
	if timeout := c.driver.options.HandshakeTimeout; timeout > 0 && c.serving.config != nil {
		c.SetReadDeadline(clock.Nanos(), timeout)
	}
	return engine.Read
}

// refusalReads is how many times the input of a refused connection is read. Unread
// input would reset the connection on closing, and the refusal could be lost.
const refusalReads = 16

// refuse writes refusal, as much of it as there is room for.
func (c *conn) refuse(refusal []byte) engine.Next {
	if len(refusal) == 0 {
		return engine.Abort
	}
	if c.tlsConn != nil {
		c.Out = append(c.Out[:0], refusal...)
		c.flushTLS(engine.Abort)
		c.Out, c.wait = c.Out[:0], waitInput
		c.refusePlain(nil)
		return engine.Abort
	}
	c.refusePlain(refusal)
	return engine.Abort
}

// refusePlain writes refusal, without TLS, as much of it as there is room for.
func (c *conn) refusePlain(refusal []byte) {
	if len(refusal) > 0 {
		if _, errno := c.driver.source.Send(c.fd, refusal, false); errno != 0 {
			return
		}
	}
	_ = syscall.Shutdown(c.fd, syscall.SHUT_WR)
	for range refusalReads {
		if n, errno := c.driver.source.Recv(c.fd, c.In); n <= 0 || errno != 0 {
			break
		}
	}
}

// finish ends the connection in the way that next asks for. The result true means
// that it lingers first.
func (c *conn) finish(next engine.Next) (waits bool) {
	if invariants.Enabled && c.isHeld {
		panic("sluice: connection ends with output that waits for a batch")
	}
	switch {
	case c.phase == phaseHanded, c.phase == phaseFresh && next == engine.Close:
		c.giveAway()
		return false
	case c.Err != nil || next == engine.Abort || c.phase == phaseLingering:
	case next == engine.Detach:
		c.detachForGood()
		return false
	case next == engine.CloseLinger || c.hasInput(next):
		if c.linger() {
			return true
		}
	}
	c.end(next)
	return false
}

// hasInput reports whether there is unread input. On closing, it would reset the
// connection, and the peer could lose the last answer. The flags do not tell: input
// that has come since the last read may not have been reported yet.
func (c *conn) hasInput(next engine.Next) bool {
	isQuiet := next == engine.CloseQuiet && c.isDrained && !c.slot().has(flagInput)
	if len(c.Unread) > 0 || c.hasEnded || isQuiet {
		return len(c.Unread) > 0
	}
	n, _ := c.driver.source.Recv(c.fd, c.In)
	return n > 0
}

// linger half-closes the connection and starts to discard what the peer is still
// sending (RFC 9112 section 9.6). It reports whether there is more to wait for.
func (c *conn) linger() bool {
	if c.tlsConn != nil {
		c.tlsConn.sayGoodbye()
	}
	if sock.CloseWrite(c.fd) != 0 {
		return false
	}
	c.awaitsFIN, c.isUsual, c.isLent = false, false, false
	c.phase = phaseLingering
	c.lingerLeft = lingerDiscardLimit
	c.lingerBy = clock.Nanos() + int64(c.driver.options.LingerTimeout)
	return c.discard() == engine.Read
}

// discard discards the input of a lingering connection. The result Read means to
// wait for more.
func (c *conn) discard() engine.Next {
	c.Unread = nil
	for c.lingerLeft > 0 {
		n, errno := c.driver.source.Recv(c.fd, c.In)
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

// end closes the connection, and tells its protocol and its acceptor.
func (c *conn) end(next engine.Next) {
	if c.tlsConn != nil && next != engine.Abort && c.Err == nil && c.phase != phaseLingering {
		c.tlsConn.sayGoodbye()
	}
	c.leave()
	c.eraseTLS()
	if c.isStuck && (next == engine.Abort || c.Err != nil) {
		forgetUnsent(c.fd)
	}
	// If closing resets the connection, because of late input or SO_LINGER, it discards
	// output that is not sent.
	if c.awaitsFIN && !(next == engine.CloseQuiet && c.serving.isPrompt) {
		sock.CloseWrite(c.fd)
	}
	c.serving.close(c.fd)
	c.conclude()
	c.recycle()
}

// forgetUnsent makes closing reset the connection. Otherwise the system would keep
// the output that the peer does not accept: megabytes, for a long time.
func forgetUnsent(fd int) {
	_ = syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1}) // after an error it is kept
}

// recycle gives c to the worker for another connection.
func (c *conn) recycle() {
	w := c.worker
	if w.conn == c {
		w.conn = nil
	}
	c.keepGrown(w)
	c.isUsual = false
	w.keep(c)
}

// tlsMemory is the approximate size of a TLS connection's state.
const tlsMemory = 16 << 10

// leave releases the connection's slot and buffers. The descriptor is still open,
// so that no other connection gets its number.
func (c *conn) leave() {
	c.endWatch() // if a Run was cut short
	if run := c.run; run != nil {
		run.end()
		c.run = nil
	}
	c.wakeToEnd()
	if c.finalView == nil {
		c.finalView = c.worker.describe(c)
	}
	c.dropPendingOut()
	c.dropHeld()
	c.dropFile()
	c.hide()
	if c.tlsConn != nil {
		c.place.setTLSConn(nil)
		buf.LetGo(tlsMemory)
		if c.tlsConn.compact != nil {
			c.loop.compact.Add(-1)
		}
	}
	clear(c.driver.takeParcel(c.fd, c.gen).TLS)
	c.place.setProxied(nil) // finalView has it
	c.slot().close()
	c.driver.table.close(c.fd, c.place)
}

// wakeToEnd wakes a sleeping protocol, so that its Closed can be called. Its Memo is
// in the slot, which another connection may soon use.
func (c *conn) wakeToEnd() {
	if c.phase < phaseOpen {
		return
	}
	defer func() {
		if recover() != nil { // Closed cannot be called, but the connection is counted out
			c.phase = phaseAdmitted
		}
	}()
	c.wake()
}

// conclude makes the calls that end a connection: each once, even if one of them
// panics or ends the goroutine.
func (c *conn) conclude() {
	defer c.driver.closed(c.loop, c.serving)
	defer c.serving.depart()
	defer c.deny() // if DetachIdle still waits for it
	was := c.phase
	c.phase = phaseEnded
	if was >= phaseAdmitted {
		defer c.serving.acceptor.Release(c.finalView)
	}
	if was >= phaseOpen {
		c.wake()
		p := c.Protocol
		c.Protocol = nil
		p.Closed(c.Err)
	}
}

// abandon ends the connection of a worker that cannot go on.
func (c *conn) abandon(cause error) {
	if c.finalView != nil {
		return // it was ending already
	}
	defer func() {
		_ = recover() // Closed or Release panicked too; the connection is counted out
	}()
	c.Fail(cause)
	c.leave()
	c.eraseTLS()
	c.serving.close(c.fd)
	c.conclude()
}
