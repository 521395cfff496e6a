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
	// than what connections borrow for each turn.
	largeBuffer = 32 << 10
	// trimWindow is how long a trimmer counts before it compares. A burst's
	// memory is back three windows after its end at the latest.
	trimWindow = 10 * time.Second
	// trimMin is how much must be let go in one window to be a burst.
	trimMin = 4 << 20
	// trimQuiet is by how much the busiest window must exceed one that is quiet.
	trimQuiet = 8
	// trimGain is the part of the heap that a burst must have had to be worth two
	// collections: one in so many bytes.
	trimGain = 4
)

// LetGo says that a connection gives up n bytes which it held while it waited,
// be it to a pool or to the garbage collector.
//
// The runtime collects when the heap grows, or after two minutes, and a
// sync.Pool takes two collections to forget its content. A server that is idle
// after a burst allocates nothing: without LetGo the burst's memory would be
// returned to the system after four to ten minutes.
func LetGo(n int) { returned.letGo(int64(n)) }

// A trimmer returns a burst's memory to the system when the burst is over. It
// counts what is let go in each window of time; the burst is over when a window
// has much less than the busiest one. Under steady load all windows are alike,
// and the trimmer only counts. Without load it has no timer.
type trimmer struct {
	bytes   atomic.Int64 // let go in this window
	isArmed atomic.Bool  // a timer is going to call tick

	// Owned by tick.
	peak   int64  // bytes in the busiest window since the trimmer was armed
	cycles uint64 // garbage collections until the last busy window

	// For tests; nil stands for the runtime's.
	after    func(time.Duration, func())
	heap     func() heapState
	giveBack func()
}

// returned is the trimmer of the process, as the heap is one.
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

// heapState is what the runtime says about its heap.
type heapState struct {
	bytes  uint64 // objects, dead ones that were not collected included
	cycles uint64 // garbage collections so far
	isOff  bool   // GOGC=off: the user decides when there are collections
}

// gains tells whether collections are worth their cost after a burst of peak
// bytes, with so many collections until its end. The cost is that of the heap
// which lives: a burst that was small beside it gains too little. Pools were
// emptied already if there were two collections since.
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

// giveBack returns what pools hold and what is dead. The first collection makes
// the pools' content their victims, the second one frees those. The runtime's
// own scavenger would then keep what the heap had before.
func giveBack() {
	runtime.GC()
	debug.FreeOSMemory()
}
