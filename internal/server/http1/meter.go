package http1

import (
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
)

// runMetered is run with counting.
func (c *Conn) runMetered(m *server.Meter, out []byte) ([]byte, engine.Next) {
	x := c.x
	begun := x.start
	if x.isPieced || c.sharesStart { // start is when the request, or the one before, began to arrive
		begun = clock.Nanos()
	}
	defer m.Flights.Begin(begun).Add(-1)
	out, next := c.run(out)
	if next != engine.Abort {
		server.Add(m.BytesWritten, len(out)-x.earlier)
	}
	return out, next
}

// countWritten counts n bytes written during a Run. The first x.earlier of them
// are counted already.
func (x *Exchange) countWritten(n int) {
	if m := &x.cfg.Meter; m.Flights != nil {
		server.Add(m.BytesWritten, n-x.earlier)
	}
	x.earlier = 0
}
