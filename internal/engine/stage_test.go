package engine

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestLife: a Stage is first reached once, and those before it with it.
func TestLife(t *testing.T) {
	var l Life
	for _, step := range []struct {
		reach   Stage
		isFirst bool
		at      Stage
	}{
		{StageServing, false, StageServing},
		{StageClosing, true, StageClosing},
		{StageClosing, false, StageClosing},
		{StageKilling, true, StageKilling},
		{StageShutDown, false, StageKilling},
	} {
		if isFirst := l.Reach(step.reach); isFirst != step.isFirst {
			t.Errorf("Reach(%d): %v", step.reach, isFirst)
		}
		for s := StageServing; s <= StageKilling; s++ {
			if l.Has(s) != (s <= step.at) {
				t.Errorf("after Reach(%d), Has(%d) is %v", step.reach, s, l.Has(s))
			}
		}
	}
	var all Life
	var firsts atomic.Int32
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			all.Reach(StageClosing)
			if all.Reach(StageShutDown) {
				firsts.Add(1)
			}
			if i == 0 {
				all.Reach(StageKilling)
			}
		})
	}
	wait.Wait()
	if n := firsts.Load(); n > 1 || !all.Has(StageKilling) {
		t.Errorf("%d goroutines were first", n)
	}
}
