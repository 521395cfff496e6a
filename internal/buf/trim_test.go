package buf

import (
	"testing"
	"time"
)

// trimRun runs a trimmer window by window.
type trimRun struct {
	trimmer
	state   heapState
	pending []func()
	given   int
}

func newTrimRun() *trimRun {
	r := &trimRun{}
	r.after = func(d time.Duration, f func()) {
		if d != trimWindow {
			panic(d)
		}
		r.pending = append(r.pending, f)
	}
	r.heap = func() heapState { return r.state }
	r.giveBack = func() { r.given++ }
	return r
}

// window lets n bytes go and ends the window.
func (r *trimRun) window(t *testing.T, n int64) {
	t.Helper()
	if n > 0 {
		r.letGo(n/2 + 1)
		r.letGo(n / 2)
	}
	if len(r.pending) > 1 {
		t.Fatalf("%d timers", len(r.pending))
	}
	if len(r.pending) == 1 {
		f := r.pending[0]
		r.pending = nil
		f()
	}
}

func TestTrimWindows(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name    string
		state   heapState
		windows []int64
		want    int
	}{
		{"burst", heapState{bytes: 300 * mib}, []int64{240 * mib, 0}, 1},
		{"burst in two windows", heapState{bytes: 300 * mib}, []int64{100 * mib, 140 * mib, 0}, 1},
		{"a trickle after it", heapState{bytes: 300 * mib}, []int64{240 * mib, 2 * mib, 2 * mib}, 1},
		{"two bursts", heapState{bytes: 300 * mib}, []int64{240 * mib, 0, 0, 240 * mib, 0, 0}, 2},
		{"steady load", heapState{bytes: 300 * mib}, []int64{240 * mib, 200 * mib, 240 * mib, 100 * mib, 220 * mib, 60 * mib}, 0},
		{"load that falls slowly", heapState{bytes: 300 * mib}, []int64{240 * mib, 120 * mib, 60 * mib, 29 * mib}, 1},
		{"too little", heapState{bytes: 8 * mib}, []int64{3 * mib, 0, 0}, 0},
		{"small beside the heap", heapState{bytes: 2000 * mib}, []int64{240 * mib, 0, 0}, 0},
		{"the user collects", heapState{bytes: 300 * mib, isOff: true}, []int64{240 * mib, 0, 0}, 0},
	} {
		r := newTrimRun()
		r.state = c.state
		for _, n := range c.windows {
			r.window(t, n)
		}
		if r.given != c.want {
			t.Errorf("%s: memory was returned %d times, want %d", c.name, r.given, c.want)
		}
	}
}

// Memory that the runtime has collected by itself needs no more collections.
func TestTrimCountsCollections(t *testing.T) {
	for cycles, want := range []int{1, 1, 0, 0} {
		r := newTrimRun()
		r.state = heapState{bytes: 300 << 20, cycles: 7}
		r.window(t, 240<<20)
		r.state.cycles += uint64(cycles)
		r.window(t, 0)
		if r.given != want {
			t.Errorf("%d collections after the burst: memory was returned %d times, want %d", cycles, r.given, want)
		}
	}
}

// Without load there is no timer.
func TestTrimDisarms(t *testing.T) {
	r := newTrimRun()
	r.window(t, 1)
	r.window(t, 0)
	if len(r.pending) != 0 || r.isArmed.Load() {
		t.Fatalf("%d timers, armed %v after a quiet window", len(r.pending), r.isArmed.Load())
	}
	r.letGo(1)
	if len(r.pending) != 1 {
		t.Fatal("what is let go later arms no timer")
	}
	// Bytes counted between the end of the count and the end of the tick are not
	// lost.
	r = newTrimRun()
	r.state.bytes = 1
	r.giveBack = func() { r.letGo(240 << 20) }
	r.window(t, 240<<20)
	r.window(t, 0)
	if len(r.pending) != 1 {
		t.Fatal("what was let go during a collection arms no timer")
	}
}

func TestReleaseCountsLarge(t *testing.T) {
	before := returned.bytes.Load()
	Get(largeBuffer - 1<<10).Release() // its class has the size largeBuffer
	if got := returned.bytes.Load() - before; got != largeBuffer {
		t.Errorf("a buffer of %d bytes counted %d", largeBuffer, got)
	}
	(&Buffer{B: make([]byte, 0, 3<<20)}).Release() // not pooled: garbage
	if got := returned.bytes.Load() - before; got != largeBuffer+3<<20 {
		t.Errorf("one that is too large for a pool: %d bytes", got)
	}
	Get(4096).Release()
	if got := returned.bytes.Load() - before; got != largeBuffer+3<<20 {
		t.Errorf("a small buffer counted: %d bytes", got)
	}
}

func TestReadHeap(t *testing.T) {
	before := readHeap()
	giveBack()
	after := readHeap()
	if before.bytes == 0 || before.isOff || after.cycles < before.cycles+2 {
		t.Errorf("before %+v, after %+v", before, after)
	}
}
