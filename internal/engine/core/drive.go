//go:build linux && (amd64 || arm64)

package core

import (
	"io"
	"os"
	"runtime"
	"syscall"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// yieldAfter is how many reads a worker makes on one connection before it yields to
// other goroutines.
const yieldAfter = 16

// serve serves the claimed connection until it waits or has ended. Afterwards
// another worker may own c.
func (c *conn) serve() {
	for {
		next := c.turn()
		if next == engine.Read && c.wait == waitRoom && c.takesInput() {
			next = c.feedBlocked()
		}
		if next != engine.Read && !c.finish(next) {
			return
		}
		if c.wait == waitTurn || c.wait == waitWorker {
			c.giveTurn()
			return
		}
		if c.park() {
			return
		}
	}
}

// turn handles the events of the connection. The result Read means to wait for
// further events.
func (c *conn) turn() engine.Next {
	s := c.slot()
	had := s.take(flagInput | flagOutput)
	reasons := s.take(reasonFlags &^ flagPrompt)
	if reasons != 0 {
		if next := c.handleReasons(reasons); next != engine.Read {
			return next
		}
	}
	// A connection that waited had read all its input, so after a prompt without
	// input there is nothing to read.
	promptOnly := reasons&flagPromptOnly != 0 && had&flagInput == 0 && c.phase >= phaseOpen
	if c.phase < phaseOpen {
		if next := c.begin(); next != engine.Read || c.phase < phaseOpen {
			s.take(flagPrompt) // there is no protocol yet to be prompted
			return next
		}
	}
	if c.isBlocked() {
		if next := c.resume(); next != engine.Read || c.isBlocked() {
			return next
		}
	}
	if c.phase == phaseLingering {
		s.take(flagPrompt) // the protocol can send nothing any more
		return c.discard()
	}
	if s.take(flagPrompt) != 0 {
		c.isDrained = promptOnly
		next := c.prompted()
		// isDrained may have changed: Conn.Read during the Run sets it.
		if next != engine.Read || c.isBlocked() || c.isDrained && len(c.unread) == 0 && !s.has(flagInput|flagGone) {
			return next
		}
	}
	return c.pump()
}

// handleReasons handles the reasons other than input for which the connection was
// claimed.
func (c *conn) handleReasons(reasons uint64) engine.Next {
	if reasons&flagTake != 0 {
		c.taker = c.driver.handover.Load().given
	}
	switch {
	case reasons&flagKill != 0:
		c.slot().set(flagKill)
		c.fail(c.driver.killCause())
		return engine.Abort
	case reasons&flagTake != 0: // DetachIdle claims no connection with flagFixed
		if c.pack() {
			c.phase = phaseHanded
			return engine.Close
		}
		c.deny()
	case reasons&flagEvict != 0 && !c.isBlocked() && c.phase != phaseLingering && !c.isPartial:
		return engine.Close
	case reasons&flagExpired != 0:
		return c.expired()
	}
	return engine.Read
}

// expired handles a deadline that has passed during a wait.
func (c *conn) expired() engine.Next {
	now := clock.Nanos()
	if at := c.slot().expiry.Load(); at == 0 || isBefore(tickOf(now), at) {
		return engine.Read // the deadline was moved before the sweep claimed it
	}
	switch {
	case c.isBlocked(), c.wait == waitHello:
		c.isStuck = c.isBlocked()
		c.fail(os.ErrDeadlineExceeded)
		return engine.Abort
	case c.phase == phaseLingering:
		return engine.Close
	}
	c.deadline, c.isDated = 0, true
	c.isFed = true
	var next engine.Next
	c.beginRun()
	c.out, next = c.awake().TimedOut(c.out)
	return c.settle(c.endRun(next))
}

// pump reads and drives until the socket is drained.
func (c *conn) pump() engine.Next {
	if in := c.unread; len(in) > 0 {
		next := c.drive(in)
		if next != engine.Read || c.isBlocked() {
			return next
		}
	}
	// Even if a Run has used all of it: otherwise postpone would treat later input as
	// held.
	c.dropHeld()
	for pass := 1; ; pass++ {
		room := c.room()
		n, err := c.receive(room)
		switch {
		case n > 0:
			c.isDrained = n < len(room) && c.tlsConn == nil
			if next := c.drive(room[:n]); next != engine.Read || c.isBlocked() {
				return next
			}
			// A short read has emptied the socket, and further input causes an event.
			// A FIN that arrived before the read does not cause another one.
			if c.isDrained && !c.slot().has(flagGone) {
				return engine.Read
			}
		case err == nil:
			c.isDrained = true
			if c.tlsConn != nil && len(c.tlsConn.pending) > 0 {
				return c.settle(engine.Read) // TLS has output of its own
			}
			return engine.Read
		case err == io.EOF || !c.isPartial && err == io.ErrUnexpectedEOF:
			// TLS peers that close an idle connection often send no close_notify
			// alert.
			c.isDrained = true
			c.beginRun()
			c.out = c.awake().HalfClosed(c.out)
			return c.settle(c.endRun(engine.Close))
		default:
			c.fail(err)
			return engine.Abort
		}
		if pass%yieldAfter == 0 {
			runtime.Gosched()
		}
	}
}

// room returns where the next input goes. A protocol between requests is not asked.
func (c *conn) room() []byte {
	if c.protocol != nil && c.can.Has(engine.CanReceive) && (c.isFed || c.isPartial) {
		if p := c.protocol.(engine.Receiver).Room(); len(p) > 0 {
			return p
		}
	}
	return c.in
}

// receive reads without waiting. It returns 0 and no error if there is no input.
func (c *conn) receive(p []byte) (int, error) {
	if c.tlsConn != nil {
		return c.tlsConn.receive(p)
	}
	n, errno := c.driver.source.Recv(c.fd, p)
	switch {
	case n > 0 || errno == syscall.EAGAIN:
		return n, nil
	case errno == 0:
		return 0, io.EOF
	}
	return 0, os.NewSyscallError("recv", errno)
}

// drive feeds in to the protocol, and runs the requests that it completes. It
// returns when the protocol wants more input (Read) or something else, or when
// there is no room to write (Read, and isBlocked is true). It writes the output before it
// returns. The unused rest of in stays in c.unread.
func (c *conn) drive(in []byte) engine.Next {
	p := c.awake()
	c.isFed = true
	for len(in) > 0 {
		used, next := p.Feed(in)
		in = in[used:]
		ran := next == engine.Run
		if ran {
			c.unread = in
			next = c.runRequests(p)
			if c.isBlocked() {
				return c.postpone(next)
			}
			in = c.unread
		}
		if next != engine.Read {
			c.unread = in
			return c.settle(next)
		}
		if used == 0 && len(in) > 0 && !ran {
			break // against Feed's contract; do not spin
		}
	}
	c.unread = nil
	return c.settle(engine.Read)
}

// runRequests calls Run while the protocol has requests ready and there is room to
// write.
func (c *conn) runRequests(p engine.Protocol) engine.Next {
	for {
		c.beginRun()
		var next engine.Next
		c.out, next = p.Run(c.out)
		next = c.makeRoom(c.endRun(next))
		if next != engine.Run || c.isBlocked() {
			return next
		}
	}
}

// makeRoom writes the output of a Run if it has FlushSize bytes or more, or if a
// file follows it. It returns next, or Abort if the write failed.
func (c *conn) makeRoom(next engine.Next) engine.Next {
	isMuch := len(c.out) >= c.driver.options.FlushSize || c.hasFile()
	if isMuch && next != engine.Abort && !c.flush() {
		return engine.Abort
	}
	return next
}

// prompted calls Prompted, if the protocol has it.
func (c *conn) prompted() engine.Next {
	p := c.awake()
	if !c.can.Has(engine.CanPrompt) {
		return engine.Read
	}
	c.beginRun()
	var next engine.Next
	c.out, next = p.(engine.Prompted).Prompted(c.out)
	next = c.makeRoom(c.endRun(next))
	c.isFed = true
	if next == engine.Run && !c.isBlocked() {
		next = c.runRequests(c.protocol)
	}
	if c.isBlocked() {
		return c.postpone(next)
	}
	return c.settle(next)
}

// settle writes the output. It returns next, Abort if the write failed, or Read if
// next must wait for room.
func (c *conn) settle(next engine.Next) engine.Next {
	switch {
	case next == engine.Abort:
		return next
	case !c.flush():
		return engine.Abort
	case c.isBlocked():
		return c.postpone(next)
	case next == engine.Switch:
		return c.succeed()
	}
	return next
}

// succeed gives the connection to the successor of its protocol.
func (c *conn) succeed() engine.Next {
	c.protocol = c.awake().(engine.Switcher).Successor()
	c.isFed = true
	next := c.begun()
	c.slot().assign(flagSwitched, !c.can.Has(engine.CanPack))
	if next != engine.Read {
		return next
	}
	if in := c.unread; len(in) > 0 {
		return c.drive(in)
	}
	return engine.Read
}

// postpone sets next as the step after the output is written.
func (c *conn) postpone(next engine.Next) engine.Next {
	if next == engine.Abort {
		return next
	}
	c.after = next
	c.holdUnread()
	return engine.Read
}

// holdUnread moves the unread input out of the worker's buffer.
func (c *conn) holdUnread() {
	if len(c.unread) > 0 && c.pendingIn == nil {
		c.pendingIn = buf.Get(len(c.unread))
		c.pendingIn.B = append(c.pendingIn.B, c.unread...)
		c.unread = c.pendingIn.B
		c.driver.lend(c.fd, 1)
	}
}

// resume continues what the lack of room has stopped.
func (c *conn) resume() engine.Next {
	if !c.flush() {
		return engine.Abort
	}
	if c.isBlocked() {
		return engine.Read
	}
	next := c.after
	c.after = engine.Read
	if next == engine.Run {
		next = c.runRequests(c.awake())
		if c.isBlocked() {
			return c.postpone(next)
		}
		return c.settle(next)
	}
	if next == engine.Switch {
		return c.succeed()
	}
	return next
}

// flush writes the pending output, and then the file, as much as there is room for.
// The result false means that writing failed.
func (c *conn) flush() bool {
	if c.tlsConn != nil {
		return c.flushTLS()
	}
	if len(c.out) > longOutput {
		c.beginStall() // even if it never blocks
	}
	for len(c.out) > 0 {
		n, errno := c.sendOut()
		if n == len(c.out) {
			break
		}
		c.keepGrown(c.worker)
		c.out = c.out[n:]
		switch errno {
		case 0:
		case syscall.EAGAIN:
			c.block(false)
			return true
		default:
			c.fail(os.NewSyscallError("send", errno))
			return false
		}
	}
	if c.hasFile() && !c.flushFile() {
		return c.isBlocked() // or it failed
	}
	c.written()
	return true
}

// sendOut sends a part of the output. If a file follows, they may share a packet.
func (c *conn) sendOut() (int, syscall.Errno) {
	if c.hasFile() {
		return c.driver.source.Send(c.fd, c.out, true)
	}
	return c.driver.source.Send(c.fd, c.out, false)
}

// block notes that output waits for room, and starts the write time-out. If output
// was waiting already, it restarts the time-out only if restarts is true.
func (c *conn) block(restarts bool) {
	if !c.isBlocked() || restarts {
		c.writeBy = c.writeDeadline()
	}
	c.wait = waitRoom
	c.beginStall()
}

// written is called when everything is written.
func (c *conn) written() {
	c.wait, c.writeBy = waitInput, 0
	if c.stalledSince != 0 {
		c.endStall()
	}
	c.emptyOut()
}

// emptyOut discards the output, which is written.
func (c *conn) emptyOut() {
	if c.pendingOut != nil {
		c.dropPendingOut()
		c.out = c.worker.output.B[:0]
		return
	}
	c.out = c.out[:0]
}

func (c *conn) dropPendingOut() {
	if c.pendingOut != nil {
		c.pendingOut.ReleaseHeld()
		c.pendingOut, c.out = nil, nil
		c.driver.lend(c.fd, -1)
	}
}

// dropHeld releases the buffer of the unread input, if it has one.
func (c *conn) dropHeld() {
	if c.pendingIn != nil {
		c.pendingIn.ReleaseHeld()
		c.pendingIn, c.unread = nil, nil
		c.driver.lend(c.fd, -1)
	}
}
