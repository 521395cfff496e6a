package perconn

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
	nc       net.Conn
	waitable *watch    // raw path: where a read may be waiting
	run      *runState // plain path: the same
}

// Blocking implements engine.Conn.
func (c *conn) Blocking() net.Conn {
	extra := c.extras()
	if extra.blocking == nil {
		extra.blocking = engine.NewBlockingConn(&blockingHost{c, c.nc, c.watchable(), extra}, c.nc)
	}
	return extra.blocking
}

// LocalAddr implements engine.BlockingHost.
func (h *blockingHost) LocalAddr() net.Addr { return h.nc.LocalAddr() }

// RemoteAddr implements engine.BlockingHost.
func (h *blockingHost) RemoteAddr() net.Addr { return h.nc.RemoteAddr() }

// InterruptRead implements engine.BlockingHost.
func (h *blockingHost) InterruptRead(t time.Time) {
	if h.waitable != nil {
		h.waitable.wake()
		return
	}
	if h.run.isReading.Load() { // else the next read sees the limit
		h.run.isInterrupted.Store(true)
		_ = h.nc.SetReadDeadline(t)
	}
}

// InterruptWrite implements engine.BlockingHost. Both paths wait for nc's
// deadline when they write.
func (h *blockingHost) InterruptWrite(t time.Time) { _ = h.nc.SetWriteDeadline(t) }

// readLimit returns the deadline for reads during a Run, 0 for none.
func (c *conn) readLimit() int64 {
	if c.extra != nil && c.extra.blocking != nil {
		return c.extra.blocking.ReadLimit(c.deadline)
	}
	return c.deadline
}

// isOverridden tells whether the user has set the deadline for reads.
func (c *conn) isOverridden() bool {
	return c.extra != nil && c.extra.blocking != nil && c.extra.blocking.ReadIsOverridden()
}

// writeLimit returns the deadline for a write that blocks now, 0 for none.
func (c *conn) writeLimit(now int64) int64 {
	limit := int64(0)
	if c.writeTimeout != 0 {
		limit = now + c.writeTimeout
	}
	if c.extra != nil && c.extra.blocking != nil {
		return c.extra.blocking.WriteLimit(limit)
	}
	return limit
}
