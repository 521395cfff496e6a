package netconn

import (
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/drive"
)

// BeginRun implements drive.Host.
func (*conn) BeginRun() {}

// EndRun implements drive.Host. It ends what a Run has asked for.
func (c *conn) EndRun(next engine.Next) (after engine.Next, isMuch bool) {
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
		c.Fail(engine.ErrShutdown)
		return engine.Abort, false
	}
	return next, next != engine.Abort && (len(c.Out) >= c.driver.options.FlushSize || c.file != nil)
}

// Began implements drive.Host.
func (c *conn) Began(isSuccessor bool) {
	if isSuccessor && !c.Can.Has(engine.CanPack) {
		c.mayGo.Store(false)
	}
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

// Flush implements drive.Host. It waits until everything is written.
func (c *conn) Flush() drive.Written {
	if len(c.Out) == 0 && c.file == nil {
		return drive.WroteAll
	}
	began := int64(0)
	if c.deadline != 0 {
		began = clock.Nanos()
	}
	var f *feeder
	if c.Can.Has(engine.IsDuplex) {
		f = c.feedMeanwhile()
	}
	_, err := c.Write(c.Out)
	c.Out = c.Out[:0]
	if err == nil && c.file != nil {
		err = c.flushFile()
	}
	if f != nil {
		f.stop()
	}
	if err != nil {
		c.Fail(err)
		return drive.WroteNot
	}
	if began != 0 {
		c.deadline += clock.Nanos() - began // the protocol has set it before
	}
	return drive.WroteAll
}

// endOfInput handles the peer's FIN while input was wanted.
func (c *conn) endOfInput() engine.Next {
	if c.killed.Load() {
		c.Fail(engine.ErrShutdown)
		return engine.Abort
	}
	return c.HalfClosed()
}

// park makes the connection ready to wait for input: from here on it may be
// interrupted. False means to close it instead, because the engine shuts down
// and nothing is lost.
func (c *conn) park() bool {
	isPartial := c.Pause()
	c.armWait()
	if isPartial {
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
	if c.mayGo.Load() && c.CanRewind() {
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
