package sluice

import (
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// Connections update ServerControl.Meter here. BenchmarkServerMeter measures the cost.

// runMetered is run with counting.
func (c *serverConn) runMetered(m *Meter, out []byte) ([]byte, engine.Next) {
	begun := c.ctx.start
	if c.isPieced { // ctx.start is when the request began to arrive
		c.isPieced = false
		begun = clock.Nanos()
	}
	defer m.flights.begin(begun).Add(-1)
	c.counted = len(out)
	out, next := c.run(out)
	if next != engine.Abort {
		countIn(m.BytesWritten, len(out)-c.counted)
	}
	return out, next
}

// countStatus counts a request by the status of its final response.
func (c *serverConn) countStatus(status int) {
	if m := c.cfg.meter; m != nil {
		m.countStatus(status)
	}
}

// countWritten counts n bytes written during a Run. The first c.counted of them
// are counted already.
func (c *serverConn) countWritten(n int) {
	if m := c.cfg.meter; m != nil {
		countIn(m.BytesWritten, n-c.counted)
		c.counted = 0
	}
}

// countFile counts a part of a file that the engine sends after the bytes that
// Run returns.
func (c *serverConn) countFile(size int64) {
	if m := c.cfg.meter; m != nil {
		countIn(m.BytesWritten, size)
	}
}

// countRead counts input that was consumed during a Run.
func (c *serverConn) countRead(n int) {
	if m := c.cfg.meter; m != nil {
		countIn(m.BytesRead, n)
	}
}

// discard consumes n bytes of the input that the engine holds.
func (c *serverConn) discard(n int) {
	c.countRead(n)
	c.conn.Discard(n)
}
