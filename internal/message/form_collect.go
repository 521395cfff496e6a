package message

import (
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// A FormCollector makes the garbage collector run soon after a form was given up, unless it
// runs by itself: it finds out when nothing refers to the form any more, so that its files
// can be removed. The zero value is ready.
type FormCollector struct {
	left        atomic.Uint64 // collections() when a form was last given up
	isScheduled atomic.Bool
}

// formPatience is the shortest time for which the files of a given-up form are kept.
const formPatience = time.Second

// Collect says that a form was given up. It starts at most one collection in each
// formPatience, however many forms there are.
func (c *FormCollector) Collect() {
	c.left.Store(collections())
	if !c.isScheduled.CompareAndSwap(false, true) {
		return
	}
	time.AfterFunc(formPatience, func() {
		c.isScheduled.Store(false)
		// A collection that was running when the form was given up may have missed it.
		if collections() < c.left.Load()+2 {
			runtime.GC()
		}
	})
}

// collections returns the number of completed garbage collections.
func collections() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
