package pool

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// waiting is what a Wait on a goroutine of its own comes to.
type waiting struct {
	got Idle[fakeConn]
	ok  bool
}

// waitAside waits for a connection, and returns when it is in the queue.
func (p *testPool) waitAside(isFresh bool, call *clock.Bounds) <-chan waiting {
	ended := make(chan waiting, 1)
	go func() {
		var w waiting
		w.got, w.ok = p.Wait(p.Settings, isFresh, call, 0)
		ended <- w
	}()
	synctest.Wait()
	return ended
}

// counts fails if the pool has not as many connections and waiters.
func (p *testPool) counts(t *testing.T, open, idle, waiters int) {
	t.Helper()
	p.wantCounts(t, open, idle)
	if got := p.Waiting(); got != waiters {
		t.Errorf("%d wait, want %d", got, waiters)
	}
}

// TestWaitersAreServed: with a connection, or with the permission to open one.
func TestWaitersAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1, time.Hour)
		c := p.get(t)
		first, fresh, last := p.waitAside(false, new(clock.Bounds)), p.waitAside(true, new(clock.Bounds)), p.waitAside(false, new(clock.Bounds))
		p.counts(t, 1, 0, 3)
		p.put(c)
		if w := <-first; !w.ok || w.got.Conn != c {
			t.Errorf("%+v", w)
		}
		p.put(c) // the waiter opens another one in its place
		if w := <-fresh; !w.ok || w.got.Conn != nil || !c.closed.Load() {
			t.Errorf("%+v, closed %v", w, c.closed.Load())
		}
		p.counts(t, 1, 0, 1)
		p.Closed(p.Settings) // opening has failed
		if w := <-last; !w.ok || w.got.Conn != nil {
			t.Errorf("%+v", w)
		}
		c = &fakeConn{}
		p.put(c)
		p.counts(t, 1, 1, 0)
		if got, ok := p.Wait(p.Settings, false, new(clock.Bounds), 0); !ok || got.Conn != c {
			t.Errorf("an idle connection: %+v, %v", got, ok)
		}
		p.Discard(p.Settings, c)
		p.counts(t, 0, 0, 0)
	})
}

// TestWaitersInTurn: the last one comes first with IsLIFO.
func TestWaitersInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, isLIFO := range []bool{false, true} {
			p := newPool(1, time.Hour)
			p.IsLIFO = isLIFO
			c := p.get(t)
			first, second := p.waitAside(false, new(clock.Bounds)), p.waitAside(false, new(clock.Bounds))
			if isLIFO {
				first, second = second, first
			}
			p.put(c)
			synctest.Wait()
			if len(first) != 1 || len(second) != 0 {
				t.Errorf("LIFO %v: %d, %d", isLIFO, len(first), len(second))
			}
			p.put(c)
			synctest.Wait()
			if len(second) != 1 {
				t.Error("the second one waits")
			}
			p.Discard(p.Settings, c)
		}
	})
}

// TestWaitersExpire: at their limit, or at the deadline of the call, whichever is first. It has no
// bubble, because clock keeps timers, which could not be used outside of it.
func TestWaitersExpire(t *testing.T) {
	p := newPool(1, time.Hour)
	c := p.get(t)
	for _, tc := range []struct {
		deadline int64
		limit    time.Duration
	}{{0, 1}, {1, 0}, {1, time.Hour}, {clock.Later(clock.Nanos(), time.Hour), 1}} {
		if got, ok := p.Wait(p.Settings, false, &clock.Bounds{Deadline: tc.deadline}, tc.limit); ok {
			t.Errorf("%+v: %+v", tc, got)
		}
		p.counts(t, 1, 0, 0)
	}
	p.Discard(p.Settings, c)
}

// TestWaitersGiveUp: when the context ends; what one was given at that moment goes back.
func TestWaitersGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1, time.Hour)
		c := p.get(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := p.waitAside(false, &clock.Bounds{Context: ctx})
		cancel()
		if w := <-cancelled; w.ok {
			t.Errorf("%+v", w)
		}
		p.counts(t, 1, 0, 0)
		for _, gets := range []Idle[fakeConn]{{c, 1}, {}} {
			w := p.wait(t, false)
			p.mu.Lock()
			p.serveLocked(w, gets)
			p.mu.Unlock()
			if p.abandon(w) || w.got != gets {
				t.Errorf("%+v was given up", gets)
			}
		}
		p.Discard(p.Settings, c)
		p.counts(t, 0, 0, 0)
	})
}

// TestSetMax: waiters get the room of a larger maximum, and idle connections are closed
// for a smaller one.
func TestSetMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1, time.Hour)
		a := p.get(t)
		w := p.waitAside(false, new(clock.Bounds))
		p.SetMax(p.Settings, 2)
		if w := <-w; !w.ok || w.got.Conn != nil {
			t.Errorf("%+v", w)
		}
		b := &fakeConn{}
		p.put(a, b)
		p.counts(t, 2, 2, 0)
		p.SetMax(p.Settings, 0) // that of the settings
		p.counts(t, 1, 1, 0)
		if !a.closed.Load() || b.closed.Load() {
			t.Error("another connection was closed")
		}
		p.SetMax(p.Settings, 2)
		c, got := p.get(t), p.get(t)
		p.SetMax(p.Settings, 1)
		p.put(c) // one more than allowed
		p.put(got)
		p.counts(t, 1, 1, 0)
		if !c.closed.Load() || got.closed.Load() {
			t.Error("the connection that was released first is open")
		}
		p.CloseIdle(p.Settings)
		p.counts(t, 0, 0, 0)
		if !got.closed.Load() {
			t.Error("an idle connection is open")
		}
	})
}

// TestReserve: what is missing for as many idle connections, as many as allowed.
func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(4, time.Hour)
		p.put(p.get(t))
		p.Admit() // one that was opened without a permission
		p.counts(t, 2, 1, 0)
		for _, step := range []struct{ n, want int }{{0, 0}, {1, 0}, {2, 1}, {9, 1}, {9, 0}} {
			if got := p.Reserve(p.Settings, step.n); got != step.want {
				t.Errorf("%d idle ones: %d, want %d", step.n, got, step.want)
			}
		}
		p.counts(t, 4, 1, 0)
		p.CloseIdle(p.Settings)
	})
}
