package server

import (
	"sync/atomic"
	"testing"
	"time"
)

func TestFlights(t *testing.T) {
	var f Flights
	at := func(seconds float64) int64 { return int64(seconds * float64(time.Second)) }
	first, second, third := f.Begin(at(5000.9)), f.Begin(at(5001)), f.Begin(at(5001.999))
	for _, step := range []struct {
		end   *atomic.Int32
		now   float64
		count int
		begun float64 // 0: none
	}{
		{nil, 5002, 3, 5000},
		{nil, 6023, 3, 5000}, // the last second that is told from the next round
		{second, 5002, 2, 5000},
		{first, 5002, 1, 5001},
		{third, 5002, 0, 0},
	} {
		if step.end != nil {
			step.end.Add(-1)
		}
		begun, ok := f.Oldest(at(step.now))
		if count := f.Count(); count != step.count || ok != (step.begun != 0) || begun != at(step.begun) {
			t.Errorf("%d, since %d, %v; want %d, since %d", count, begun, ok, step.count, at(step.begun))
		}
	}
}

// Add counts only what is more than nothing, and only where there is a counter.
func TestAdd(t *testing.T) {
	var word atomic.Uint64
	Add(&word, 3)
	Add(&word, int64(1)<<40)
	Add(&word, 0)
	Add(&word, -1)
	Add(nil, 1)
	if got := word.Load(); got != 1<<40+3 {
		t.Errorf("%d", got)
	}
}
