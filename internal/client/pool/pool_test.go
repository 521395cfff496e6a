package pool

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// fakeConn is a connection that knows only whether it was closed.
type fakeConn struct {
	id     int
	closed atomic.Bool
}

// testPool is a Pool with its settings.
type testPool struct {
	Pool[fakeConn]
	Settings[fakeConn]
	opened int
}

func newPool(maxConns int, maxIdle time.Duration) *testPool {
	return &testPool{Settings: Settings[fakeConn]{MaxConns: maxConns, MaxIdle: maxIdle, Close: func(c *fakeConn) {
		if c.closed.Swap(true) {
			panic("closed twice")
		}
	}}}
}

// get takes an idle connection or opens one, as a client does.
func (p *testPool) get(t *testing.T) *fakeConn {
	t.Helper()
	got, isFull := p.Take(p.Settings, false)
	switch {
	case isFull:
		t.Fatal("the pool is full")
	case got.Conn == nil:
	case p.IsExpired(p.Settings, got):
		got.Conn.closed.Store(true)
	default:
		return got.Conn
	}
	p.opened++
	return &fakeConn{id: p.opened}
}

func (p *testPool) put(conns ...*fakeConn) {
	for _, c := range conns {
		p.Release(p.Settings, c)
	}
}

// use has n connections in use at the same time for a moment.
func (p *testPool) use(t *testing.T, n int) {
	t.Helper()
	var conns []*fakeConn
	for range n {
		conns = append(conns, p.get(t))
	}
	p.put(conns...)
}

// wait is a waiter in the queue.
func (p *testPool) wait(t testing.TB, isFresh bool) *waiter[Idle[fakeConn]] {
	t.Helper()
	w := &waiter[Idle[fakeConn]]{ready: make(chan struct{}), isFresh: isFresh}
	if _, ok := p.enqueue(p.Settings, w); ok {
		t.Fatal("served at once")
	}
	return w
}

// wantCounts checks how many connections are open and idle.
func (p *testPool) wantCounts(t *testing.T, open, idle int) {
	t.Helper()
	if o, i := p.Counts(); o != open || i != idle {
		t.Errorf("%d open, %d idle, want %d and %d", o, i, open, idle)
	}
}

// TestOrderOfIdleConnections: whatever has moved through its memory, which stays
// within bounds.
func TestOrderOfIdleConnections(t *testing.T) {
	var p Pool[fakeConn]
	var want []*fakeConn
	take := func(n int) {
		for range n {
			if got := p.takeFirstLocked(); got.Conn != want[0] {
				t.Fatal("another connection than the first")
			}
			want = want[1:]
		}
	}
	for _, most := range []int{1, 2, 7, 100, 3} {
		for range 10 * most {
			for len(want) < most {
				c := new(fakeConn)
				p.pushLocked(Idle[fakeConn]{Conn: c})
				want = append(want, c)
			}
			take(1 + most/3)
		}
		if len(want) > 0 {
			if got := p.takeLastLocked(); got.Conn != want[len(want)-1] {
				t.Fatal("another connection than the last")
			}
			want = want[:len(want)-1]
		}
		take(len(want))
		if len(p.idle) != 0 || cap(p.room) > 4*100 {
			t.Fatalf("%d connections left, memory for %d", len(p.idle), cap(p.room))
		}
		for i, c := range p.room[:cap(p.room)] {
			if c.Conn != nil {
				t.Fatalf("place %d of %d keeps a connection that was taken", i, cap(p.room))
			}
		}
	}
}

// TestTakeByStrategy: also by a call that was about to wait when the connections
// became idle.
func TestTakeByStrategy(t *testing.T) {
	for isLIFO, want := range map[bool]int{false: 1, true: 3} {
		p := newPool(3, time.Hour)
		p.IsLIFO = isLIFO
		p.use(t, 3)
		got, ok := p.Wait(p.Settings, false, new(clock.Bounds), 0)
		if !ok || got.Conn.id != want {
			t.Errorf("LIFO %v: connection %d, want %d", isLIFO, got.Conn.id, want)
		}
		p.put(got.Conn)
	}
}

// A waiter that accepts only a new connection is not overtaken by those that
// take any: it would wait for ever.
func TestFreshWaiterIsServedInTurn(t *testing.T) {
	p := newPool(1, time.Hour)
	c := p.get(t)
	first, second := p.wait(t, true), p.wait(t, false)
	p.put(c)
	select {
	case <-first.ready:
	default:
		t.Error("who came later was served before")
	}
	if first.got.Conn != nil || !c.closed.Load() || second.place == nil {
		t.Error("the old connection was kept, or given to the other")
	}
	p.wantCounts(t, 1, 0)
}

// Between Take and Wait another call may release its connection: who wants a
// fresh one takes its place, and does not wait beside it.
func TestFreshWaiterBesideIdleConnection(t *testing.T) {
	p := newPool(1, time.Hour)
	p.use(t, 1)
	if got, ok := p.Wait(p.Settings, true, new(clock.Bounds), 0); !ok || got.Conn != nil {
		t.Error("no permission although the only connection idles")
	}
	p.wantCounts(t, 1, 0)
}

// BenchmarkWaiters is a release to a waiter and the next one's arrival, and a
// waiter that gives up, while others wait: the time does not depend on how many.
func BenchmarkWaiters(b *testing.B) {
	for _, waiters := range []int{1, 100, 10_000, 100_000} {
		b.Run(fmt.Sprint(waiters), func(b *testing.B) {
			p, c := newPool(1, time.Hour), &fakeConn{}
			p.open = 1
			for range waiters {
				p.wait(b, false)
			}
			b.ReportAllocs()
			for b.Loop() {
				w := p.wait(b, false)
				p.wait(b, false)
				p.abandon(w)
				p.put(c)
			}
		})
	}
}

// TestWaitersThatGiveUp: calls that have waited for too long hold nothing, and the
// connection serves the next one.
func TestWaitersThatGiveUp(t *testing.T) {
	p := newPool(1, time.Hour)
	c := p.get(t)
	var waiting sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range 1000 {
		waiting.Go(func() {
			if _, ok := p.Wait(p.Settings, false, &clock.Bounds{Context: ctx}, 0); ok {
				t.Error("a waiter was served")
			}
		})
	}
	cancel()
	waiting.Wait()
	if n := p.waiting.Len(); n != 0 {
		t.Errorf("%d waiters remain", n)
	}
	p.wantCounts(t, 1, 0)
	p.put(c)
	if got := p.get(t); got != c {
		t.Error("another connection was opened")
	}
}
