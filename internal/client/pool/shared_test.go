package pool

import (
	"errors"
	"math/rand"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// sharedPool is a Shared with its settings. Its connections are numbers.
type sharedPool struct {
	Shared[int]
	SharedSettings[int]
	closed atomic.Int64
	looks  atomic.Int64
}

func newShared(maxConns int) *sharedPool {
	p := &sharedPool{SharedSettings: SharedSettings[int]{MaxConns: maxConns, MaxIdle: time.Minute}}
	p.Close = func(int) { p.closed.Add(1) }
	p.Look = func(int) { p.looks.Add(1) }
	return p
}

// take takes a stream or the permission without waiting.
func (p *sharedPool) take(t *testing.T) Grant[int] {
	t.Helper()
	got, ok := p.Take(p.SharedSettings)
	if !ok {
		t.Fatal("neither a stream nor the permission")
	}
	return got
}

// open opens a connection, with one stream.
func (p *sharedPool) open(t *testing.T, conn, limit int) *Member[int] {
	t.Helper()
	if got := p.take(t); !got.MayOpen {
		t.Fatalf("no permission, but %+v", got)
	}
	m := p.opened(conn, limit)
	p.SetLimit(p.SharedSettings, m, limit)
	return m
}

// opened adds a connection that was opened with the permission.
func (p *sharedPool) opened(conn, limit int) *Member[int] {
	m := NewMember(conn, limit)
	p.Opened(p.SharedSettings, m)
	return m
}

func (p *sharedPool) wantShared(t *testing.T, open, idle int) {
	t.Helper()
	if o, i := p.Counts(); o != open || i != idle {
		t.Errorf("%d open, %d idle, want %d and %d", o, i, open, idle)
	}
}

// wait waits on a goroutine of its own.
func (p *sharedPool) wait(patience time.Duration) chan Grant[int] {
	got := make(chan Grant[int], 1)
	go func() {
		g, _ := p.Wait(p.SharedSettings, patience, new(clock.Bounds))
		got <- g
	}()
	synctest.Wait()
	return got
}

// One caller opens, the others wait until it is known how many streams there are; then
// the next one opens.
func TestSharedOneOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newShared(2)
		if !p.take(t).MayOpen {
			t.Fatal("no permission in an empty pool")
		}
		var waiting []chan Grant[int]
		for range 4 {
			waiting = append(waiting, p.wait(-1))
		}
		p.wantShared(t, 1, 0)
		m := p.opened(1, 2) // for its opener and one other
		if got := <-waiting[0]; got.Member != m {
			t.Errorf("the first who waits got %+v", got)
		}
		synctest.Wait()
		if len(waiting[1]) > 0 {
			t.Error("a second opening before the first connection is settled")
		}
		p.SetLimit(p.SharedSettings, m, 3)
		if got := <-waiting[1]; got.Member != m {
			t.Errorf("the second got %+v", got)
		}
		if got := <-waiting[2]; !got.MayOpen {
			t.Errorf("the third got %+v, want the permission", got)
		}
		second := p.opened(2, 1)
		p.SetLimit(p.SharedSettings, second, 1)
		synctest.Wait()
		if len(waiting[3]) > 0 {
			t.Error("a third connection, beyond MaxConns")
		}
		p.wantShared(t, 2, 0)
		p.Release(p.SharedSettings, second)
		if got := <-waiting[3]; got.Member != second {
			t.Errorf("the fourth got %+v", got)
		}
	})
}

// The fullest connection with room is used, so that the others become idle.
func TestSharedFullestFirst(t *testing.T) {
	p := newShared(3)
	a := p.open(t, 1, 1)
	b := p.open(t, 2, 3)
	p.SetLimit(p.SharedSettings, a, 3)
	for range 2 {
		p.take(t)
	}
	if a.streams+b.streams != 4 || max(a.streams, b.streams) != 3 {
		t.Errorf("%d and %d streams, want 3 and 1", a.streams, b.streams)
	}
}

// The error of opening is that of all who wait, unless there are other connections. Who
// gives up passes the permission on.
func TestSharedFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newShared(2)
		broken := errors.New("broken")
		p.take(t)
		first, second := p.wait(-1), p.wait(0)
		p.Failed(p.SharedSettings, broken)
		if a, b := <-first, <-second; a.Err != broken || b.Err != broken {
			t.Errorf("got %+v and %+v", a, b)
		}
		p.take(t)
		first, second = p.wait(-1), p.wait(0)
		p.Abandon(p.SharedSettings)
		if got := <-first; !got.MayOpen {
			t.Errorf("got %+v, want the permission", got)
		}
		m := p.opened(1, 1)
		synctest.Wait()
		if len(second) > 0 {
			t.Error("who does not wait for room must wait for the opening")
		}
		p.SetLimit(p.SharedSettings, m, 1)
		if got := <-second; !got.MayOpen {
			t.Errorf("got %+v, want the permission", got)
		}
		third := p.wait(0)
		p.Failed(p.SharedSettings, broken)
		if got := <-third; !got.MayOpen {
			t.Errorf("got %+v, want the permission: there is another connection", got)
		}
		n := p.opened(2, 1)
		fourth := p.wait(0)
		p.SetLimit(p.SharedSettings, n, 1)
		if got := <-fourth; got.Err != ErrFull {
			t.Errorf("got %+v, want ErrFull", got)
		}
		if got := <-p.wait(0); got.Err != ErrFull {
			t.Errorf("got %+v, want ErrFull at once", got)
		}
	})
}

// Patience ends while connections are full, but not while one is being opened.
func TestSharedPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newShared(1)
		p.take(t)
		waiting := p.wait(time.Second)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(waiting) > 0 {
			t.Fatal("gave up while a connection was being opened")
		}
		m := p.opened(1, 1)
		p.SetLimit(p.SharedSettings, m, 1)
		if got := <-waiting; got.Err != ErrFull {
			t.Errorf("got %+v, want ErrFull", got)
		}
		p.Release(p.SharedSettings, m)
		p.wantShared(t, 1, 1)
	})
}

// No call waits longer than its deadline, whether it or another one opens. See TestWaitersExpire.
func TestSharedExpires(t *testing.T) {
	p := newShared(1)
	p.take(t)
	for _, patience := range []time.Duration{-1, 0, time.Hour} {
		if got, ok := p.Wait(p.SharedSettings, patience, &clock.Bounds{Deadline: 1}); ok || p.Waiting() != 0 {
			t.Errorf("patience %v: %+v, and %d wait", patience, got, p.Waiting())
		}
	}
	m := p.opened(1, 1)
	p.Release(p.SharedSettings, m)
	p.wantShared(t, 1, 1)
}

// A connection that is drained gets no new streams, is closed after the last one, and
// leaves its place at once.
func TestSharedDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newShared(1)
		m := p.open(t, 1, 1)
		waiting := p.wait(-1)
		p.Drain(p.SharedSettings, m)
		if got := <-waiting; !got.MayOpen {
			t.Errorf("got %+v, want the permission", got)
		}
		p.Drain(p.SharedSettings, m) // has no effect
		p.wantShared(t, 2, 0)
		p.Release(p.SharedSettings, m)
		synctest.Wait()
		if p.closed.Load() != 1 {
			t.Error("not closed after its last stream")
		}
		p.wantShared(t, 1, 0)
		// Its successor is drained before it is settled.
		n := p.opened(2, 1)
		waiting = p.wait(0)
		p.Drain(p.SharedSettings, n)
		if got := <-waiting; !got.MayOpen {
			t.Errorf("got %+v, want the permission", got)
		}
	})
}

// Idle connections are closed after MaxIdle, old ones after their last stream.
func TestSharedAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newShared(3)
		p.MaxAge = time.Hour
		a := p.open(t, 1, 1)
		b := p.open(t, 2, 1)
		p.Release(p.SharedSettings, a)
		time.Sleep(40*time.Second + lookEvery/2)
		if n := p.looks.Load(); n != int64(40*time.Second/lookEvery) {
			t.Errorf("looked %d times in 40 s", n)
		}
		p.Release(p.SharedSettings, b)
		time.Sleep(25 * time.Second)
		synctest.Wait()
		p.wantShared(t, 1, 1)
		time.Sleep(40 * time.Second)
		synctest.Wait()
		p.wantShared(t, 0, 0)
		if p.closed.Load() != 2 {
			t.Errorf("%d closed, want 2", p.closed.Load())
		}
		c := p.open(t, 3, 10)
		time.Sleep(time.Hour + time.Second)
		if p.TakeOpen(p.SharedSettings) != nil {
			t.Error("a new stream on an old connection")
		}
		p.Release(p.SharedSettings, c)
		d := p.open(t, 4, 1)
		p.Release(p.SharedSettings, d)
		p.CloseIdle(p.SharedSettings)
		synctest.Wait()
		p.wantShared(t, 0, 0)
	})
}

// A single connection is for one stream, and counts.
func TestSharedSingle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newShared(2)
		m := p.open(t, 1, 1)
		if !p.TakeSingle(p.SharedSettings) {
			t.Fatal("no permission although there is room")
		}
		if p.TakeSingle(p.SharedSettings) {
			t.Error("a third connection")
		}
		own := NewMember(7, 1)
		p.OpenedSingle(own)
		p.wantShared(t, 2, 0)
		p.Release(p.SharedSettings, m)
		if !p.TakeSingle(p.SharedSettings) {
			t.Error("an idle connection was not replaced")
		}
		p.FailedSingle()
		p.Release(p.SharedSettings, own)
		synctest.Wait()
		p.wantShared(t, 0, 0)
		if p.closed.Load() != 2 {
			t.Errorf("%d closed, want 2", p.closed.Load())
		}
		n := NewMember(8, 2)
		if p.Admit(p.SharedSettings, n); p.take(t).Member != n {
			t.Error("an added connection is not used")
		}
	})
}

// Whatever happens, no more streams than limits admit, no second permission, and nobody
// waits for ever.
func TestSharedUnderLoad(t *testing.T) {
	p := newShared(3)
	var opening, conns atomic.Int64
	streams := make([]atomic.Int64, 10_000)
	const limit = 4
	var all sync.WaitGroup
	for worker := range 32 {
		all.Go(func() {
			random := rand.New(rand.NewSource(int64(worker)))
			for range 500 {
				got, ok := p.Take(p.SharedSettings)
				if !ok {
					got, ok = p.Wait(p.SharedSettings, -1, new(clock.Bounds))
				}
				m := got.Member
				switch {
				case !ok:
					t.Error("a wait without a bound ended")
				case got.Err != nil:
					continue
				case got.MayOpen:
					if opening.Add(1) != 1 {
						t.Error("two permissions")
					}
					opening.Add(-1)
					switch random.Intn(4) {
					case 0:
						p.Failed(p.SharedSettings, errors.New("failed"))
						continue
					case 1:
						p.Abandon(p.SharedSettings)
						continue
					}
					m = p.opened(int(conns.Add(1)), limit)
				}
				if streams[m.Conn].Add(1) > limit {
					t.Error("too many streams")
				}
				p.SetLimit(p.SharedSettings, m, limit)
				if random.Intn(20) == 0 {
					p.Drain(p.SharedSettings, m)
				}
				streams[m.Conn].Add(-1)
				p.Release(p.SharedSettings, m)
			}
		})
	}
	all.Wait()
	p.CloseIdle(p.SharedSettings)
	p.wantShared(t, 0, 0)
}

// A stream in steady state costs no memory.
func TestSharedAllocatesNothing(t *testing.T) {
	p := newShared(1)
	m := p.open(t, 1, 100)
	p.Release(p.SharedSettings, m)
	if n := testing.AllocsPerRun(100, func() {
		p.Release(p.SharedSettings, p.take(t).Member)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
