package nettest

import (
	"runtime"
	"testing"
	"time"
)

// HeapInUse returns the bytes of live objects.
func HeapInUse() int {
	runtime.GC()
	runtime.GC() // pools are emptied by the second one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// HoldsAtMost waits until progress stays the same, and fails if each of conns connections then
// holds more than most bytes of the heap, beside those before, for longer than patience.
func HoldsAtMost(t *testing.T, before, conns, most int, patience time.Duration, progress func() int64) {
	t.Helper()
	const pause = 20 * time.Millisecond
	for last, same := int64(0), 0; same < 5; time.Sleep(pause) {
		if now := progress(); now == last {
			same++
		} else {
			last, same = now, 0
		}
	}
	for end := time.Now().Add(patience); ; time.Sleep(pause) { // what has begun may not be over
		got := (HeapInUse() - before) / conns
		if got <= most {
			t.Logf("%d KiB for each connection", got>>10)
			return
		}
		if time.Now().After(end) {
			t.Fatalf("each connection holds %d KiB, at most %d are wanted", got>>10, most>>10)
		}
	}
}
