package netconn

import (
	"errors"
	"io"
	"net"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// buffers are what is borrowed for conn.in and conn.out.
type buffers struct {
	input, output *buf.Buffer
}

// attachBuffers borrows buffers from the pools.
func (c *conn) attachBuffers() {
	if c.buffers.input != nil {
		return
	}
	c.driver.lent.Add(2)
	c.buffers.input = buf.Get(c.driver.options.ReadBufferSize)
	c.buffers.output = buf.Get(firstOutputSize)
	c.In = c.buffers.input.B[:c.driver.options.ReadBufferSize]
	c.Out = append(c.buffers.output.B[:0], c.Out...)
}

// releaseBuffers gives back what attachBuffers borrowed.
func (c *conn) releaseBuffers() {
	if c.buffers.input == nil {
		return
	}
	if cap(c.Out) <= keptOutputSize {
		c.buffers.output.B = c.Out[:0]
	}
	c.driver.lent.Add(-2)
	c.buffers.input.Release()
	c.buffers.output.Release()
	c.buffers = buffers{}
	c.In, c.Out = nil, nil
}

// pump reads and serves until the connection is to end in the way that it
// returns.
func (c *conn) pump() engine.Next {
	c.attachBuffers()
	next := c.next
	for next == engine.Read {
		in := c.Unread // of before, or of a Fill when it was prompted
		if len(in) == 0 {
			in, next = c.await()
		}
		if len(in) > 0 {
			c.busySince = true
			next = c.Drive(in)
		}
	}
	return next
}

// maxEmptyReads is how many reads in a row may return nothing at all.
const maxEmptyReads = 100

// await waits for input, which it returns. Without input it returns what is to
// happen instead; Read means to call it again.
func (c *conn) await() (in []byte, next engine.Next) {
	c.prepareToCool()
	if !c.park() {
		return nil, engine.Close
	}
	if c.isPrompted() {
		if c.prompts < maxPrompts {
			c.prompts++
			return nil, c.promptedWait()
		}
		c.armPoll()
	}
	c.prompts = 0
	p := c.Room()
	if p == nil {
		p = c.one[:]
	}
	for empty := 0; ; empty++ {
		n, err := c.readInput(p)
		switch {
		case n > 0:
			return c.gotInput(p[:n])
		case err == nil && empty < maxEmptyReads:
		case err == nil:
			err = io.ErrNoProgress
			fallthrough
		default:
			return nil, c.noInput(err)
		}
	}
}

// gotInput ends a wait that got in.
func (c *conn) gotInput(in []byte) ([]byte, engine.Next) {
	if !c.wake() {
		if c.handing {
			c.Unread = in
		}
		return nil, engine.Close
	}
	if c.cold {
		c.cold = false
		c.attachBuffers() // for the answer, even if the input is elsewhere
		if &in[0] == &c.one[0] {
			in = c.In[:copy(c.In, in)]
		}
	}
	return in, engine.Read
}

// noInput ends a wait that failed; Read means to wait again.
func (c *conn) noInput(err error) engine.Next {
	// TLS peers that close an idle connection often spare themselves the
	// closing alert. In the middle of a request that is a truncation.
	if err == io.EOF || !c.IsPartial && errors.Is(err, io.ErrUnexpectedEOF) {
		if !c.wake() {
			return engine.Close
		}
		return c.endOfInput()
	}
	return c.stopped(err)
}

// readInput reads from the connection, or what a background reader has read.
func (c *conn) readInput(p []byte) (int, error) {
	if c.reader != nil {
		return c.joinReader(p)
	}
	return c.nc.Read(p)
}

// readInRun reads during a Run.
func (c *conn) readInRun(p []byte) (int, error) {
	if c.reader != nil {
		c.interruptReader()
	}
	n, err := c.readUntilLimit(p)
	if extra := c.extra.Load(); extra != nil && extra.gone.Wanted() {
		if err != nil && !isTimeout(err) {
			extra.gone.Fire()
		} else {
			c.watchPeer(&extra.gone)
		}
	}
	return n, err
}

// readUntilLimit reads, and gives up when readLimit has passed.
func (c *conn) readUntilLimit(p []byte) (int, error) {
	if run := c.extra.Load(); run != nil {
		run.isReading.Store(true)
		defer run.isReading.Store(false)
	}
	for {
		limit := c.readLimit()
		c.arm(limit, c.timeout>>slackShift)
		if c.readLimit() != limit {
			c.armed = 0 // it was changed at the same time: ours may have won
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
		if limit != 0 && clock.Nanos() >= limit {
			c.armExactly(0)
			return 0, err
		}
		if c.killed.Load() {
			return 0, net.ErrClosed
		}
		if !c.isTimed && !c.isOverridden() {
			return 0, err // nc's own
		}
		c.armExactly(limit)
	}
}

// armWrite sets nc's write deadline; 0 clears it.
func (c *conn) armWrite(want int64) {
	if want == 0 {
		_ = c.nc.SetWriteDeadline(noTime())
	} else {
		_ = c.nc.SetWriteDeadline(clock.Deadline(want))
	}
	c.writeArmed = want
}

// boundWrite arms for a write that may block from now on. A write that fails
// ruins a TLS connection, so the deadline is never early; it is late by up to
// an eighth, which spares most writes from setting one.
func (c *conn) boundWrite() {
	if b := c.blocking(); b != nil && b.WriteIsOverridden() {
		return // the user has set it on nc
	}
	if c.writeTimeout == 0 {
		if c.writeArmed != 0 {
			c.armWrite(0)
			c.yieldToOverride()
		}
		return
	}
	want, slack := clock.Nanos()+c.writeTimeout, c.writeTimeout>>slackShift
	if c.writeArmed < want || c.writeArmed > want+slack {
		c.armWrite(want + slack)
		c.yieldToOverride()
	}
}

// yieldToOverride puts the user's deadline for writes on nc in place of one that
// was armed at the same time.
func (c *conn) yieldToOverride() {
	if b := c.blocking(); b != nil && b.WriteIsOverridden() {
		c.armWrite(b.WriteLimit(0))
	}
}

// write implements Write.
func (c *conn) write(p []byte) (int, error) {
	c.boundWrite()
	return c.nc.Write(p)
}

// gatherSize is how much output is copied together for connections that have
// no gathering write: one TLS record.
const gatherSize = 16 << 10

// writeBuffers implements WriteBuffers.
func (c *conn) writeBuffers(v *net.Buffers) (int64, error) {
	switch c.nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		c.boundWrite()
		return v.WriteTo(c.nc)
	}
	gather := buf.Get(gatherSize)
	defer gather.Release()
	var written int64
	for len(*v) > 0 {
		p := engine.NextPiece(gather.B[:0], v, gatherSize)
		if len(p) == 0 {
			break // only empty buffers were left; a pipe waits for a reader of nothing
		}
		n, err := c.write(p)
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}
