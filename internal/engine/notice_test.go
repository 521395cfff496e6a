package engine

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

func TestNotice(t *testing.T) {
	var n Notice
	n.Fire()
	n.Cancel()
	calls := 0
	n.Set(func() { calls++ })
	if !n.Wanted() {
		t.Error("not wanted after set")
	}
	n.Fire()
	n.Fire()
	if calls != 1 || n.Wanted() {
		t.Errorf("%d calls, wanted %v", calls, n.Wanted())
	}
	n.Set(func() { calls++ })
	n.Cancel()
	n.Fire()
	if calls != 1 {
		t.Error("called after cancel")
	}
}

// TestNoticeFor: what is reported for another key is not called.
func TestNoticeFor(t *testing.T) {
	var n Notice
	calls := 0
	n.SetFor(1, func() { calls++ })
	n.Fire()
	n.FireFor(2)
	if calls != 0 || !n.Wanted() {
		t.Errorf("%d calls for other keys", calls)
	}
	n.FireFor(1)
	n.FireFor(1)
	if calls != 1 {
		t.Errorf("%d calls", calls)
	}
}

// TestNoticeCancelWaits: after Cancel the callback is not running.
func TestNoticeCancelWaits(t *testing.T) {
	for range 1000 {
		var n Notice
		over := false // the race detector looks on
		n.Set(func() { _ = over })
		var wg sync.WaitGroup
		wg.Go(n.Fire)
		n.Cancel()
		over = true
		wg.Wait()
	}
}

// TestNoticeOfOthers: while others report the end of this and of earlier connections, a callback
// runs once at most, for its own key, and not after Cancel.
func TestNoticeOfOthers(t *testing.T) {
	var n Notice
	var wg sync.WaitGroup
	var key atomic.Uint64
	stop := make(chan struct{})
	for i := range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					for range 100 {
						n.FireFor(key.Load() - uint64(i)) // this one, or one that was cancelled
					}
					runtime.Gosched()
				}
			}
		})
	}
	fired := 0
	for k := uint64(3); k < 50_000; k++ {
		calls := 0 // the race detector looks on
		key.Store(k)
		n.SetFor(k, func() { calls++ })
		if k%4 == 0 {
			n.SetFor(k, func() { calls++ }) // while the first one may run
			n.Cancel()
			calls = min(calls, 1)
			n.SetFor(k, func() { calls++ })
		}
		for k%64 == 0 && n.Wanted() { // this one is to be called
			runtime.Gosched()
		}
		n.Cancel()
		if calls > 2 || n.f != nil || n.Wanted() {
			t.Fatalf("%d calls, and %v is kept", calls, n.f != nil)
		}
		fired += calls
	}
	close(stop)
	wg.Wait()
	if fired < 50_000/64-1 {
		t.Errorf("%d were called", fired)
	}
}
