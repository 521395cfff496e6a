package shared

import (
	"testing"
	"time"
)

// Processes that measure the clock at different times read the same time.
func TestClock(t *testing.T) {
	const near = int64(time.Minute) // the readings are not simultaneous
	for range 3 {
		c := newClock()
		want, known := systemClock()
		if !known {
			want = time.Now().UnixNano()
		}
		if got := c.now(); got < want-near || got > want+near {
			t.Errorf("the clock is at %v, the system's at %v", time.Duration(got), time.Duration(want))
		}
		before := c.now()
		time.Sleep(time.Millisecond)
		if took := c.now() - before; took < int64(time.Millisecond) {
			t.Errorf("a millisecond takes %v", time.Duration(took))
		}
	}
}
