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

// Conn returns the connection. The caller owns it from AcquireConn until
// ReleaseConn or CloseConn.
func (cc *clientConn) Conn() net.Conn { return cc.c }

// CreatedTime returns when the connection was opened.
func (cc *clientConn) CreatedTime() time.Time { return clock.Time(cc.created) }

// LastUseTime returns when the connection was last released. It may be up to
// half a second too early. It is the zero time for a new connection.
func (cc *clientConn) LastUseTime() time.Time {
	if cc.lastUse == 0 {
		return time.Time{}
	}
	return clock.Time(cc.lastUse)
}

// AcquireReader returns a pooled reader of conn with a buffer of
// ReadBufferSize. It is for custom RoundTrippers. The caller owns it until
// ReleaseReader.
func (c *HostClient) AcquireReader(conn net.Conn) *bufio.Reader {
	return acquireClientReader(conn, sizeOr(c.ReadBufferSize, defaultClientBuffer))
}

// ReleaseReader returns br to the pool. Its buffered bytes are lost.
func (c *HostClient) ReleaseReader(br *bufio.Reader) { releaseClientReader(br) }

// AcquireWriter returns a pooled writer to conn with a buffer of
// WriteBufferSize. The caller owns it until ReleaseWriter.
func (c *HostClient) AcquireWriter(conn net.Conn) *bufio.Writer {
	return acquireClientWriter(conn, sizeOr(c.WriteBufferSize, defaultClientBuffer))
}

// ReleaseWriter returns bw to the pool. Bytes that were not flushed are lost.
func (c *HostClient) ReleaseWriter(bw *bufio.Writer) { releaseClientWriter(bw) }

// defaultClientBuffer is the default size of buffers in bytes.
const defaultClientBuffer = 4096

func sizeOr(size, otherwise int) int {
	if size > 0 {
		return size
	}
	return otherwise
}

// AcquireConn returns an idle connection or opens one. It is for custom
// RoundTrippers. The time limit is reqTimeout, and exceeding it is ErrTimeout;
// 0 is no limit. If MaxConns connections are in use, AcquireConn waits up to
// MaxConnWaitTimeout and then returns ErrNoFreeConns. The caller must pass the
// connection to ReleaseConn or CloseConn. connectionClose has no effect: the
// caller closes the connection.
func (c *HostClient) AcquireConn(reqTimeout time.Duration, connectionClose bool) (*clientConn, error) {
	var call clientCall
	if reqTimeout > 0 {
		call.deadline = clock.Nanos() + int64(reqTimeout)
	}
	return c.acquire(&call)
}

// ReleaseConn returns a reusable connection to the pool: its response was read
// to the end, and no bytes follow. The client clears its deadlines before it
// reuses the connection.
func (c *HostClient) ReleaseConn(cc *clientConn) {
	cc.hasDeadline = true // maybe
	c.release(cc)
}

// CloseConn closes a connection that AcquireConn returned.
func (c *HostClient) CloseConn(cc *clientConn) { c.discard(cc) }
