package perconn

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

func TestStacksAreLIFO(t *testing.T) {
	d := New(engine.Options{}).(*driver)
	defer d.stacks.close()
	first, second := d.stacks.get(0), d.stacks.get(0)
	first.home.put(first)
	second.home.put(second)
	if got := d.stacks.get(0); got != second {
		t.Error("got a coroutine that has waited longer")
	} else {
		got.home.put(got)
	}
}

// count returns the number of free coroutines.
func (s *stackShard) count() int {
	s.lock()
	defer s.mu.Unlock()
	return s.free
}

// TestSweep: coroutines that were not needed for a whole period are stopped,
// all but a few; those in use are not counted.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shard := &stackShard{keep: 2, maxIdle: time.Minute}
		var borrowed []*coroutine
		for range 10 {
			borrowed = append(borrowed, newCoroutine(shard))
		}
		for _, co := range borrowed {
			shard.put(co)
		}
		// The first period began with 3 of them.
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if n := shard.count(); n != 9 {
			t.Errorf("%d coroutines are left, want 9", n)
		}
		// Three are used once in the second period: 6 are not.
		used := []*coroutine{shard.take(), shard.take(), shard.take()}
		for _, co := range used {
			shard.put(co)
		}
		time.Sleep(60 * time.Second)
		synctest.Wait()
		if n := shard.count(); n != 5 {
			t.Errorf("%d coroutines are left, want the 3 used ones and 2", n)
		}
		time.Sleep(60 * time.Second)
		synctest.Wait()
		if n := shard.count(); n != 2 {
			t.Errorf("%d coroutines are left, want 2", n)
		}
		// synctest fails the test if a goroutine is left after this.
		stopAll(shard.cut(0))
	})
}

func TestPutAfterClose(t *testing.T) {
	before := runtime.NumGoroutine()
	d := New(engine.Options{}).(*driver)
	co, idle := d.stacks.get(0), d.stacks.get(0)
	idle.home.put(idle)
	d.stacks.close()
	co.home.put(co)
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, were %d", n, before)
	}
}

// TestStacksConcurrently has many borrowers; the race detector and iter.Pull's
// own checks notice a coroutine that two of them have.
func TestStacksConcurrently(t *testing.T) {
	d := New(engine.Options{}).(*driver)
	defer d.stacks.close()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			w := newWorker(d)
			w.state.Store(stateEvicted)
			for range 500 {
				if !w.step(taskInput) {
					t.Error("an evicted connection went on")
				}
				w.giveBack()
			}
		})
	}
	wg.Wait()
}
