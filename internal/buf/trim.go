package buf

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

const (
	// largeBuffer is the size from which Release counts a buffer as let go: larger
	// than those that connections acquire for each turn.
	largeBuffer = 32 << 10
	// trimWindow is how long a trimmer counts before it compares. A burst's memory is
	// returned at most three windows after its end.
	trimWindow = 10 * time.Second
	// trimMin is how much must be let go in one window to count as a burst.
	trimMin = 4 << 20
	// trimQuiet is the factor by which the busiest window must exceed a quiet one.
	trimQuiet = 8
	// trimGain: a burst must have had at least 1/trimGain of the heap to be worth two
	// collections.
	trimGain = 4
)

// LetGo records that a connection gives up n bytes that it held while it waited, to a
// pool or to the garbage collector.
//
// The runtime collects when the heap grows, or after two minutes, and a sync.Pool
// drops its content after two collections. A server that is idle after a burst
// allocates nothing. Without LetGo the burst's memory would be returned to the system
// after four to ten minutes.
func LetGo(n int) { returned.letGo(int64(n)) }

// A trimmer returns a burst's memory to the system after the burst. It counts what is
// let go in each window of time. The burst has ended when a window has much less than
// the busiest one. Under steady load all windows are alike, and the trimmer only
// counts. Without load it has no timer.
type trimmer struct {
	bytes   atomic.Int64 // let go in this window
	isArmed atomic.Bool  // a timer will call tick

	// Owned by tick.
	peak   int64  // bytes in the busiest window since the trimmer was armed
	cycles uint64 // garbage collections until the last busy window

	// Replaced in tests.
	after    func(time.Duration, func())
	heap     func() heapState
	giveBack func()
}

// returned is the process's only trimmer, because a process has one heap.
var returned = trimmer{after: afterFunc, heap: readHeap, giveBack: giveBack}

func (t *trimmer) letGo(n int64) {
	t.bytes.Add(n)
	t.arm()
}

func (t *trimmer) arm() {
	if !t.isArmed.Load() && t.isArmed.CompareAndSwap(false, true) {
		t.after(trimWindow, t.tick)
	}
}

// tick ends a window.
func (t *trimmer) tick() {
	n := t.bytes.Swap(0)
	if n > t.peak/trimQuiet {
		t.peak = max(t.peak, n)
		t.cycles = t.heap().cycles
		t.after(trimWindow, t.tick)
		return
	}
	if t.peak >= trimMin && t.heap().gains(t.peak, t.cycles) {
		t.giveBack()
	}
	t.peak = 0
	t.isArmed.Store(false)
	if t.bytes.Load() > 0 {
		t.arm()
	}
}

// heapState is what the runtime reports about its heap.
type heapState struct {
	bytes  uint64 // objects, including dead ones that are not collected yet
	cycles uint64 // garbage collections so far
	isOff  bool   // GOGC=off: the user controls garbage collection
}

// gains reports whether collections are worth their cost after a burst of peak bytes,
// which ended at this number of cycles. The cost is that of the living heap: a burst
// that was small in comparison gains too little. If there were two collections since,
// the pools are empty already.
func (h heapState) gains(peak int64, cycles uint64) bool {
	return !h.isOff && h.cycles < cycles+2 && uint64(peak) >= h.bytes/trimGain
}

func afterFunc(d time.Duration, f func()) { time.AfterFunc(d, f) }

func readHeap() heapState {
	samples := [...]metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/gc/gogc:percent"},
	}
	metrics.Read(samples[:])
	return heapState{
		bytes:  samples[0].Value.Uint64(),
		cycles: samples[1].Value.Uint64(),
		isOff:  samples[2].Value.Uint64() == math.MaxUint64,
	}
}

// giveBack returns pooled and dead memory to the system. The first collection moves
// the pools' content to their victim caches, the second one frees it. The runtime's
// own scavenger would keep as much memory as the heap had before.
func giveBack() {
	runtime.GC()
	debug.FreeOSMemory()
}
