package sluice

import (
	"context"

	"github.com/sluicehttp/sluice/internal/clock"
)

// Prewarm opens connections, all at the same time, until n are idle or as many
// are open as MaxConns allows, so that requests need not wait for them. It
// returns when that is done, or has failed because of ctx or of the host; what
// was opened by then is kept. As all that are idle, they are closed after
// MaxIdleConnDuration.
func (c *HostClient) Prewarm(ctx context.Context, n int) error {
	if err := context.Cause(ctx); err != nil {
		return &PhaseError{Phase: PhaseWait, Err: err}
	}
	c.lastUse.Store(clock.Nanos())
	want := c.reserve(n)
	failed := make(chan error, want)
	for range want {
		go func() { failed <- c.prewarmOne(ctx) }()
	}
	var first error // the others most likely say it again
	for range want {
		if err := <-failed; first == nil {
			first = err
		}
	}
	return first
}

// reserve takes the permissions for as many connections as are missing to n idle
// ones, and may be made.
func (c *HostClient) reserve(n int) int {
	p := &c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	want := max(min(n-len(p.idle), c.maxConns()-p.open), 0)
	p.open += want
	return want
}

// prewarmOne opens a connection, for which there is a permission.
func (c *HostClient) prewarmOne(ctx context.Context) error {
	call := clientCall{ctx: ctx, trace: traceOf(ctx)}
	if call.trace == nil {
		call.trace = c.Trace
	}
	cc, err := c.connect(&call)
	if err == nil {
		c.release(cc)
		return nil
	}
	return call.explain(err)
}
