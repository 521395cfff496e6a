package sluice

import (
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/meter"
)

// Connections update ServerControl.Meter here. BenchmarkServerMeter measures the cost.

// runMetered is run with counting.
func (c *http1Conn) runMetered(m *Meter, out []byte) ([]byte, engine.Next) {
	x := c.x
	begun := x.ctx.start
	if x.isPieced || c.sharesStart { // start is when the request, or the one before, began to arrive
		x.isPieced = false
		begun = clock.Nanos()
	}
	defer m.flights.Begin(begun).Add(-1)
	x.counted = len(out)
	out, next := c.run(out)
	if next != engine.Abort {
		meter.Add(m.BytesWritten, len(out)-x.counted)
	}
	return out, next
}

// countWritten counts n bytes written during a Run. The first x.counted of them
// are counted already.
func (x *http1Exchange) countWritten(n int) {
	if m := x.conn.cfg.meter; m != nil {
		meter.Add(m.BytesWritten, n-x.counted)
		x.counted = 0
	}
}

// countFile counts a part of a file that the engine sends after the bytes that
// Run returns.
func (x *http1Exchange) countFile(size int64) {
	if m := x.conn.cfg.meter; m != nil {
		meter.Add(m.BytesWritten, size)
	}
}

// countRead counts input that was consumed during a Run.
func (x *http1Exchange) countRead(n int) {
	if m := x.conn.cfg.meter; m != nil {
		meter.Add(m.BytesRead, n)
	}
}
