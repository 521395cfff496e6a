package sluice

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// clientConn is a connection of a HostClient. It belongs to the pool, or to the
// one request that uses it.
type clientConn struct {
	c           net.Conn
	peek        peeker // looks at the socket without reading
	addr        string
	created     int64 // clock.Nanos
	lastUse     int64
	written     atomic.Int64 // bytes, of the present request
	writeErr    error        // of the present request
	hasDeadline bool         // one is set on c
	isReused    bool
	exchange    exchange // of the present request
}

func newClientConn(c net.Conn, addr string) *clientConn {
	cc := &clientConn{c: c, addr: addr, created: clock.Nanos()}
	cc.peek.init(c)
	return cc
}

// Write implements io.Writer: it counts, and remembers the error.
func (cc *clientConn) Write(p []byte) (n int, err error) {
	for n < len(p) {
		k, err := cc.c.Write(p[n:min(n+maxWrite, len(p))])
		n += k
		cc.written.Add(int64(k))
		if err != nil {
			cc.writeErr = err
			return n, err
		}
	}
	return n, nil
}

// maxWrite is how much is written at a time: who looks on sees the progress.
const maxWrite = 256 << 10

func (cc *clientConn) close() { _ = cc.c.Close() } // there is nobody to tell

// isQuiet tells whether an idle connection is open and nothing has come that
// nobody asked for: what came would be taken for the answer to the next request
// (RFC 9112 section 9.2).
func (cc *clientConn) isQuiet() bool {
	if !cc.peek.isQuiet() {
		return false
	}
	secure, ok := cc.c.(*tls.Conn)
	if !ok {
		return true
	}
	// TLS may hold what it has decrypted. A read that must not wait finds it.
	if err := secure.SetReadDeadline(longAgo()); err != nil {
		return false
	}
	cc.hasDeadline = true
	var one [1]byte
	n, err := secure.Read(one[:])
	return n == 0 && isDeadline(err)
}

// wasSpokenTo tells whether bytes have come on a new connection. Of TLS, only
// reading could tell: what comes behind the handshake may be tickets.
func (cc *clientConn) wasSpokenTo() bool {
	_, isSecure := cc.c.(*tls.Conn)
	return !isSecure && !cc.peek.isQuiet()
}

// longAgo is a deadline that has passed.
func longAgo() time.Time { return time.Unix(1, 0) }

// setReadLimit bounds reading from now on, by the call and by timeout; 0: the
// call alone.
func (cc *clientConn) setReadLimit(call *clientCall, timeout time.Duration) error {
	if timeout <= 0 && call.deadline == 0 {
		return nil
	}
	return cc.setLimit(call, timeout, net.Conn.SetReadDeadline)
}

// setWriteLimit bounds writing from now on.
func (cc *clientConn) setWriteLimit(call *clientCall, timeout time.Duration) error {
	if timeout <= 0 && call.deadline == 0 {
		return nil
	}
	return cc.setLimit(call, timeout, net.Conn.SetWriteDeadline)
}

func (cc *clientConn) setLimit(call *clientCall, timeout time.Duration, set func(net.Conn, time.Time) error) error {
	cc.hasDeadline = true
	err := set(cc.c, clock.Deadline(call.limit(timeout)))
	cc.interruptFor(call)
	return err
}

// clearLimits takes the deadlines off that an earlier request, or isQuiet, has
// set.
func (cc *clientConn) clearLimits() error {
	if !cc.hasDeadline {
		return nil
	}
	cc.hasDeadline = false
	return cc.c.SetDeadline(time.Time{})
}

// interrupt makes whatever waits for the connection return.
func (cc *clientConn) interrupt() { _ = cc.c.SetDeadline(longAgo()) }

// interruptFor interrupts the connection if the call's context has ended. It is
// called where a deadline was set: the guard may have set its own just before.
func (cc *clientConn) interruptFor(call *clientCall) {
	if call.hasEnded() {
		cc.interrupt()
	}
}

// guard interrupts the connection when ctx ends. stop ends that; it returns
// false if ctx has ended, and the connection is of no more use.
func (cc *clientConn) guard(ctx context.Context) (stop func() bool) {
	if ctx == nil || ctx.Done() == nil {
		return nil
	}
	return context.AfterFunc(ctx, cc.interrupt)
}

// Conn returns the connection itself. It is the caller's between AcquireConn and
// ReleaseConn or CloseConn.
func (cc *clientConn) Conn() net.Conn { return cc.c }

// CreatedTime returns when the connection was made.
func (cc *clientConn) CreatedTime() time.Time { return clock.Time(cc.created) }

// LastUseTime returns when the connection was given back last, in halves of a
// second; the zero time if it is new.
func (cc *clientConn) LastUseTime() time.Time {
	if cc.lastUse == 0 {
		return time.Time{}
	}
	return clock.Time(cc.lastUse)
}

// AcquireReader returns a reader of conn, with a buffer of ReadBufferSize, from a
// pool. RoundTrippers of other make use it. Give it back with ReleaseReader.
func (c *HostClient) AcquireReader(conn net.Conn) *bufio.Reader {
	return acquireClientReader(conn, sizeOr(c.ReadBufferSize, defaultClientBuffer))
}

// ReleaseReader gives back what AcquireReader returned. What it has buffered is
// lost.
func (c *HostClient) ReleaseReader(br *bufio.Reader) { releaseClientReader(br) }

// AcquireWriter returns a writer to conn, with a buffer of WriteBufferSize, from
// a pool. Give it back with ReleaseWriter.
func (c *HostClient) AcquireWriter(conn net.Conn) *bufio.Writer {
	return acquireClientWriter(conn, sizeOr(c.WriteBufferSize, defaultClientBuffer))
}

// ReleaseWriter gives back what AcquireWriter returned. What was not flushed is
// lost.
func (c *HostClient) ReleaseWriter(bw *bufio.Writer) { releaseClientWriter(bw) }

// defaultClientBuffer is the default size of buffers in bytes.
const defaultClientBuffer = 4096

func sizeOr(size, otherwise int) int {
	if size > 0 {
		return size
	}
	return otherwise
}

// AcquireConn returns a connection: an idle one, or a new one. It waits for at
// most reqTimeout for it; 0 is no bound. connectionClose is without effect, as
// it is for the caller to close the connection. ErrNoFreeConns tells that as many as may
// be are in use. It must be given back with ReleaseConn or CloseConn. It is for
// RoundTrippers.
func (c *HostClient) AcquireConn(reqTimeout time.Duration, connectionClose bool) (*clientConn, error) {
	var call clientCall
	if reqTimeout > 0 {
		call.deadline = clock.Nanos() + int64(reqTimeout)
	}
	return c.acquire(&call)
}

// ReleaseConn gives back a connection that can be used again: the response was
// read to its end, and nothing follows it. Deadlines that were set on it are
// cleared before it is used again.
func (c *HostClient) ReleaseConn(cc *clientConn) {
	cc.hasDeadline = true // maybe
	c.release(cc)
}

// CloseConn closes a connection that AcquireConn returned.
func (c *HostClient) CloseConn(cc *clientConn) { c.discard(cc) }
