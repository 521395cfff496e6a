package pool

import (
	"testing"
	"testing/synctest"
	"time"
)

// wantIdle checks that n connections are open, all of them idle, after a time.
func (p *testPool) wantIdle(t *testing.T, after time.Duration, n int) {
	t.Helper()
	time.Sleep(after)
	synctest.Wait()
	p.wantCounts(t, n, n)
}

// TestJanitorClosesInTime: a connection is closed when it has been idle for
// MaxIdle, no more than two steps of the pool's clock earlier, and one that is
// used in between is not.
func TestJanitorClosesInTime(t *testing.T) {
	for _, idle := range []time.Duration{10 * time.Millisecond, 160 * time.Millisecond, 16 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(9, idle)
			step := max(p.step(), time.Millisecond)
			p.use(t, 2)
			p.wantIdle(t, idle-4*step, 2)
			p.use(t, 1) // the other one goes on idling
			p.wantIdle(t, 6*step, 1)
			p.wantIdle(t, idle-8*step, 1) // at twice idle, less six steps
			p.wantIdle(t, 4*step, 0)
			// It begins anew.
			p.use(t, 1)
			p.wantIdle(t, idle-3*step, 1)
			p.wantIdle(t, 5*step, 0)
		})
	}
}

// TestJanitorWakes: after a time without use the pool's clock goes on with the
// next one, so that connections that are used seldom are not taken for older than
// they are, nor for younger.
func TestJanitorWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = 16 * time.Second
		p := newPool(9, idle)
		p.use(t, 1)
		p.wantIdle(t, 2*time.Second, 1) // the janitor sleeps until the connection expires
		p.use(t, 1)
		p.wantIdle(t, 10*time.Second, 1)
		p.use(t, 1) // 12 s
		p.wantIdle(t, idle-2*time.Second, 1)
		p.wantIdle(t, 3*time.Second, 0)
	})
}

// TestJanitorIsGone: without idle connections nothing runs.
func TestJanitorIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(9, 16*time.Second)
		p.use(t, 1)
		hasJanitor := func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.janitor != nil
		}
		if !hasJanitor() {
			t.Error("no janitor while a connection idles")
		}
		p.wantIdle(t, 18*time.Second, 0)
		if hasJanitor() || p.ticked.Load() != 0 {
			t.Error("the janitor has turns without idle connections")
		}
	})
}

// TestJanitorClockGoesOn: a connection that is used all the time is not taken for
// one that has idled since the first use.
func TestJanitorClockGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(9, 16*time.Second)
		for range 300 {
			p.use(t, 1)
			time.Sleep(100 * time.Millisecond)
		}
		if p.opened != 1 {
			t.Errorf("%d connections were made, want 1", p.opened)
		}
		p.wantIdle(t, 18*time.Second, 0)
	})
}

// TestJanitorWhileInUse: a connection that is in use for long is closed in time
// when it idles again.
func TestJanitorWhileInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(9, 16*time.Second)
		p.use(t, 1)
		c := p.get(t)
		time.Sleep(5 * time.Second)
		p.wantCounts(t, 1, 0)
		p.put(c)
		p.wantIdle(t, 14*time.Second, 1)
		p.wantIdle(t, 3*time.Second, 0)
	})
}
