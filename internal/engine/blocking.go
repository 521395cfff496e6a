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

// A BlockingHost does the reads and writes of a BlockingConn. Engines implement it.
type BlockingHost interface {
	// Read and Write are those of Conn. They wait until the time that ReadLimit
	// and WriteLimit return, and read that limit again when they are interrupted.
	// At most one call of each runs at a time, and none after Sever has returned.
	Read(p []byte) (int, error)
	Write(p []byte) (int, error)
	// CloseWrite ends the output, after the calls of Write. Its error is
	// errors.ErrUnsupported if the connection underneath cannot do it.
	CloseWrite() error
	// If a user retains the BlockingConn after the Run, LocalAddr, RemoteAddr and
	// the methods after them may be called just after the Run's end, when the Conn
	// already serves another connection.
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
	// InterruptRead and InterruptWrite make a waiting call read its limit again.
	// They are called on any goroutine, after an override was stored; t is the
	// deadline that the user has set.
	InterruptRead(t time.Time)
	InterruptWrite(t time.Time)
}

// A BlockingConn is the net.Conn that engines return from Conn.Blocking. It works
// until the end of the Run in which it was made, and reports net.ErrClosed
// afterwards. Its deadlines override those of the Conn, until the Run ends.
//
// A handler may start goroutines that still read or write when the Run is over.
// The Conn then soon serves another connection. Sever therefore ends such calls,
// and waits for them to return.
type BlockingConn struct {
	host       atomic.Pointer[BlockingHost] // nil: over
	addresses  net.Conn
	closed     atomic.Bool
	written    atomic.Bool
	isReadOnly atomic.Bool  // EndWrites was called
	readBy     atomic.Int64 // overrides the deadline for reads; 0: does not
	writeBy    atomic.Int64 // overrides the one for writes; 0: does not

	reading, writing sync.Mutex // one call of each kind at a time

	mu     sync.Mutex
	inside int           // calls of Read and Write
	left   chan struct{} // closed when inside becomes 0; nil: no Sever waits
}

// NewBlockingConn returns a connection over host. It takes its addresses from
// addresses when host must not be used any more.
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
	if b.IsOver() || b.isReadOnly.Load() {
		return 0, b.closedError("write")
	}
	n, err := h.Write(p)
	if err != nil && b.IsOver() {
		err = b.closedError("write")
	}
	return n, err
}

// CloseWrite ends the output; the peer reads its end, and input goes on. Its error is
// errors.ErrUnsupported if the connection underneath cannot do it.
func (b *BlockingConn) CloseWrite() error {
	b.written.Store(true)
	h, err := b.enter("close")
	if err != nil {
		return err
	}
	defer b.exit()
	b.writing.Lock()
	defer b.writing.Unlock()
	if b.IsOver() {
		return b.closedError("close")
	}
	return h.CloseWrite()
}

// Close implements net.Conn. The engine closes the connection after the Run. A
// running Read ends; the Run may still write its answer.
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

// Sever ends b's use of the host. It interrupts running calls and waits until they
// have returned. Engines call it at the end of the Run.
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

// IsOver reports whether Sever was called. A woken Read must check it, because input
// then belongs to the next request.
func (b *BlockingConn) IsOver() bool { return b.host.Load() == nil }

// BreakWrite makes all waiting and further writes of this Run fail, those of the
// user and those of the Protocol. It may be called on any goroutine, also after
// Close.
func (b *BlockingConn) BreakWrite() {
	if h := b.host.Load(); h != nil {
		b.writeBy.Store(closedLimit)
		(*h).InterruptWrite(time.Unix(1, 0))
	}
}

// EndWrites makes further calls of Write fail, because the Protocol writes now.
func (b *BlockingConn) EndWrites() { b.isReadOnly.Store(true) }

// Inside returns the number of running calls of Read and Write.
func (b *BlockingConn) Inside() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inside
}

// HasWritten reports whether the user has tried to write.
func (b *BlockingConn) HasWritten() bool { return b.written.Load() }

// IsClosed reports whether the user has called Close.
func (b *BlockingConn) IsClosed() bool { return b.closed.Load() }

// ReadIsOverridden reports whether the user has set a deadline for reads.
func (b *BlockingConn) ReadIsOverridden() bool { return b.readBy.Load() != 0 }

// WriteIsOverridden reports whether the user has set a deadline for writes.
func (b *BlockingConn) WriteIsOverridden() bool { return b.writeBy.Load() != 0 }

// ReadLimit returns the time until which a read may wait, in clock.Nanos; 0 means
// for ever. It is the user's deadline, or otherwise if the user has set none. After
// Close it is a time in the past.
func (b *BlockingConn) ReadLimit(otherwise int64) int64 {
	if b.closed.Load() {
		return closedLimit
	}
	return overridden(b.readBy.Load(), otherwise)
}

// WriteLimit is ReadLimit for writes. Close does not change it, because the Run's
// answer must still be written.
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

// nanosOf converts a deadline to the value of an override.
func nanosOf(t time.Time) int64 {
	if t.IsZero() {
		return noDeadline
	}
	return max(clock.Nanos()+int64(time.Until(t)), 1)
}
