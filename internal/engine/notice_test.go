package engine

import (
	"sync"
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
