package engine

import (
	"net"
	"sync"
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
	// WriteLimit return, and look at those again when they are interrupted. One
	// call of each goes on at a time, and none when Sever has returned.
	Read(p []byte) (int, error)
	Write(p []byte) (int, error)
	// A user who does not keep to the time of the Run may have the others called
	// when it is just over, and the Conn turned to something else.
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
//
// Handlers may start goroutines that still read or write when the Run is over;
// the Conn is another connection's soon. So Sever ends their calls, and waits
// for them to return.
type BlockingConn struct {
	host      atomic.Pointer[BlockingHost] // nil: over
	addresses net.Conn
	closed    atomic.Bool
	written   atomic.Bool
	readBy    atomic.Int64 // overrides the deadline for reads; 0: does not
	writeBy   atomic.Int64 // overrides the one for writes; 0: does not

	reading, writing sync.Mutex // one call of each kind at a time

	mu     sync.Mutex
	inside int           // calls of Read and Write
	left   chan struct{} // closed when there is none any more; nil: no Sever waits
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
		return nil, b.closedError(op)
	}
	return *h, nil
}

func (b *BlockingConn) closedError(op string) error {
	return &net.OpError{Op: op, Net: "conn", Source: b.LocalAddr(), Addr: b.RemoteAddr(), Err: net.ErrClosed}
}

// enter is use for a call that Sever waits for.
func (b *BlockingConn) enter(op string) (BlockingHost, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, err := b.use(op)
	if err == nil {
		b.inside++
	}
	return h, err
}

func (b *BlockingConn) exit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inside--; b.inside == 0 && b.left != nil {
		close(b.left)
	}
}

// Read implements net.Conn.
func (b *BlockingConn) Read(p []byte) (int, error) {
	h, err := b.enter("read")
	if err != nil {
		return 0, err
	}
	defer b.exit()
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.IsOver() {
		return 0, b.closedError("read")
	}
	n, err := h.Read(p)
	if err != nil && b.IsOver() {
		err = b.closedError("read")
	}
	return n, err
}

// Write implements net.Conn.
func (b *BlockingConn) Write(p []byte) (int, error) {
	b.written.Store(true) // before the look at closed: who closes looks at it afterwards
	h, err := b.enter("write")
	if err != nil {
		return 0, err
	}
	defer b.exit()
	b.writing.Lock()
	defer b.writing.Unlock()
	if b.IsOver() {
		return 0, b.closedError("write")
	}
	n, err := h.Write(p)
	if err != nil && b.IsOver() {
		err = b.closedError("write")
	}
	return n, err
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

// Sever ends b's use of the host, and the calls that go on, for whose return it
// waits. Engines call it when the Run is over.
func (b *BlockingConn) Sever() {
	b.mu.Lock()
	h := b.host.Swap(nil)
	if h == nil || b.inside == 0 {
		b.mu.Unlock()
		return
	}
	b.left = make(chan struct{})
	b.mu.Unlock()
	b.readBy.Store(closedLimit)
	b.writeBy.Store(closedLimit)
	(*h).InterruptRead(time.Unix(1, 0))
	(*h).InterruptWrite(time.Unix(1, 0))
	<-b.left
}

// IsOver tells whether Sever was called. A read that is woken looks at it: what
// is there then belongs to the next request.
func (b *BlockingConn) IsOver() bool { return b.host.Load() == nil }

// BreakWrite makes writes of this Run that wait, and those to come, fail: the
// user's and the Protocol's. It may be called on any goroutine, also after Close.
func (b *BlockingConn) BreakWrite() {
	if h := b.host.Load(); h != nil {
		b.writeBy.Store(closedLimit)
		(*h).InterruptWrite(time.Unix(1, 0))
	}
}

// Inside returns how many calls of Read and Write go on.
func (b *BlockingConn) Inside() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inside
}

// HasWritten tells whether the user has tried to write.
func (b *BlockingConn) HasWritten() bool { return b.written.Load() }

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
