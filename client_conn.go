package sluice

import (
	"bufio"
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/client/dial"
	http1client "github.com/sluicehttp/sluice/internal/client/http1"
	"github.com/sluicehttp/sluice/internal/clock"
)

// clientConn is a connection of a HostClient. The pool owns it while it is
// idle; otherwise the one request that uses it does.
type clientConn struct {
	wire     http1client.Conn
	addr     string
	created  int64 // clock.Nanos
	lastUse  int64
	isReused bool
	isHTTP2  bool
	exchange exchange // of the present request
}

func newClientConn(c net.Conn, addr string) *clientConn {
	cc := &clientConn{addr: addr, created: clock.Nanos()}
	cc.exchange.cc = cc
	cc.wire.Init(c, &cc.exchange.Exchange, &cc.exchange)
	return cc
}

func (cc *clientConn) close() { dial.Close(cc.wire.Net) }

// Conn returns the connection. The caller owns it from AcquireConn until
// ReleaseConn or CloseConn.
func (cc *clientConn) Conn() net.Conn { return cc.wire.Net }

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
	return http1client.AcquireReader(conn, positiveOr(c.ReadBufferSize, defaultClientBuffer))
}

// ReleaseReader returns br to the pool. Its buffered bytes are lost.
func (c *HostClient) ReleaseReader(br *bufio.Reader) { http1client.ReleaseReader(br) }

// AcquireWriter returns a pooled writer to conn with a buffer of
// WriteBufferSize. The caller owns it until ReleaseWriter.
func (c *HostClient) AcquireWriter(conn net.Conn) *bufio.Writer {
	return http1client.AcquireWriter(conn, positiveOr(c.WriteBufferSize, defaultClientBuffer))
}

// ReleaseWriter returns bw to the pool. Bytes that were not flushed are lost.
func (c *HostClient) ReleaseWriter(bw *bufio.Writer) { http1client.ReleaseWriter(bw) }

// defaultClientBuffer is the default size of buffers in bytes.
const defaultClientBuffer = 4096

// AcquireConn returns an idle connection or opens one. It is for custom
// RoundTrippers. The connection speaks HTTP/1.1, whatever HTTP2 is. The time limit is reqTimeout, and exceeding it is ErrTimeout;
// 0 is no limit. If MaxConns connections are in use, AcquireConn waits up to
// MaxConnWaitTimeout and then returns ErrNoFreeConns. The caller must pass the
// connection to ReleaseConn or CloseConn. connectionClose has no effect: the
// caller closes the connection.
func (c *HostClient) AcquireConn(reqTimeout time.Duration, connectionClose bool) (*clientConn, error) {
	var call clientCall
	if reqTimeout > 0 {
		call.Deadline = clock.Later(clock.Nanos(), reqTimeout)
	}
	return c.acquire(&call)
}

// ReleaseConn returns a reusable connection to the pool: its response was read
// to the end, and no bytes follow. The client clears its deadlines before it
// reuses the connection.
func (c *HostClient) ReleaseConn(cc *clientConn) {
	cc.wire.NoteDeadline()
	c.release(cc)
}

// CloseConn closes a connection that AcquireConn returned.
func (c *HostClient) CloseConn(cc *clientConn) { c.discard(cc) }
