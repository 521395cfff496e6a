package message

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestCollectForms: there is one garbage collection for all forms that were given up in a
// while, and another one for later forms.
func TestCollectForms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c FormCollector
		for range 2 {
			before := collections()
			c.Collect()
			c.Collect()
			if left := c.left.Load(); left < before || !c.isScheduled.Load() {
				t.Errorf("after %d collections, the forms wait for %d", before, left)
			}
			time.Sleep(time.Second - 1)
			if !c.isScheduled.Load() {
				t.Error("the forms get less than a second")
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if collections() == before || c.isScheduled.Load() {
				t.Error("nothing was collected")
			}
		}
	})
}
