package netconn

import (
	"errors"
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A blockingHost implements engine.BlockingHost. The methods that may be called after
// the Run do not look at conn, which may then serve another connection.
type blockingHost struct {
	*conn
	nc  net.Conn
	run *runState
}

// Blocking implements engine.Conn.
func (c *conn) Blocking() net.Conn {
	run := c.extras()
	if run.blocking.Load() == nil {
		run.blocking.CompareAndSwap(nil, engine.NewBlockingConn(&blockingHost{c, c.NetConn(), run}, c.NetConn()))
	}
	return run.blocking.Load()
}

// blocking returns the result of Blocking in this Run, or nil.
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
	if h.run.isReading.Load() { // otherwise the next read sees the limit
		h.run.isInterrupted.Store(true)
		_ = h.nc.SetReadDeadline(t)
	}
}

// InterruptWrite implements engine.BlockingHost.
func (h *blockingHost) InterruptWrite(t time.Time) { _ = h.nc.SetWriteDeadline(t) }

// CloseWrite implements engine.BlockingHost.
func (h *blockingHost) CloseWrite() error {
	if half, ok := h.nc.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// readLimit returns the deadline for reads during a Run, 0 for none.
func (c *conn) readLimit() int64 {
	if b := c.blocking(); b != nil {
		return b.ReadLimit(c.deadline)
	}
	return c.deadline
}

// isOverridden reports whether the user has set the deadline for reads.
func (c *conn) isOverridden() bool {
	b := c.blocking()
	return b != nil && b.ReadIsOverridden()
}
