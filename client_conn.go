package sluice

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/pool"
)

// clientConn is a connection of a HostClient. The pool owns it while it is
// idle; otherwise the one request that uses it does.
type clientConn struct {
	c           net.Conn
	peek        pool.Peeker // tests the socket without reading
	turn        pool.Turn
	addr        string
	created     int64 // clock.Nanos
	lastUse     int64
	written     atomic.Int64 // bytes of the present request
	writeErr    error        // of writing the present request
	unsent      []byte       // what the next Read writes first
	takesTurn   bool         // the present request uses turn, which looks whether c is quiet
	hasDeadline bool         // a deadline may be set on c
	isReused    bool
	isHTTP2     bool
	exchange    exchange // of the present request
}

func newClientConn(c net.Conn, addr string) *clientConn {
	cc := &clientConn{c: c, addr: addr, created: clock.Nanos()}
	cc.peek.Init(c)
	cc.turn.Init(c)
	return cc
}

// Write implements io.Writer. It counts the written bytes and keeps the error.
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

// Read implements io.Reader. It first writes unsent.
func (cc *clientConn) Read(p []byte) (int, error) {
	if cc.unsent == nil {
		return cc.c.Read(p)
	}
	return cc.exchange.takeTurn(p)
}

// maxWrite is the maximum size of one write in bytes: written shows progress
// after each.
const maxWrite = 256 << 10

func (cc *clientConn) close() { _ = cc.c.Close() } // the client cannot do anything about the error

// isQuiet reports whether an idle connection is open and has no unread bytes.
// Unsolicited bytes would be read as the response to the next request (RFC 9112
// section 9.2).
func (cc *clientConn) isQuiet() bool {
	if !cc.peek.IsQuiet() {
		return false
	}
	secure, ok := cc.c.(*tls.Conn)
	if !ok {
		return true
	}
	// The TLS connection may hold decrypted bytes. A read with an expired
	// deadline finds them without waiting.
	if err := secure.SetReadDeadline(clock.Past()); err != nil {
		return false
	}
	cc.hasDeadline = true
	var one [1]byte
	n, err := secure.Read(one[:])
	return n == 0 && clock.IsTimeout(err)
}

// wasSpokenTo reports whether bytes have arrived on a new connection. With TLS
// it returns false, since session tickets may follow the handshake, and only
// reading could distinguish them.
func (cc *clientConn) wasSpokenTo() bool {
	_, isSecure := cc.c.(*tls.Conn)
	return !isSecure && !cc.peek.IsQuiet()
}

// setReadLimit limits reading from now on by the call's deadline and by
// timeout; a timeout of 0 is no limit.
func (cc *clientConn) setReadLimit(call *clientCall, timeout time.Duration) error {
	if timeout <= 0 && call.Deadline == 0 {
		return nil
	}
	return cc.setLimit(call, timeout, net.Conn.SetReadDeadline)
}

// setWriteLimit limits writing from now on, as setReadLimit does.
func (cc *clientConn) setWriteLimit(call *clientCall, timeout time.Duration) error {
	if timeout <= 0 && call.Deadline == 0 {
		return nil
	}
	return cc.setLimit(call, timeout, net.Conn.SetWriteDeadline)
}

func (cc *clientConn) setLimit(call *clientCall, timeout time.Duration, set func(net.Conn, time.Time) error) error {
	cc.hasDeadline = true
	err := set(cc.c, clock.Deadline(call.Limit(timeout)))
	cc.interruptFor(call)
	return err
}

// clearLimits clears the deadlines that an earlier request or isQuiet set.
func (cc *clientConn) clearLimits() error {
	if !cc.hasDeadline {
		return nil
	}
	cc.hasDeadline = false
	return cc.c.SetDeadline(time.Time{})
}

// interrupt makes reads and writes in progress return.
func (cc *clientConn) interrupt() { _ = cc.c.SetDeadline(clock.Past()) }

// interruptFor interrupts the connection if the call's context has ended. Call
// it after each change of a deadline: the change may have overwritten the
// expired deadline that guard set just before.
func (cc *clientConn) interruptFor(call *clientCall) {
	if call.HasEnded() {
		cc.interrupt()
	}
}

// guard interrupts the connection when ctx ends. stop ends the guard. It
// returns false if ctx has ended; the connection must then be closed. stop is
// nil if ctx cannot end.
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
// RoundTrippers. The connection speaks HTTP/1.1, whatever HTTP2 is. The time limit is reqTimeout, and exceeding it is ErrTimeout;
// 0 is no limit. If MaxConns connections are in use, AcquireConn waits up to
// MaxConnWaitTimeout and then returns ErrNoFreeConns. The caller must pass the
// connection to ReleaseConn or CloseConn. connectionClose has no effect: the
// caller closes the connection.
func (c *HostClient) AcquireConn(reqTimeout time.Duration, connectionClose bool) (*clientConn, error) {
	var call clientCall
	if reqTimeout > 0 {
		call.Deadline = clock.Nanos() + int64(reqTimeout)
	}
	return c.acquire(&call)
}

// ReleaseConn returns a reusable connection to the pool: its response was read
// to the end, and no bytes follow. The client clears its deadlines before it
// reuses the connection.
func (c *HostClient) ReleaseConn(cc *clientConn) {
	cc.hasDeadline = true // the caller may have set one
	c.release(cc)
}

// CloseConn closes a connection that AcquireConn returned.
func (c *HostClient) CloseConn(cc *clientConn) { c.discard(cc) }
