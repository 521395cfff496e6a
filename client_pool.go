package sluice

import (
	"bufio"
	"context"
	"net"
	"time"

	http1client "github.com/sluicehttp/sluice/internal/client/http1"
	"github.com/sluicehttp/sluice/internal/client/pool"
	"github.com/sluicehttp/sluice/internal/client/streams"
	"github.com/sluicehttp/sluice/internal/clock"
)

// poolSettings returns the settings that concern the pool.
func (c *HostClient) poolSettings() pool.Settings[clientConn] {
	return pool.Settings[clientConn]{
		MaxConns: positiveOr(c.MaxConns, DefaultMaxConnsPerHost),
		MaxIdle:  c.maxIdle(),
		IsLIFO:   c.ConnPoolStrategy == LIFO,
		Close:    (*clientConn).close,
	}
}

func (c *HostClient) maxIdle() time.Duration {
	return positiveOr(c.MaxIdleConnDuration, DefaultMaxIdleConnDuration)
}

// CloseIdleConnections closes the connections that are not in use. It does not
// affect the others, and the HostClient remains usable.
func (c *HostClient) CloseIdleConnections() {
	c.pool.CloseIdle(c.poolSettings())
	c.http2.CloseIdle(c.http2Settings())
	for _, peers := range c.peers.Range {
		peers.(streams.Peers).CloseIdle()
	}
}

// ConnsCount returns the number of connections, including those that are being
// opened.
func (c *HostClient) ConnsCount() int {
	open, _ := c.countConns()
	return open
}

// IdleConnsCount returns the number of idle connections.
func (c *HostClient) IdleConnsCount() int {
	_, idle := c.countConns()
	return idle
}

// countConns returns the number of connections of all protocols, and of those that are idle.
func (c *HostClient) countConns() (open, idle int) {
	open, idle = c.pool.Counts()
	add := func(moreOpen, moreIdle int) { open, idle = open+moreOpen, idle+moreIdle }
	add(c.http2.Counts())
	for _, peers := range c.peers.Range {
		add(peers.(streams.Peers).Counts())
	}
	return open, idle
}

// SetMaxConns changes the maximum number of connections; 0 or less restores
// MaxConns. If it allows more connections, waiting requests open them at once.
// If it allows fewer, idle connections are closed at once and busy ones after
// their requests.
func (c *HostClient) SetMaxConns(newMaxConns int) {
	c.pool.SetMax(c.poolSettings(), newMaxConns)
}

// Prewarm opens connections concurrently until n are idle or MaxConns are open,
// so that requests need not wait for them. It returns after all attempts have
// ended. If some failed, it returns the first error, a *PhaseError if ctx
// ended, and keeps the connections that were opened. Like all idle connections,
// they are closed after MaxIdleConnDuration. If the server speaks HTTP/2, Prewarm opens
// one connection, which requests share.
func (c *HostClient) Prewarm(ctx context.Context, n int) error {
	return c.prewarm(ctx, n, c.Transport == nil)
}

// prewarm is Prewarm. mayShare: requests may use HTTP/2.
func (c *HostClient) prewarm(ctx context.Context, n int, mayShare bool) error {
	if err := clock.EndOf(ctx, PhaseWait); err != nil {
		return err
	}
	c.lastUse.Store(clock.Nanos())
	if n > 0 && mayShare && c.mayUseHTTP2() {
		if isHTTP2, err := c.prewarmHTTP2(ctx); isHTTP2 || err != nil {
			return err
		}
	}
	want := c.pool.Reserve(c.poolSettings(), n)
	failed := make(chan error, want)
	for range want {
		go func() { failed <- c.prewarmOne(ctx) }()
	}
	var first error // the other errors are most likely the same
	for range want {
		if err := <-failed; first == nil {
			first = err
		}
	}
	return first
}

// newCall returns a call of the client's own with ctx.
func (c *HostClient) newCall(ctx context.Context) clientCall {
	call := clientCall{Bounds: clock.Bounds{Context: ctx}, trace: traceOf(ctx)}
	if call.trace == nil {
		call.trace = c.Trace
	}
	return call
}

// prewarmHTTP2 opens a connection of HTTP/2, unless there is one. If the server chooses
// HTTP/1.1, the connection is idle in the other pool afterwards.
func (c *HostClient) prewarmHTTP2(ctx context.Context) (isHTTP2 bool, err error) {
	call := c.newCall(ctx)
	m, cc, err := c.take(&call, forEither)
	switch {
	case err != nil:
		return false, call.explain(err)
	case m != nil:
		c.releaseHTTP2(m)
		return true, nil
	}
	c.release(cc)
	return false, nil
}

// prewarmOne opens a connection, for which it has a permission.
func (c *HostClient) prewarmOne(ctx context.Context) error {
	call := c.newCall(ctx)
	_, cc, err := c.connect(&call, forHTTP1)
	if err == nil {
		c.release(cc)
		return nil
	}
	return call.explain(err)
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
	_, cc, err := c.acquire(&call, forHTTP1)
	return cc, err
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
