package perconn

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// noDeadline in an override means that the user has set the zero time.
const noDeadline = -1

// A blockingConn is what Conn.Blocking returns: a net.Conn that works until the
// Run it was made in ends, and reports net.ErrClosed afterwards.
type blockingConn struct {
	conn     atomic.Pointer[conn] // nil: over
	nc       net.Conn
	closed   atomic.Bool
	readBy   atomic.Int64 // overrides conn.deadline; 0: does not
	writeBy  atomic.Int64 // bounds writes; 0: conn.writeTimeout does
	waitable *watch       // raw path: where a read may be waiting
}

// Blocking implements engine.Conn.
func (c *conn) Blocking() net.Conn {
	extra := c.extras()
	if extra.blocking == nil {
		b := &blockingConn{nc: c.nc, waitable: c.watchable()}
		b.conn.Store(c)
		extra.blocking = b
	}
	return extra.blocking
}

// use returns the connection if it may still be used.
func (b *blockingConn) use(op string) (*conn, error) {
	c := b.conn.Load()
	if c == nil || b.closed.Load() {
		return nil, &net.OpError{Op: op, Net: "conn", Source: b.nc.LocalAddr(), Addr: b.nc.RemoteAddr(), Err: net.ErrClosed}
	}
	return c, nil
}

// Read implements net.Conn.
func (b *blockingConn) Read(p []byte) (int, error) {
	c, err := b.use("read")
	if err != nil {
		return 0, err
	}
	return c.Read(p)
}

// Write implements net.Conn.
func (b *blockingConn) Write(p []byte) (int, error) {
	c, err := b.use("write")
	if err != nil {
		return 0, err
	}
	return c.Write(p)
}

// Close implements net.Conn: the engine closes the connection after the Run.
func (b *blockingConn) Close() error {
	if _, err := b.use("close"); err != nil {
		return err
	}
	b.closed.Store(true)
	b.interrupt(past())
	return nil
}

// LocalAddr implements net.Conn.
func (b *blockingConn) LocalAddr() net.Addr { return b.nc.LocalAddr() }

// RemoteAddr implements net.Conn.
func (b *blockingConn) RemoteAddr() net.Addr { return b.nc.RemoteAddr() }

// SetDeadline implements net.Conn.
func (b *blockingConn) SetDeadline(t time.Time) error {
	if err := b.SetReadDeadline(t); err != nil {
		return err
	}
	return b.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (b *blockingConn) SetReadDeadline(t time.Time) error {
	if _, err := b.use("set"); err != nil {
		return err
	}
	b.readBy.Store(nanosOf(t))
	b.interrupt(t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (b *blockingConn) SetWriteDeadline(t time.Time) error {
	if _, err := b.use("set"); err != nil {
		return err
	}
	b.writeBy.Store(nanosOf(t))
	return b.nc.SetWriteDeadline(t)
}

// interrupt makes a read that is waiting look at readBy again.
func (b *blockingConn) interrupt(t time.Time) {
	if b.waitable != nil {
		b.waitable.wake()
		return
	}
	_ = b.nc.SetReadDeadline(t)
}

// sever ends b's use of the connection.
func (b *blockingConn) sever() { b.conn.Store(nil) }

// nanosOf turns a deadline into what overrides store.
func nanosOf(t time.Time) int64 {
	if t.IsZero() {
		return noDeadline
	}
	return max(clock.Nanos()+int64(time.Until(t)), 1)
}

// readLimit returns the deadline for reads during a Run, 0 for none.
func (c *conn) readLimit() int64 {
	if c.extra != nil && c.extra.blocking != nil {
		b := c.extra.blocking
		if b.closed.Load() {
			return 1
		}
		switch by := b.readBy.Load(); by {
		case 0:
		case noDeadline:
			return 0
		default:
			return by
		}
	}
	return c.deadline
}

// writeLimit returns the deadline for a write that blocks now, 0 for none.
func (c *conn) writeLimit(now int64) int64 {
	if c.extra != nil && c.extra.blocking != nil {
		switch by := c.extra.blocking.writeBy.Load(); by {
		case 0:
		case noDeadline:
			return 0
		default:
			return by
		}
	}
	if c.writeTimeout == 0 {
		return 0
	}
	return now + c.writeTimeout
}
