package netconn

import (
	"errors"
	"io"
	"net"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// buffers are lent to conn.In and conn.Out. A connection without these is cold: it reads
// its next byte into conn.one. A conn that has ended keeps its buffers for another connection.
type buffers struct {
	input, output *buf.Buffer
}

// attachBuffers lends buffers to the connection, if it is cold.
func (c *conn) attachBuffers() {
	if c.In != nil {
		return
	}
	c.driver.held.Add(2)
	size := c.driver.options.ReadBufferSize
	if c.input == nil {
		c.input, c.output = buf.Get(size), buf.Get(firstOutputSize)
	}
	c.In = c.input.B[:size]
	c.Out = append(c.output.B[:0], c.Out...)
}

// detachBuffers takes the buffers from the connection, which becomes cold.
func (c *conn) detachBuffers() {
	if c.In == nil {
		return
	}
	if cap(c.Out) <= keptOutputSize {
		c.output.B = c.Out[:0]
	}
	c.driver.held.Add(-2)
	c.In, c.Out = nil, nil
}

// releaseBuffers returns the buffers, and has the protocol release what it keeps.
func (c *conn) releaseBuffers() {
	if c.Protocol != nil && c.Can.Has(engine.CanCool) {
		c.Protocol.(engine.Cooler).Cool()
	}
	c.detachBuffers()
	if c.input != nil {
		c.input.Release()
		c.output.Release()
		c.buffers = buffers{}
	}
}

// pump drives with in, and reads and drives, until the connection rests, or ends in the way
// that pump returns.
func (c *conn) pump(in []byte, next engine.Next) engine.Next {
	for next == engine.Read && c.activity != resting {
		if len(in) > 0 {
			c.setActive()
			next = c.Drive(in)
		}
		if in = c.Unread; len(in) == 0 && next == engine.Read { // else it was read by Fill in Prompted
			in, next = c.await()
		}
	}
	return next
}

// maxEmptyReads is how many reads in a row may return nothing at all.
const maxEmptyReads = 100

// await waits for input, which it returns. Without input it returns the next step; Read
// means to call it again.
func (c *conn) await() (in []byte, next engine.Next) {
	c.prepareToCool()
	if !c.park() {
		return c.lastLook()
	}
	if c.isPrompted() {
		if c.prompts < maxPrompts {
			c.prompts++
			return nil, c.servePrompt()
		}
		c.armPoll()
	}
	c.prompts = 0
	if c.beginsRest() {
		c.sleep()
		return nil, engine.Read
	}
	room := c.Room()
	if room == nil {
		room = c.one[:]
	}
	n, err := c.readInput(room)
	for empty := 0; n == 0 && err == nil; empty++ {
		if empty == maxEmptyReads {
			err = io.ErrNoProgress
			break
		}
		n, err = c.readInput(room)
	}
	return c.gotResult(room[:n], err)
}

// gotResult ends a wait whose read has returned in and err.
func (c *conn) gotResult(in []byte, err error) ([]byte, engine.Next) {
	switch {
	case len(in) > 0:
		return c.gotInput(in)
	case !c.wake():
		return c.lastLook()
	case err != nil:
		return nil, c.noInput(err)
	}
	return nil, engine.Read // nothing at all, for rest
}

// lastLook ends a connection that waits, because it was claimed, or because the engine shuts
// down. In the second case a request that has arrived is answered; the interrupted read has
// not looked for it. One that is on its way gets no reset, which would be no sign for the
// client that it was not served.
func (c *conn) lastLook() (in []byte, next engine.Next) {
	if c.phase == phaseHanded || !isSocket(underneath(c.nc)) { // others may ignore deadlines
		return nil, engine.Close
	}
	room := c.Room()
	if room == nil {
		room = c.one[:]
	}
	c.armPoll()
	n, err := c.readInput(room)
	switch {
	case n > 0:
		return c.gotInput(room[:n])
	case isTimeout(err):
		return nil, engine.CloseLinger
	}
	return nil, engine.Close
}

// park prepares for a wait, which may be interrupted from then on. The result false
// means to close the connection instead, because the engine shuts down and nothing is
// lost.
func (c *conn) park() bool {
	state := flagWaits
	if isPartial := c.Pause(); isPartial {
		state |= flagPartial
	}
	if c.kind != kindSocket || c.IsPartial && !c.CanRewind() {
		state |= flagFixed
	}
	saysGoodbye := c.Can.Has(engine.SaysGoodbye)
	if saysGoodbye {
		state |= flagSaysGoodbye
	}
	c.armWait()
	c.state.Store(state)
	// Shutdown reaches StageShutDown before it looks at states. So either it sees the
	// connection wait, or the Stage is seen here.
	switch {
	case c.IsPartial:
		return !c.killed.Load()
	case !c.driver.life.Has(engine.StageShutDown):
		return true
	case saysGoodbye && c.phase == phaseOpen:
		c.phase = phaseLeaving
		c.Prompter().Prompt()
		return true
	}
	return !c.state.CompareAndSwap(state, 0)
}

// isSocket reports whether nc is a connection of package net.
func isSocket(nc net.Conn) bool {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		return true
	}
	return false
}

// wake takes the connection back after a wait. The result false means that it ends, unless
// there is input and it was not handed over.
func (c *conn) wake() bool {
	was := c.state.Swap(0)
	return was&(claimed|flagInterrupted) == 0 || c.wasClaimed(was)
}

// wasClaimed is wake for a connection that was claimed during its wait.
func (c *conn) wasClaimed(was uint32) bool {
	c.wasInterrupted = c.wasInterrupted || was&(flagInterrupted|flagEvicted) != 0
	if was&flagTaken != 0 && c.pack() {
		c.phase = phaseHanded
	}
	return c.phase != phaseHanded && was&flagEvicted == 0
}

// gotInput ends a wait that got in.
func (c *conn) gotInput(in []byte) ([]byte, engine.Next) {
	if !c.wake() && c.phase == phaseHanded {
		c.Unread = in
		return nil, engine.Close
	}
	if c.In == nil {
		c.attachBuffers() // for the answer, even if the protocol has made room for in
		if &in[0] == &c.one[0] {
			in = c.In[:copy(c.In, in)]
		}
	}
	return in, engine.Read
}

// noInput ends a wait that failed; Read means to wait again.
func (c *conn) noInput(err error) engine.Next {
	// TLS peers that close an idle connection often send no closing alert. In the middle
	// of a request that is a truncation.
	isEnd := err == io.EOF || !c.IsPartial && errors.Is(err, io.ErrUnexpectedEOF)
	switch {
	case isEnd && !c.killed.Load():
		return c.HalfClosed()
	case isEnd:
		c.Fail(engine.ErrShutdown)
		return engine.Abort
	case c.killed.Load() || !isTimeout(err):
		c.Fail(err)
		return engine.Abort
	}
	return c.interrupted()
}

// interrupted handles a wait that a deadline has ended; Read means to wait again.
func (c *conn) interrupted() engine.Next {
	now := clock.Nanos()
	switch {
	case c.deadline != 0 && now >= c.deadline:
		if next := c.timedOut(); next != engine.Read {
			return next
		}
	case c.armed != 0 && now >= c.armed, c.isPrompted(), c.takeInterruption(), c.isOurs:
	default:
		return c.timedOut() // by a deadline that the owner of nc has set
	}
	c.cool(now)
	c.armExactly(0)
	return engine.Read
}

// takeInterruption reports whether DetachIdle or Shutdown has interrupted the wait, and forgets it.
func (c *conn) takeInterruption() bool {
	was := c.wasInterrupted
	c.wasInterrupted = false
	return was
}

// timedOut tells the protocol that its deadline has passed. Read means to wait on.
func (c *conn) timedOut() engine.Next {
	c.deadline, c.timeout = 0, 0
	return c.TimedOut()
}

// readInput reads from the connection, or what a background reader has read.
func (c *conn) readInput(p []byte) (int, error) {
	if c.reader != nil {
		return c.joinReader(p)
	}
	return c.nc.Read(p)
}

// ReadInRun implements drive.Host.
func (c *conn) ReadInRun(p []byte) (int, error) {
	if c.reader != nil {
		c.interruptReader()
	}
	n, err := c.readUntilLimit(p)
	if run := c.extra.Load(); run != nil && run.gone.Wanted() {
		if err != nil && !isTimeout(err) {
			run.gone.Fire()
		} else {
			c.watchPeer(&run.gone)
		}
	}
	return n, err
}

// readUntilLimit reads, and gives up when readLimit has passed.
func (c *conn) readUntilLimit(p []byte) (int, error) {
	c.setReading(true)
	defer c.setReading(false)
	for {
		limit := c.readLimit()
		c.arm(limit, c.timeout>>slackShift)
		if c.readLimit() != limit {
			c.armed = unknown // the user has moved it; either deadline may be set
			continue
		}
		n, err := c.readInput(p)
		if n > 0 {
			return n, nil
		}
		if err == nil || !isTimeout(err) {
			return 0, err
		}
		limit = c.readLimit()
		switch {
		case limit != 0 && clock.Nanos() >= limit:
			c.armExactly(0)
			return 0, err
		case c.killed.Load():
			return 0, net.ErrClosed
		case c.armed == 0 && !c.isOverridden() && !c.takeInterruption():
			return 0, err // nc has a deadline of its own
		}
		c.armExactly(limit)
	}
}
