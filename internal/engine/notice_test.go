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
