package http2

import "testing"

// TestEndings: the endings of the newest streams are known, and those of older ones count as
// ours.
func TestEndings(t *testing.T) {
	var e endings
	e.open(1)
	e.set(1, endedByPeer)
	e.open(9)
	e.set(9, endedByUs)
	for id, want := range map[uint32]ending{1: endedByPeer, 3: neverBegun, 5: neverBegun, 7: neverBegun, 9: endedByUs} {
		if got := e.of(id); got != want {
			t.Errorf("stream %d: %d, want %d", id, got, want)
		}
	}
	const last = 9 + 2*rememberedStreams
	e.open(last) // in place of stream 9
	for id, want := range map[uint32]ending{1: endedByUs, 9: endedByUs, 11: neverBegun, last - 2: neverBegun, last: endedByBoth} {
		if got := e.of(id); got != want {
			t.Errorf("stream %d after many: %d, want %d", id, got, want)
		}
	}
	e.open(1<<31 - 1)
	if got := e.of(1<<31 - 3); got != neverBegun {
		t.Errorf("a stream among many that were skipped: %d", got)
	}
	e.forget(1<<31 - 1)
	for id := uint32(1<<31 - 1); id > 1<<31-1-3*rememberedStreams; id -= 2 {
		if got := e.of(id); got != endedByUs {
			t.Fatalf("stream %d after forget: %d", id, got)
		}
	}
}
