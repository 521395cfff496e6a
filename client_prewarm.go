package sluice

import (
	"context"

	"github.com/sluicehttp/sluice/internal/clock"
)

// Prewarm opens connections concurrently until n are idle or MaxConns are open,
// so that requests need not wait for them. It returns after all attempts have
// ended. If some failed, it returns the first error, a *PhaseError if ctx
// ended, and keeps the connections that were opened. Like all idle connections,
// they are closed after MaxIdleConnDuration.
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
	var first error // the other errors are most likely the same
	for range want {
		if err := <-failed; first == nil {
			first = err
		}
	}
	return first
}

// reserve takes the permissions for the connections that are missing for n idle
// ones, as many as maxConns allows.
func (c *HostClient) reserve(n int) int {
	p := &c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	want := max(min(n-len(p.idle), c.maxConns()-p.open), 0)
	p.open += want
	return want
}

// prewarmOne opens a connection, for which it has a permission.
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
