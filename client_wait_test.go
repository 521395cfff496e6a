package sluice

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/sluicehttp/sluice/internal/clock"
)

// TestPoolWaitersOrder: who waits for a connection is served by ConnPoolStrategy,
// and those that gave up are passed over.
func TestPoolWaitersOrder(t *testing.T) {
	const waiters, givesUp = 5, 2
	for _, test := range []struct {
		strategy ConnPoolStrategyType
		want     []int
	}{
		{FIFO, []int{0, 1, 3, 4}},
		{LIFO, []int{4, 3, 1, 0}},
	} {
		p := newClientPeer(t, func(c *peerConn) { c.gone() })
		c := p.host()
		c.MaxConns, c.ConnPoolStrategy = 1, test.strategy
		cc, err := c.AcquireConn(0, false)
		if err != nil {
			t.Fatal(err)
		}
		type outcome struct {
			waiter int
			conn   *clientConn
			err    error
		}
		outcomes := make(chan outcome)
		var giveUp context.CancelFunc
		for i := range waiters {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i == givesUp {
				giveUp = cancel
			}
			go func() {
				_, conn, err := c.acquire(&clientCall{Bounds: clock.Bounds{Context: ctx}}, forHTTP1)
				outcomes <- outcome{i, conn, err}
			}()
			eventually(t, "the waiter", func() bool { return c.waiters() == i+1 })
		}
		giveUp()
		if o := <-outcomes; o.waiter != givesUp || !errors.Is(o.err, context.Canceled) || c.waiters() != waiters-1 {
			t.Errorf("strategy %d: waiter %d ended with %v; %d wait", test.strategy, o.waiter, o.err, c.waiters())
		}
		var order []int
		for range test.want {
			c.release(cc)
			o := <-outcomes
			if o.err != nil || o.conn != cc {
				t.Fatalf("strategy %d: waiter %d got another connection, or %v", test.strategy, o.waiter, o.err)
			}
			order = append(order, o.waiter)
		}
		c.release(cc)
		if !slices.Equal(order, test.want) {
			t.Errorf("strategy %d: served %d, want %d", test.strategy, order, test.want)
		}
		checkPool(t, c, 1, 1)
	}
}
