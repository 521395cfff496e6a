package http1

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/client/dial"
	"github.com/sluicehttp/sluice/internal/client/pool"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// A Conn is a connection of HTTP/1.1. Init makes it ready. One Exchange at a time may
// use it.
type Conn struct {
	Net net.Conn
	// Tick is a time of clock.Nanos that is at most half a second older than the present
	// request; 0: unknown. The limit of a turn then needs no look at the clock.
	Tick int64

	exchange    *Exchange   // the only one that uses the Conn
	peek        pool.Peeker // tests the socket without reading
	turn        pool.Turn
	written     atomic.Int64 // bytes of the present request, without those of turn
	writeErr    error        // of writing the present request
	hasTurned   bool         // turn has written a part of the present request
	takesTurn   bool         // the present request uses turn, which looks whether Net is quiet
	hasArrived  bool         // turn reads
	hasDeadline bool         // a deadline may be set on Net
	readLimit   int64        // a late deadline that is set for reading; 0: none or another one
}

// Init sets the connection, and the only Exchange that uses it, with its Message.
func (c *Conn) Init(nc net.Conn, x *Exchange, m Message) {
	c.Net, c.exchange = nc, x
	x.Conn, x.Message = c, m
	c.peek.Init(nc)
	c.turn.Init(nc, c.arrived)
}

// Read implements io.Reader.
func (c *Conn) Read(p []byte) (int, error) {
	if c.hasArrived {
		return c.turn.Read(p)
	}
	return c.Net.Read(p)
}

// Write implements io.Writer. It counts the written bytes and keeps the error.
func (c *Conn) Write(p []byte) (n int, err error) {
	for n < len(p) {
		k, err := c.Net.Write(p[n:min(n+maxWrite, len(p))])
		n += k
		c.written.Add(int64(k))
		if err != nil {
			c.writeErr = err
			return n, err
		}
	}
	return n, nil
}

// closeWrite ends what is written. After a failed write, TLS does not do so itself: the
// server does not read, and package tls would wait 5 s for it.
func (c *Conn) closeWrite() {
	nc := c.Net
	for secure, ok := nc.(dial.Secure); ok && c.writeErr != nil; secure, ok = nc.(dial.Secure) {
		nc = secure.NetConn()
	}
	if half, ok := nc.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// maxWrite is the maximum size of one write in bytes: written shows progress
// after each.
const maxWrite = 256 << 10

// HasWritten reports whether a byte of the request was written, until Exchange.Clear.
func (c *Conn) HasWritten() bool { return c.hasTurned || c.written.Load() > 0 }

// IsQuiet reports whether an idle connection is open and has no unread bytes.
// Unsolicited bytes would be read as the response to the next request (RFC 9112
// section 9.2). With mayTurn, the next request takes a turn (see pool.Turn) if the
// connection admits that: then IsQuiet returns true, the turn looks, and the error of Run
// is pool.ErrNotQuiet if the connection was not quiet.
func (c *Conn) IsQuiet(mayTurn bool) bool {
	c.takesTurn = mayTurn && c.turn.CanTake()
	return c.takesTurn || c.isQuiet()
}

// isQuiet is IsQuiet without a turn.
func (c *Conn) isQuiet() bool {
	if !c.peek.IsQuiet() {
		return false
	}
	secure, ok := c.Net.(dial.Secure)
	if !ok {
		return true
	}
	// The TLS connection may hold decrypted bytes. A read with an expired
	// deadline finds them without waiting.
	if err := secure.SetReadDeadline(clock.Past()); err != nil {
		return false
	}
	c.NoteDeadline()
	var one [1]byte
	n, err := secure.Read(one[:])
	return n == 0 && clock.IsTimeout(err)
}

// WasSpokenTo reports whether bytes have arrived on a new connection. With TLS
// it returns false, since session tickets may follow the handshake, and only
// reading could distinguish them.
func (c *Conn) WasSpokenTo() bool {
	_, isSecure := c.Net.(dial.Secure)
	return !isSecure && !c.peek.IsQuiet()
}

// Setting a deadline costs more than writing a short request does outside the kernel. So a
// timeout of longTimeout or more that is the only limit gets a deadline that is later by
// timeout/lateShare. Later calls keep the deadline while it is at least timeout away.
const (
	longTimeout = 10 * time.Second
	lateShare   = 32
)

// setReadLimit limits reading from now on by the call's deadline and by
// timeout; a timeout of 0 is no limit.
func (c *Conn) setReadLimit(call *clock.Bounds, timeout time.Duration) error {
	if timeout <= 0 && call.Deadline == 0 {
		return nil
	}
	if timeout < longTimeout || call.Deadline != 0 {
		c.readLimit = 0
		return c.setLimit(call, timeout, net.Conn.SetReadDeadline)
	}
	limit := call.Limit(timeout)
	latest := clock.Later(limit, timeout/lateShare)
	if c.readLimit >= limit && c.readLimit <= latest {
		c.interruptFor(call)
		return nil
	}
	c.hasDeadline, c.readLimit = true, latest
	err := c.Net.SetReadDeadline(clock.Deadline(latest))
	if err != nil {
		c.readLimit = 0
	}
	c.interruptFor(call)
	return err
}

// tickAge is how old Conn.Tick may be, with time for a late timer.
const tickAge = time.Second

// limitTurn is setReadLimit for a request that begins.
func (c *Conn) limitTurn(call *clock.Bounds, timeout time.Duration) error {
	if late := timeout / lateShare; late > tickAge && call.Deadline == 0 && c.Tick != 0 {
		least := clock.Later(c.Tick+int64(tickAge), timeout)
		if c.readLimit >= least && c.readLimit <= clock.Later(least, late) {
			c.interruptFor(call)
			return nil
		}
		c.readLimit = 0 // another one, for which the next requests need no look at the clock
	}
	return c.setReadLimit(call, timeout)
}

// setWriteLimit limits writing from now on, as setReadLimit does.
func (c *Conn) setWriteLimit(call *clock.Bounds, timeout time.Duration) error {
	if timeout <= 0 && call.Deadline == 0 {
		return nil
	}
	return c.setLimit(call, timeout, net.Conn.SetWriteDeadline)
}

func (c *Conn) setLimit(call *clock.Bounds, timeout time.Duration, set func(net.Conn, time.Time) error) error {
	c.hasDeadline = true
	err := set(c.Net, clock.Deadline(call.Limit(timeout)))
	c.interruptFor(call)
	return err
}

// NoteDeadline tells that a deadline may have been set on Net from outside.
func (c *Conn) NoteDeadline() { c.hasDeadline, c.readLimit = true, 0 }

// ClearLimits clears the deadlines that an earlier request or IsQuiet set.
func (c *Conn) ClearLimits() error {
	if !c.hasDeadline {
		return nil
	}
	c.hasDeadline, c.readLimit = false, 0
	return c.Net.SetDeadline(time.Time{})
}

// Interrupt makes reads and writes in progress return.
func (c *Conn) Interrupt() { _ = c.Net.SetDeadline(clock.Past()) }

// interruptFor interrupts the connection if the call's context has ended. Call
// it after each change of a deadline: the change may have overwritten the
// expired deadline that guard set just before.
func (c *Conn) interruptFor(call *clock.Bounds) {
	if call.HasEnded() {
		c.Interrupt()
	}
}

// A guard interrupts a connection when a context ends. The zero value is none.
type guard struct {
	own  guardian
	stop func() bool
}

// guard begins a guard for ctx.
func (c *Conn) guard(ctx context.Context) (g guard) {
	if own, ok := ctx.(guardian); ok {
		own.Guard(c)
		return guard{own: own}
	}
	if ctx.Done() != nil {
		g.stop = context.AfterFunc(ctx, c.Interrupt)
	}
	return g
}

// end ends the guard of c. It returns false if the context has ended; the connection must
// then be closed.
func (g *guard) end(c *Conn) bool {
	switch {
	case g.own != nil:
		return g.own.Unguard(c)
	case g.stop != nil:
		return g.stop()
	}
	return true
}

// A guardian is a context that interrupts connections itself, without memory for each, and
// knows the engine on which the caller runs. The context of a request in package proxy is one.
type guardian interface {
	// Guard has conn interrupted once, on another goroutine, when the context ends.
	Guard(conn interface{ Interrupt() })
	// Unguard ends that. It reports whether conn was not interrupted.
	Unguard(conn interface{ Interrupt() }) bool
	// Holder returns what may send short requests; nil: nothing. Only the client may close the
	// connections: see pool.Turn.
	Holder() engine.Holder
}
