package perconn

import (
	"sync"
	"testing"
)

func TestNotice(t *testing.T) {
	var n notice
	n.fire()
	n.cancel()
	calls := 0
	n.set(func() { calls++ })
	if !n.wanted() {
		t.Error("not wanted after set")
	}
	n.fire()
	n.fire()
	if calls != 1 || n.wanted() {
		t.Errorf("%d calls, wanted %v", calls, n.wanted())
	}
	n.set(func() { calls++ })
	n.cancel()
	n.fire()
	if calls != 1 {
		t.Error("called after cancel")
	}
}

// TestNoticeCancelWaits: after cancel the callback is not running.
func TestNoticeCancelWaits(t *testing.T) {
	for range 1000 {
		var n notice
		over := false // the race detector looks on
		n.set(func() { _ = over })
		var wg sync.WaitGroup
		wg.Go(n.fire)
		n.cancel()
		over = true
		wg.Wait()
	}
}
