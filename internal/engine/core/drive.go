//go:build linux && (amd64 || arm64)

package core

import (
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/drive"
	"github.com/sluicehttp/sluice/internal/engine/sock"
)

// A worker that reads much from one connection yields to other goroutines, after yieldAfter
// reads at the earliest. A yield takes a round of all that are ready. So the worker first reads
// for a spell, which is a share of what the last yield took: beside slow handlers an upload does
// not wait for a round after every few reads, and each upload makes the rounds longer by that
// share only.
const (
	yieldAfter = 16
	yieldShare = 16
	longSpell  = 10 * time.Millisecond // the longest; Go's scheduler ends what takes longer anyway
)

// A spell is how long a loop's workers read from a connection without a yield, in nanoseconds.
type spell struct{ length atomic.Int64 }

// yield is called after every yieldAfter reads of a turn. It yields unless the spell lasts, until
// the time that the last call has returned; the first call of a turn gets 0. now and gosched are
// clock.Nanos and runtime.Gosched.
func (s *spell) yield(until int64, now func() int64, gosched func()) int64 {
	began := now()
	if until == 0 {
		until = began + s.length.Load()
	}
	if began < until {
		return until
	}
	gosched()
	ended := now()
	length := min((ended-began)/yieldShare, int64(longSpell))
	s.length.Store(length)
	return ended + length
}

// serve serves the claimed connection until it waits or has ended. Afterwards
// another worker may own c.
func (c *conn) serve() {
	for {
		var next engine.Next
		if c.isUsual && !c.slot().has(flagInput|flagOutput|reasonFlags) {
			next = c.pump()
		} else {
			next = c.turn()
		}
		if next != engine.Read || !c.isUsual { // otherwise it waits for input
			if next == engine.Read && c.wait == waitRoom && c.TakesInput() {
				next = c.feedBlocked()
			}
			if next != engine.Read && !c.finish(next) {
				return
			}
			if c.wait == waitTurn || c.wait == waitWorker {
				c.giveTurn()
				return
			}
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
	if c.tlsConn != nil {
		c.tlsConn.isDrained = false
	}
	reasons := s.take(reasonFlags &^ flagPrompt)
	if reasons != 0 {
		c.worker.mayHold, c.isUsual, c.isLent = false, false, false
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
		if c.Err != nil {
			return engine.Abort // see leaveRest
		}
		if c.Protocol == nil { // Cast has sent a part
			c.wake()
			c.IsFed = true // it is asked to Pause before it sleeps
		}
		if next := c.Resume(); next != engine.Read || c.isBlocked() {
			return next
		}
	}
	if c.phase == phaseLingering {
		s.take(flagPrompt) // the protocol can send nothing any more
		return c.discard()
	}
	if s.take(flagPrompt) != 0 {
		c.isDrained = promptOnly
		c.wake()
		next := c.Prompted()
		// isDrained may have changed: Conn.Read during the Run sets it.
		if next != engine.Read || c.isBlocked() || c.isDrained && len(c.Unread) == 0 && !s.has(flagInput|flagGone) {
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
		if c.phase == phaseOpen && !c.isBlocked() && !c.IsPartial && !c.Can.Has(engine.SaysGoodbye) {
			return engine.Close // it was idle
		}
		c.Fail(c.driver.killCause())
		return engine.Abort
	case reasons&flagTake != 0: // DetachIdle claims no connection with flagFixed
		if c.phase == phaseFresh {
			return engine.Close // see finish
		}
		if c.pack() {
			c.phase = phaseHanded
			return engine.Close
		}
		c.deny()
	case reasons&flagEvict != 0 && !c.isBlocked() && c.phase != phaseLingering && !c.IsPartial:
		return c.evict()
	case reasons&flagExpired != 0:
		return c.expired()
	}
	return engine.Read
}

// evict ends an idle connection because of Shutdown, or lets its protocol end it. A request
// that has arrived is answered. One that is on its way gets no reset, which would be no sign
// for the client that it was not served.
func (c *conn) evict() engine.Next {
	c.wake()
	var next engine.Next
	if c.Can.Has(engine.SaysGoodbye) {
		next = c.Prompted()
	} else {
		next = c.pump()
	}
	if next == engine.Read && !c.isBlocked() && !c.Pause() {
		return engine.CloseLinger // it has nothing to say
	}
	return next
}

// expired handles a deadline that has passed during a wait.
func (c *conn) expired() engine.Next {
	now := clock.Nanos()
	if at := c.slot().expiry.Load(); at == 0 || isBefore(tickOf(now), at) {
		return engine.Read // the deadline was moved before the sweep claimed it
	}
	switch {
	case c.phase == phaseFresh:
		return c.refuseHeader(os.ErrDeadlineExceeded)
	case c.isBlocked(), c.wait == waitHello:
		c.isStuck = c.isBlocked()
		c.Fail(os.ErrDeadlineExceeded)
		return engine.Abort
	case c.phase == phaseLingering:
		return engine.Close
	}
	c.deadline, c.isDated = 0, true
	c.wake()
	return c.TimedOut()
}

// pumpUnread sends and drives what pump has left.
func (c *conn) pumpUnread() engine.Next {
	if c.isHeld {
		c.sendHeld()
		if c.Err != nil {
			return engine.Abort
		}
		if c.isBlocked() {
			return engine.Read
		}
	}
	if in := c.Unread; len(in) > 0 {
		c.wake()
		next := c.Drive(in)
		if next != engine.Read || c.isBlocked() {
			return next
		}
	}
	c.dropHeld() // even if a Run has used all of it
	return engine.Read
}

// pump reads and drives until the socket is drained.
func (c *conn) pump() engine.Next {
	if !c.isUsual || c.Protocol != nil { // otherwise it has nothing
		if next := c.pumpUnread(); next != engine.Read || c.isBlocked() {
			return next
		}
	}
	var until int64
	for pass := 1; ; pass++ {
		room := c.In
		if c.Can != 0 {
			if c.Can.Has(engine.CanStop) && c.Stops() {
				return engine.Read // ReadOn is an event
			}
			room = c.Room()
		}
		if c.worker.isWide {
			room = c.widened(room)
		}
		var n int
		var err error
		if c.tlsConn == nil { // receive; the call would cost every request
			var errno syscall.Errno
			if n, errno = c.driver.source.Recv(c.fd, room); n <= 0 {
				err = receiveError(errno)
			}
			c.isDrained = n < len(room)
		} else {
			n, err = c.tlsConn.receive(room)
			c.isDrained = false
		}
		switch {
		case n > 0:
			if c.worker.isWide {
				room = c.narrowed(room[:n])
			}
			c.wake()
			if next := c.Drive(room[:n]); next != engine.Read || c.isBlocked() {
				return next
			}
			// A short read has emptied the socket, and further input causes an event.
			// A FIN that arrived before the read does not cause another one. While a
			// large message is read, its sender goes on, and the rest of it would wait
			// for all handlers that are queued.
			if c.isHeld || c.isDrained && (pass == 1 || !c.IsPartial) && !c.slot().has(flagGone) {
				return engine.Read
			}
			c.measure(n)
		case err == nil:
			if c.tlsConn != nil && len(c.tlsConn.pending) > 0 {
				return c.Resume() // TLS has output of its own
			}
			return engine.Read
		case err == io.EOF || !c.IsPartial && err == io.ErrUnexpectedEOF:
			// TLS peers that close an idle connection often send no close_notify
			// alert.
			c.hasEnded = c.tlsConn == nil
			c.wake()
			return c.PeerEnded()
		default:
			c.Fail(err)
			return engine.Abort
		}
		if pass%yieldAfter == 0 {
			until = c.loop.spell.yield(until, clock.Nanos, runtime.Gosched)
		}
	}
}

// receive reads without waiting. It returns 0 and no error if there is no input.
func (c *conn) receive(p []byte) (int, error) {
	if c.tlsConn != nil {
		return c.tlsConn.receive(p)
	}
	n, errno := c.driver.source.Recv(c.fd, p)
	if n > 0 {
		return n, nil
	}
	return 0, receiveError(errno)
}

// receiveError returns the error of a Recv that has read nothing; nil if there is no input.
func receiveError(errno syscall.Errno) error {
	switch errno {
	case syscall.EAGAIN:
		return nil
	case 0:
		return io.EOF
	}
	return os.NewSyscallError("recv", errno)
}

// Began implements drive.Host.
func (c *conn) Began(isSuccessor bool) {
	s := c.slot()
	s.assign(flagQuick, c.Can.Has(engine.NeverBlocks))
	if isSuccessor {
		c.forgetReused()
		s.assign(flagStays, !c.Can.Has(engine.CanPack) || c.tlsConn != nil && c.tlsConn.compact == nil)
	}
}

// Flush implements drive.Host. It writes as much as there is room for, or leaves the output
// for a batch.
func (c *conn) Flush(then engine.Next) drive.Written {
	if then == engine.Read && c.canHold() {
		c.isHeld = true
		return drive.WroteAll
	}
	c.isHeld = false
	if !c.isUsual || then != engine.Read || c.hasFile() || len(c.Out) > longOutput {
		return c.flush(then)
	}
	if len(c.Out) > 0 { // flush, in fewer instructions
		n, errno := c.driver.source.Send(c.fd, c.Out, false)
		if n < len(c.Out) {
			return c.flushRest(then, n, errno)
		}
		c.Out = c.Out[:0]
	}
	return drive.WroteAll
}

func (c *conn) flush(then engine.Next) drive.Written {
	if c.tlsConn != nil {
		return c.wrote(c.flushTLS(then))
	}
	if len(c.Out) > longOutput {
		c.beginStall() // even if it never blocks
	}
	n, errno := 0, syscall.Errno(0)
	if len(c.Out) > 0 {
		n, errno = c.sendOut(then)
	}
	return c.flushRest(then, n, errno)
}

// flushRest goes on after a call has sent n bytes of Out.
func (c *conn) flushRest(then engine.Next, n int, errno syscall.Errno) drive.Written {
	for n < len(c.Out) {
		c.keepGrown(c.worker)
		c.Out = c.Out[n:]
		switch errno {
		case 0:
		case syscall.EAGAIN:
			c.block(false)
			return drive.WroteSome
		default:
			c.Fail(os.NewSyscallError("send", errno))
			return drive.WroteNot
		}
		n, errno = c.sendOut(then)
	}
	if c.hasFile() && !c.flushFile() {
		return c.wrote(c.isBlocked()) // or it failed
	}
	c.written()
	if then == engine.EndOutput {
		sock.CloseWrite(c.fd)
	}
	return drive.WroteAll
}

// wrote returns what Flush has done, if it has not failed.
func (c *conn) wrote(ok bool) drive.Written {
	switch {
	case !ok:
		return drive.WroteNot
	case c.isBlocked():
		return drive.WroteSome
	}
	return drive.WroteAll
}

// sendOut sends a part of the output. If a file follows, or the FIN, they may share a
// packet: end, or linger, then sends both.
func (c *conn) sendOut(then engine.Next) (int, syscall.Errno) {
	c.awaitsFIN = then.Closes() && !c.hasFile() && c.serving.network == "tcp"
	return c.driver.source.Send(c.fd, c.Out, c.hasFile() || c.awaitsFIN)
}

// block notes that output waits for room, and starts the write time-out. If output
// was waiting already, it restarts the time-out only if restarts is true.
func (c *conn) block(restarts bool) {
	if !c.isBlocked() || restarts {
		c.writeBy = c.writeDeadline()
	}
	c.wait, c.isUsual, c.isLent = waitRoom, false, false
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
		c.Out = c.worker.output.B[:0]
		return
	}
	c.Out = c.Out[:0]
}

func (c *conn) dropPendingOut() {
	if c.pendingOut != nil {
		c.pendingOut.ReleaseHeld()
		c.pendingOut, c.Out = nil, nil
		c.loop.held.Add(-1)
	}
}

// dropHeld releases the buffer of the unread input, if it has one.
func (c *conn) dropHeld() {
	if c.pendingIn != nil {
		c.dropPendingIn()
	}
}

func (c *conn) dropPendingIn() {
	c.pendingIn.ReleaseHeld()
	c.pendingIn, c.Unread = nil, nil
	c.loop.held.Add(-1)
}
