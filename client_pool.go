package sluice

import (
	"context"
	"time"

	"github.com/sluicehttp/sluice/internal/client/dial"
	"github.com/sluicehttp/sluice/internal/client/pool"
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

// acquire returns a connection for a call: an idle one that is open and has no
// unread bytes, or a new one.
func (c *HostClient) acquire(call *clientCall) (*clientConn, error) {
	if c.ConnPoolStrategy != FIFO && c.ConnPoolStrategy != LIFO {
		return nil, ErrConnPoolStrategyNotImpl
	}
	call.phase = PhaseWait
	trace := call.trace
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(c.firstAddr())
	}
	cc, err := c.acquireAny(call)
	if err == nil {
		trace.gotConn(cc, cc.isReused, func() { c.cut(cc) })
	}
	return cc, err
}

// acquireAny is acquire without the trace.
func (c *HostClient) acquireAny(call *clientCall) (*clientConn, error) {
	if call.IsBound() {
		if err := call.err(); err != nil {
			return nil, err
		}
	}
	settings := c.poolSettings()
	got, isFull := c.pool.Take(settings, call.isFresh)
	if isFull {
		var err error
		if got, err = c.wait(call, settings); err != nil {
			return nil, err
		}
	}
	cc := got.Conn
	if cc == nil {
		return c.connect(call)
	}
	takesTurn := cc.wire.PrepareTurn(call.looksLater)
	if c.pool.IsExpired(settings, got) || !takesTurn && !cc.wire.IsQuiet() {
		cc.close() // connect opens a new one in its place
		return c.connect(call)
	}
	cc.isReused, cc.lastUse = true, got.LastUse
	return cc, nil
}

// wait waits for a free connection, or for the permission to open one.
func (c *HostClient) wait(call *clientCall, settings pool.Settings[clientConn]) (got pool.Idle[clientConn], err error) {
	limit := c.MaxConnWaitTimeout
	if limit <= 0 && call.Done() == nil {
		return got, ErrNoFreeConns
	}
	var expired <-chan time.Time
	if left := call.Left(limit); left > 0 {
		timer := AcquireTimer(left)
		defer ReleaseTimer(timer)
		expired = timer.C
	}
	got, ok := c.pool.Wait(settings, call.isFresh, call.Done(), expired)
	if ok {
		return got, nil
	}
	if err := call.err(); err != nil {
		return got, err
	}
	return got, ErrNoFreeConns
}

// release makes a connection idle, or gives it to a waiting call.
func (c *HostClient) release(cc *clientConn) {
	c.pool.Release(c.poolSettings(), cc)
}

// discard closes a connection and returns its place to the pool.
func (c *HostClient) discard(cc *clientConn) {
	c.pool.Discard(c.poolSettings(), cc)
}

// cut is discard for a connection whose server may have stopped reading.
func (c *HostClient) cut(cc *clientConn) {
	dial.Cut(cc.wire.Net)
	c.pool.Closed(c.poolSettings())
}

// CloseIdleConnections closes the connections that are not in use. It does not
// affect the others, and the HostClient remains usable.
func (c *HostClient) CloseIdleConnections() {
	c.pool.CloseIdle(c.poolSettings())
	c.http2.CloseIdle(c.http2Settings())
}

// ConnsCount returns the number of connections, including those that are being
// opened.
func (c *HostClient) ConnsCount() int {
	open, _ := c.pool.Counts()
	shared, _ := c.http2.Counts()
	return open + shared
}

// IdleConnsCount returns the number of idle connections.
func (c *HostClient) IdleConnsCount() int {
	_, idle := c.pool.Counts()
	_, shared := c.http2.Counts()
	return idle + shared
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
	if err := clock.EndOf(ctx, PhaseWait); err != nil {
		return err
	}
	c.lastUse.Store(clock.Nanos())
	if n > 0 && c.mayUseHTTP2() && c.Transport == nil {
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
	m, cc, err := c.acquireHTTP2(&call)
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
	cc, err := c.connect(&call)
	if err == nil {
		c.release(cc)
		return nil
	}
	return call.explain(err)
}
