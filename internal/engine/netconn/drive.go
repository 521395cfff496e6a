package netconn

import (
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// drive gives in to the protocol, and runs what it completes, until the
// protocol wants more input (Read) or something else. Output is written before
// drive returns. What is left of in when that is not Read stays in c.unread.
func (c *conn) drive(in []byte) engine.Next {
	c.fed, c.busySince = true, true
	for len(in) > 0 {
		used, next := c.protocol.Feed(in)
		in = in[used:]
		ran := next == engine.Run
		if ran {
			c.unread = in
			next = c.runRequests()
			in = c.unread
			if next == engine.Read && c.fedNext != engine.Run {
				next, c.fedNext = c.fedNext, engine.Read
			}
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

// runRequests calls Run for as long as the protocol has requests ready.
func (c *conn) runRequests() engine.Next {
	for {
		var next engine.Next
		c.out, next = c.protocol.Run(c.out)
		if next = c.afterRun(next); next != engine.Run {
			return next
		}
	}
}

// afterRun ends a Run, and writes its output if there is much, or a file.
func (c *conn) afterRun(next engine.Next) engine.Next {
	next = c.endRun(next)
	isMuch := len(c.out) >= c.driver.options.FlushSize || c.file != nil
	if isMuch && next != engine.Abort && !c.flush() {
		return engine.Abort
	}
	return next
}

// endRun ends what a Run has asked for, and returns what is to follow.
func (c *conn) endRun(next engine.Next) engine.Next {
	if run := c.extra.Load(); run != nil {
		b := run.blocking.Load()
		if b != nil {
			b.Sever() // calls that go on look at extra
		}
		run.gone.Cancel()
		c.endReader()
		c.extra.Store(nil)
		if b != nil {
			c.resetDeadlines(run, b)
			if b.IsClosed() && next != engine.Detach && next != engine.CloseLinger {
				next = engine.Close
			}
		}
	}
	if c.killed.Load() {
		c.fail(engine.ErrShutdown)
		return engine.Abort
	}
	return next
}

// resetDeadlines forgets the deadlines that a user has set during run.
func (c *conn) resetDeadlines(run *runState, b *engine.BlockingConn) {
	if run.isInterrupted.Load() || b.ReadIsOverridden() {
		c.armExactly(0)
	}
	if b.WriteIsOverridden() {
		c.armWrite(0)
	}
}

// settle writes the output and returns next, or Abort where writing failed. What
// was fed during the write may need another Run, or end the connection.
func (c *conn) settle(next engine.Next) engine.Next {
	for {
		if next != engine.Abort && !c.flush() {
			return engine.Abort
		}
		if next != engine.Read || c.fedNext == engine.Read {
			break
		}
		next, c.fedNext = c.fedNext, engine.Read
		if next == engine.Run {
			next = c.runRequests()
		}
	}
	if next == engine.Switch {
		return c.succeed()
	}
	return next
}

// succeed gives the connection to the protocol that follows on its own.
func (c *conn) succeed() engine.Next {
	wasOurs := c.mayGo.Swap(false)
	c.protocol = c.protocol.(engine.Switcher).Successor()
	c.fed = true
	next := c.begun()
	c.mayGo.Store(wasOurs && c.can.Has(engine.CanPack))
	if next != engine.Read {
		return next
	}
	if in := c.unread; len(in) > 0 {
		return c.drive(in)
	}
	return engine.Read
}

// flush writes the pending output, and the file behind it.
func (c *conn) flush() bool {
	if len(c.out) == 0 && c.file == nil {
		return true
	}
	began := int64(0)
	if c.deadline != 0 {
		began = clock.Nanos()
	}
	var f *feeder
	if c.can.Has(engine.IsDuplex) {
		f = c.feedMeanwhile()
	}
	_, err := c.Write(c.out)
	c.out = c.out[:0]
	if err == nil && c.file != nil {
		err = c.flushFile()
	}
	if f != nil {
		f.stop()
	}
	if err != nil {
		c.fail(err)
		return false
	}
	if began != 0 {
		c.deadline += clock.Nanos() - began // the protocol has set it before
	}
	return true
}

// endOfInput handles the peer's FIN while input was wanted.
func (c *conn) endOfInput() engine.Next {
	if c.killed.Load() {
		c.fail(engine.ErrShutdown)
		return engine.Abort
	}
	c.out = c.protocol.HalfClosed(c.out)
	return c.settle(engine.Close)
}

// park makes the connection ready to wait for input: from here on it may be
// interrupted. False means to close it instead, because the engine shuts down
// and nothing is lost.
func (c *conn) park() bool {
	if c.fed {
		c.fed = false
		c.partial = !c.protocol.Pause()
	}
	c.armWait()
	if c.partial {
		c.state.Store(c.partialState())
		return !c.killed.Load()
	}
	c.state.Store(stateIdle)
	// Shutdown sets closing before it looks at states. So either it sees the
	// connection idle, or the connection sees closing.
	if c.driver.closing.Load() && c.state.CompareAndSwap(stateIdle, stateBusy) {
		return false
	}
	return true
}

// partialState is how the connection waits in the middle of a request.
func (c *conn) partialState() uint32 {
	if c.can.Has(engine.CanRewind) && c.mayGo.Load() && c.protocol.(engine.Rewinder).CanRewind() {
		return stateHead
	}
	return statePartial
}

// wake takes the connection back after a wait. False means that it was
// interrupted meanwhile and is to end; finish knows how.
func (c *conn) wake() bool {
	for {
		switch state := c.state.Load(); state {
		case stateBusy:
			return true
		case stateIdle, statePartial, stateHead:
			if c.state.CompareAndSwap(state, stateBusy) {
				return true
			}
		case stateTaken, stateTakenHead:
			if c.state.CompareAndSwap(state, stateBusy) {
				c.handing = c.goes()
				return !c.handing
			}
		default:
			return false
		}
	}
}
