//go:build linux && (amd64 || arm64)

package epoll

import (
	"io"
	"os"
	"runtime"
	"syscall"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/sock"
)

// yieldAfter is how many reads in a row a connection gets that always has input.
const yieldAfter = 16

// serve serves the claimed connection until it waits or has ended; afterwards c
// may be another worker's.
func (c *conn) serve() {
	for {
		next := c.turn()
		if next != engine.Read && !c.finish(next) {
			return
		}
		if c.isYielding {
			c.giveTurn()
			return
		}
		if c.park() {
			return
		}
	}
}

// turn does what there is to do. Read means to wait.
func (c *conn) turn() engine.Next {
	s := c.slot()
	had := s.take(flagInput | flagOutput)
	errand := s.take(errands &^ flagPrompt)
	if errand != 0 {
		if next := c.runErrand(errand); next != engine.Read {
			return next
		}
	}
	// Whoever waits has read all that there was.
	promptOnly := errand&flagPromptOnly != 0 && had&flagInput == 0 && c.isOpen
	if !c.isOpen {
		if next := c.begin(); next != engine.Read || c.isSilent || c.isYielding {
			s.take(flagPrompt) // there is nobody yet who could have something to say
			return next
		}
	}
	if c.isBlocked {
		if next := c.resume(); next != engine.Read || c.isBlocked {
			return next
		}
	}
	if c.isLingering {
		s.take(flagPrompt) // nothing can be said any more
		return c.discard()
	}
	if s.take(flagPrompt) != 0 {
		c.isDrained = promptOnly
		next := c.prompted()
		// A Run that reads says what it has left.
		if next != engine.Read || c.isBlocked || c.isDrained && len(c.unread) == 0 && !s.has(flagInput|flagGone) {
			return next
		}
	}
	return c.pump()
}

// runErrand does what the connection was claimed for, other than input.
func (c *conn) runErrand(errand uint64) engine.Next {
	if errand&flagTake != 0 {
		c.gift = c.driver.handover.Load().given
	}
	switch {
	case errand&flagKill != 0:
		c.slot().set(flagKill)
		c.fail(c.driver.killCause())
		return engine.Abort
	case errand&flagTake != 0: // it is not one that has flagFixed
		c.isHanded = true
		return engine.Close
	case errand&flagEvict != 0 && !c.isBlocked && !c.isLingering && !c.isPartial:
		return engine.Close
	case errand&flagExpired != 0:
		return c.expired()
	}
	return engine.Read
}

// expired handles a deadline that has passed while waiting.
func (c *conn) expired() engine.Next {
	now := clock.Nanos()
	if at := c.slot().expiry.Load(); at == 0 || isBefore(tickOf(now), at) {
		return engine.Read // the sweep was about to claim it when it moved
	}
	switch {
	case c.isBlocked, c.isSilent:
		c.isStuck = c.isBlocked
		c.fail(os.ErrDeadlineExceeded)
		return engine.Abort
	case c.isLingering:
		return engine.Close
	}
	c.deadline, c.isDated = 0, true
	c.isFed = true
	var next engine.Next
	c.beginRun()
	c.out, next = c.brain().TimedOut(c.out)
	return c.settle(c.endRun(next))
}

// pump reads and drives until the socket is drained.
func (c *conn) pump() engine.Next {
	if in := c.unread; len(in) > 0 {
		next := c.drive(in)
		if next != engine.Read || c.isBlocked {
			return next
		}
	}
	// Also where a Run has used all of it: wait would believe that later input
	// is held.
	c.dropHeld()
	for pass := 1; ; pass++ {
		n, err := c.receive(c.in)
		switch {
		case n > 0:
			c.isDrained = n < len(c.in) && c.tlsConn == nil
			if next := c.drive(c.in[:n]); next != engine.Read || c.isBlocked {
				return next
			}
			// A short read has emptied the socket; what comes now is an event.
			// But a FIN that came before the read is none any more.
			if c.isDrained && !c.slot().has(flagGone) {
				return engine.Read
			}
		case err == nil:
			c.isDrained = true
			if c.tlsConn != nil && len(c.tlsConn.pending) > 0 {
				return c.settle(engine.Read) // TLS has answered something itself
			}
			return engine.Read
		case err == io.EOF || !c.isPartial && err == io.ErrUnexpectedEOF:
			// TLS peers that close an idle connection often spare themselves
			// the closing alert.
			c.isDrained = true
			c.beginRun()
			c.out = c.brain().HalfClosed(c.out)
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

// receive reads without waiting. Nothing and no error: there is nothing.
func (c *conn) receive(p []byte) (int, error) {
	if c.tlsConn != nil {
		return c.tlsConn.receive(p)
	}
	n, errno := sock.Recv(c.fd, p)
	switch {
	case n > 0 || errno == syscall.EAGAIN:
		return n, nil
	case errno == 0:
		return 0, io.EOF
	}
	return 0, os.NewSyscallError("recv", errno)
}

// drive gives in to the protocol, and runs what it completes, until the protocol
// wants more input (Read) or something else, or until there is no room to write
// (Read, and isBlocked). Output is written before drive returns. What is left
// of in stays in c.unread.
func (c *conn) drive(in []byte) engine.Next {
	p := c.brain()
	c.isFed = true
	for len(in) > 0 {
		used, next := p.Feed(in)
		in = in[used:]
		ran := next == engine.Run
		if ran {
			c.unread = in
			next = c.runRequests(p)
			if c.isBlocked {
				return c.wait(next)
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

// runRequests calls Run for as long as the protocol has requests ready and there
// is room to write.
func (c *conn) runRequests(p engine.Protocol) engine.Next {
	for {
		c.beginRun()
		var next engine.Next
		c.out, next = p.Run(c.out)
		next = c.makeRoom(c.endRun(next))
		if next != engine.Run || c.isBlocked {
			return next
		}
	}
}

// makeRoom writes the output of a Run if it is much, or has a file behind it. It
// returns next, or Abort where writing failed.
func (c *conn) makeRoom(next engine.Next) engine.Next {
	isMuch := len(c.out) >= c.driver.options.FlushSize || c.hasFile()
	if isMuch && next != engine.Abort && !c.flush() {
		return engine.Abort
	}
	return next
}

// prompted has the protocol say what it has to say.
func (c *conn) prompted() engine.Next {
	p, ok := c.brain().(engine.Prompted)
	if !ok {
		return engine.Read
	}
	c.beginRun()
	var next engine.Next
	c.out, next = p.Prompted(c.out)
	next = c.makeRoom(c.endRun(next))
	c.isFed = true
	if next == engine.Run && !c.isBlocked {
		next = c.runRequests(c.protocol)
	}
	if c.isBlocked {
		return c.wait(next)
	}
	return c.settle(next)
}

// settle writes the output. It returns next, Abort where writing failed, or Read
// where next has to wait for room.
func (c *conn) settle(next engine.Next) engine.Next {
	switch {
	case next == engine.Abort:
		return next
	case !c.flush():
		return engine.Abort
	case c.isBlocked:
		return c.wait(next)
	case next == engine.Switch:
		return c.succeed()
	}
	return next
}

// succeed gives the connection to the protocol that follows on its own.
func (c *conn) succeed() engine.Next {
	c.slot().set(flagSwitched)
	c.protocol = c.brain().(engine.Switcher).Successor()
	c.isFed = true
	if next := start(c.protocol); next != engine.Read {
		return next
	}
	if in := c.unread; len(in) > 0 {
		return c.drive(in)
	}
	return engine.Read
}

// start tells a Protocol that it begins, if it wants to know.
func start(p engine.Protocol) engine.Next {
	if starter, ok := p.(engine.Starter); ok {
		return starter.Start()
	}
	return engine.Read
}

// wait makes next what follows when the output is written.
func (c *conn) wait(next engine.Next) engine.Next {
	if next == engine.Abort {
		return next
	}
	c.after = next
	if len(c.unread) > 0 && c.pendingIn == nil {
		c.pendingIn = buf.Get(len(c.unread))
		c.pendingIn.B = append(c.pendingIn.B, c.unread...)
		c.unread = c.pendingIn.B
		c.driver.lend(c.fd, 1)
	}
	return engine.Read
}

// resume goes on where the lack of room stopped the connection.
func (c *conn) resume() engine.Next {
	if !c.flush() {
		return engine.Abort
	}
	if c.isBlocked {
		return engine.Read
	}
	next := c.after
	c.after = engine.Read
	if next == engine.Run {
		next = c.runRequests(c.brain())
		if c.isBlocked {
			return c.wait(next)
		}
		return c.settle(next)
	}
	if next == engine.Switch {
		return c.succeed()
	}
	return next
}

// flush writes the pending output, and the file behind it, as far as there is
// room. False: it failed.
func (c *conn) flush() bool {
	if c.tlsConn != nil {
		return c.flushTLS()
	}
	if len(c.out) > longOutput {
		c.beginStall() // also where it never blocks
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
		return c.isBlocked // or it failed
	}
	c.written()
	return true
}

// sendOut sends some of the output; what is in front of a file may share a packet
// with it.
func (c *conn) sendOut() (int, syscall.Errno) {
	if c.hasFile() {
		return sock.SendMore(c.fd, c.out)
	}
	return sock.Send(c.fd, c.out)
}

// block notes that output waits for room. The time-out of that begins now, if
// restarts also where it has begun before.
func (c *conn) block(restarts bool) {
	if !c.isBlocked || restarts {
		c.isBlocked = true
		c.writeBy = c.writeDeadline()
	}
	c.beginStall()
}

// written is called when everything is written.
func (c *conn) written() {
	c.isBlocked, c.writeBy = false, 0
	if c.stalledSince != 0 {
		c.endStall()
	}
	c.emptyOut()
}

// emptyOut forgets the output, which is written.
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

// dropHeld gives back what held the unread input.
func (c *conn) dropHeld() {
	if c.pendingIn != nil {
		c.pendingIn.ReleaseHeld()
		c.pendingIn, c.unread = nil, nil
		c.driver.lend(c.fd, -1)
	}
}
