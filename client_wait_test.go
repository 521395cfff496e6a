package sluice

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
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
				conn, err := c.acquire(&clientCall{ctx: ctx})
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

// TestPoolEnqueueTakesByStrategy: a connection that became idle in the instant
// before the wait is chosen like every other one.
func TestPoolEnqueueTakesByStrategy(t *testing.T) {
	for strategy, want := range map[ConnPoolStrategyType]int{FIFO: 0, LIFO: 2} {
		c := &HostClient{ConnPoolStrategy: strategy}
		ccs := []*clientConn{{}, {}, {}}
		for _, cc := range ccs {
			c.pool.push(cc)
		}
		if cc, ok := c.enqueue(&connWaiter{}); !ok || cc != ccs[want] {
			t.Errorf("strategy %d: not connection %d", strategy, want)
		}
	}
}

// TestWaitList compares the list with a slice.
func TestWaitList(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var list waitList
	var model, gone []*connWaiter
	for range 20_000 {
		if r.IntN(2) == 0 || len(model) == 0 {
			w := &connWaiter{}
			list.add(w)
			model = append(model, w)
		} else {
			i := r.IntN(len(model))
			if !list.remove(model[i]) {
				t.Fatal("one that waits is not on the list")
			}
			gone = append(gone, model[i])
			model = slices.Delete(model, i, i+1)
		}
		if len(gone) > 0 && list.remove(gone[r.IntN(len(gone))]) {
			t.Fatal("one is removed twice")
		}
		if list.count != len(model) {
			t.Fatalf("%d are counted, want %d", list.count, len(model))
		}
		if len(model) == 0 && (list.first != nil || list.last != nil) {
			t.Fatal("an empty list has ends")
		}
	}
	var forward, backward []*connWaiter
	for w := list.first; w != nil; w = w.after {
		forward = append(forward, w)
	}
	for w := list.last; w != nil; w = w.before {
		backward = append(backward, w)
	}
	slices.Reverse(backward)
	if !slices.Equal(forward, model) || !slices.Equal(backward, model) {
		t.Error("the list has another order than its waiters came in")
	}
}

// BenchmarkPoolWaiters is a release to a waiter and the next one's arrival, and a
// waiter that gives up, while others wait: the time does not depend on how many.
func BenchmarkPoolWaiters(b *testing.B) {
	for _, waiters := range []int{1, 100, 10_000, 100_000} {
		b.Run(fmt.Sprint(waiters), func(b *testing.B) {
			c := &HostClient{MaxConns: 1}
			c.pool.open = 1
			cc := &clientConn{}
			for range waiters {
				c.pool.waiting.add(&connWaiter{ready: make(chan struct{})})
			}
			b.ReportAllocs()
			for b.Loop() {
				w := &connWaiter{ready: make(chan struct{})}
				c.enqueue(w)
				c.enqueue(&connWaiter{ready: make(chan struct{})})
				c.pool.abandon(w)
				c.release(cc)
			}
		})
	}
}
