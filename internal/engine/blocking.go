package engine

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// noDeadline in an override means that the user has set the zero time.
const noDeadline = -1

// closedLimit is what ReadLimit returns after Close: a time that has passed.
const closedLimit = 1

// A BlockingHost is what a BlockingConn works on. Engines implement it.
type BlockingHost interface {
	// Read and Write are those of Conn. They wait until what ReadLimit and
	// WriteLimit return, and look at those again when they are interrupted.
	//
	// A user who does not keep to the time of the Run may have any method called
	// when it is just over, and the Conn turned to something else.
	Read(p []byte) (int, error)
	Write(p []byte) (int, error)
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
	// InterruptRead and InterruptWrite make a wait that is going on look at its
	// limit again. They are called on any goroutine, after an override was
	// stored; t is what the user has set.
	InterruptRead(t time.Time)
	InterruptWrite(t time.Time)
}

// A BlockingConn is what engines return from Conn.Blocking: a net.Conn that
// works until the Run it was made in ends, and reports net.ErrClosed
// afterwards. Its deadlines override those of the Conn, and go with it.
type BlockingConn struct {
	host      atomic.Pointer[BlockingHost] // nil: over
	addresses net.Conn
	closed    atomic.Bool
	readBy    atomic.Int64 // overrides the deadline for reads; 0: does not
	writeBy   atomic.Int64 // overrides the one for writes; 0: does not
}

// NewBlockingConn returns a connection over host. addresses is asked for the
// addresses when host may not be used any more.
func NewBlockingConn(host BlockingHost, addresses net.Conn) *BlockingConn {
	b := &BlockingConn{addresses: addresses}
	b.host.Store(&host)
	return b
}

// use returns the host if it may still be used.
func (b *BlockingConn) use(op string) (BlockingHost, error) {
	h := b.host.Load()
	if h == nil || b.closed.Load() {
		return nil, &net.OpError{Op: op, Net: "conn", Source: b.LocalAddr(), Addr: b.RemoteAddr(), Err: net.ErrClosed}
	}
	return *h, nil
}

// Read implements net.Conn.
func (b *BlockingConn) Read(p []byte) (int, error) {
	h, err := b.use("read")
	if err != nil {
		return 0, err
	}
	return h.Read(p)
}

// Write implements net.Conn.
func (b *BlockingConn) Write(p []byte) (int, error) {
	h, err := b.use("write")
	if err != nil {
		return 0, err
	}
	return h.Write(p)
}

// Close implements net.Conn: the engine closes the connection after the Run. A
// read that is going on ends; the Run may still write its answer.
func (b *BlockingConn) Close() error {
	h, err := b.use("close")
	if err != nil {
		return err
	}
	b.closed.Store(true)
	h.InterruptRead(time.Unix(1, 0))
	return nil
}

// LocalAddr implements net.Conn.
func (b *BlockingConn) LocalAddr() net.Addr {
	if h := b.host.Load(); h != nil {
		return (*h).LocalAddr()
	}
	return b.addresses.LocalAddr()
}

// RemoteAddr implements net.Conn.
func (b *BlockingConn) RemoteAddr() net.Addr {
	if h := b.host.Load(); h != nil {
		return (*h).RemoteAddr()
	}
	return b.addresses.RemoteAddr()
}

// SetDeadline implements net.Conn.
func (b *BlockingConn) SetDeadline(t time.Time) error {
	if err := b.SetReadDeadline(t); err != nil {
		return err
	}
	return b.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (b *BlockingConn) SetReadDeadline(t time.Time) error {
	h, err := b.use("set")
	if err != nil {
		return err
	}
	b.readBy.Store(nanosOf(t))
	h.InterruptRead(t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (b *BlockingConn) SetWriteDeadline(t time.Time) error {
	h, err := b.use("set")
	if err != nil {
		return err
	}
	b.writeBy.Store(nanosOf(t))
	h.InterruptWrite(t)
	return nil
}

// Sever ends b's use of the host. Engines call it when the Run is over.
func (b *BlockingConn) Sever() { b.host.Store(nil) }

// IsClosed tells whether the user has called Close.
func (b *BlockingConn) IsClosed() bool { return b.closed.Load() }

// ReadIsOverridden tells whether the user has set a deadline for reads.
func (b *BlockingConn) ReadIsOverridden() bool { return b.readBy.Load() != 0 }

// WriteIsOverridden tells whether the user has set a deadline for writes.
func (b *BlockingConn) WriteIsOverridden() bool { return b.writeBy.Load() != 0 }

// ReadLimit returns until when a read may wait, in Nanos of package clock, and 0
// for ever: what the user has set, or else otherwise. After Close it has passed.
func (b *BlockingConn) ReadLimit(otherwise int64) int64 {
	if b.closed.Load() {
		return closedLimit
	}
	return overridden(b.readBy.Load(), otherwise)
}

// WriteLimit is ReadLimit for writes. Close does not end them: the answer of
// the Run is still to be written.
func (b *BlockingConn) WriteLimit(otherwise int64) int64 {
	return overridden(b.writeBy.Load(), otherwise)
}

func overridden(by, otherwise int64) int64 {
	switch by {
	case 0:
		return otherwise
	case noDeadline:
		return 0
	}
	return by
}

// nanosOf turns a deadline into what overrides store.
func nanosOf(t time.Time) int64 {
	if t.IsZero() {
		return noDeadline
	}
	return max(clock.Nanos()+int64(time.Until(t)), 1)
}
