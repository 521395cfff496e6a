package netconn

import (
	"net"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/drive"
)

// Flush implements drive.Host. It waits until everything is written.
func (c *conn) Flush(engine.Next) drive.Written {
	if len(c.Out) == 0 && !c.hasFile() {
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
	if err == nil && c.hasFile() {
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

// Write implements engine.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.boundWrite()
	n, err := c.nc.Write(p)
	c.isStuck = err != nil && isTimeout(err)
	return n, err
}

// gatherSize is the size up to which output is gathered for connections without a
// gathering write: one TLS record.
const gatherSize = 16 << 10

// WriteBuffers implements engine.Conn.
func (c *conn) WriteBuffers(v *net.Buffers) (int64, error) {
	switch c.nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		c.boundWrite()
		n, err := v.WriteTo(c.nc)
		c.isStuck = err != nil && isTimeout(err)
		return n, err
	}
	gather := buf.Get(gatherSize)
	defer gather.Release()
	var written int64
	for len(*v) > 0 {
		n, err := c.Write(engine.NextPiece(gather.B[:0], v, gatherSize))
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// boundWrite sets the deadline of a write that may block. It is never early, because a
// write that fails ruins a TLS connection. It is late by up to an eighth, so that most
// writes need not set one.
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

// armWrite sets nc's write deadline; 0 clears it.
func (c *conn) armWrite(want int64) {
	t := noTime()
	if want != 0 {
		t = clock.Deadline(want)
	}
	_ = c.nc.SetWriteDeadline(t)
	c.writeArmed = want
}

// yieldToOverride restores the user's deadline for writes, if it was set just before
// armWrite.
func (c *conn) yieldToOverride() {
	if b := c.blocking(); b != nil && b.WriteIsOverridden() {
		c.armWrite(b.WriteLimit(0))
	}
}
