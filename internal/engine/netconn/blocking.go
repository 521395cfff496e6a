package netconn

import (
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A blockingHost implements engine.BlockingHost. What may be asked of it on any
// goroutine, or too late, does not look at conn: that may serve another
// connection by then.
type blockingHost struct {
	*conn
	nc  net.Conn
	run *runState // tells whether a read may be waiting
}

// Blocking implements engine.Conn.
func (c *conn) Blocking() net.Conn {
	run := c.extras()
	if run.blocking.Load() == nil {
		run.blocking.CompareAndSwap(nil, engine.NewBlockingConn(&blockingHost{c, c.nc, run}, c.nc))
	}
	return run.blocking.Load()
}

// blocking returns what Blocking has made in this Run, or nil.
func (c *conn) blocking() *engine.BlockingConn {
	if run := c.extra.Load(); run != nil {
		return run.blocking.Load()
	}
	return nil
}

// LocalAddr implements engine.BlockingHost.
func (h *blockingHost) LocalAddr() net.Addr { return h.nc.LocalAddr() }

// RemoteAddr implements engine.BlockingHost.
func (h *blockingHost) RemoteAddr() net.Addr { return h.nc.RemoteAddr() }

// InterruptRead implements engine.BlockingHost.
func (h *blockingHost) InterruptRead(t time.Time) {
	if h.run.isReading.Load() { // else the next read sees the limit
		h.run.isInterrupted.Store(true)
		_ = h.nc.SetReadDeadline(t)
	}
}

// InterruptWrite implements engine.BlockingHost.
func (h *blockingHost) InterruptWrite(t time.Time) { _ = h.nc.SetWriteDeadline(t) }

// readLimit returns the deadline for reads during a Run, 0 for none.
func (c *conn) readLimit() int64 {
	if b := c.blocking(); b != nil {
		return b.ReadLimit(c.deadline)
	}
	return c.deadline
}

// isOverridden tells whether the user has set the deadline for reads.
func (c *conn) isOverridden() bool {
	b := c.blocking()
	return b != nil && b.ReadIsOverridden()
}
