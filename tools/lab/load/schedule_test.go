package load

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// The threads of a run together have requests at even intervals.
func TestScheduleSpreadsOverThreads(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 7} {
		var all []int64
		for i := range threads {
			s := newSchedule(1000, i, threads)
			for s.next() < 1e9 {
				all = append(all, s.take())
			}
		}
		slices.Sort(all)
		if len(all) != 1000 {
			t.Fatalf("%d threads: %d requests in a second at 1000/s", threads, len(all))
		}
		for n, at := range all {
			if want := int64(n) * 1e6; at != want {
				t.Fatalf("%d threads: request %d is due at %d, not %d", threads, n, at, want)
			}
		}
	}
}

// due agrees with counting, at rates that divide no second.
func TestScheduleDue(t *testing.T) {
	for _, rate := range []float64{0.3, 1, 3, 7, 1000.0 / 3, 99_999, 1e6, 1e9} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			s := newSchedule(rate, 0, 1)
			if s.due(-1) != 0 || s.due(0) != 1 {
				t.Fatalf("at -1 %d, at 0 %d", s.due(-1), s.due(0))
			}
			taken := int64(0)
			for range 1000 {
				now := s.next()
				before, at := s.due(now-1), s.due(now)
				if before != 0 || at < 1 || s.at(taken+at) <= now {
					t.Fatalf("%d taken: %d due a moment before, %d at %d", taken, before, at, now)
				}
				if got := s.take(); got != now {
					t.Fatalf("taken %d, not %d", got, now)
				}
				taken++
			}
		})
	}
}

// A backlog has all that was due, from the oldest on.
func TestScheduleBacklog(t *testing.T) {
	s := newSchedule(100, 1, 2) // at 10, 30, 50 ... ms
	if n := s.due(1e9); n != 50 {
		t.Fatalf("%d due after a second", n)
	}
	for n := range 50 {
		if at, want := s.take(), int64(10+20*n)*1e6; at != want {
			t.Fatalf("request %d was due at %d, not %d", n, at, want)
		}
	}
	if n := s.due(1e9); n != 0 || s.next() != 1010e6 {
		t.Errorf("%d due, the next at %d", n, s.next())
	}
}

// What is due and was not sent is counted in a moment, however much it is: the run
// would not end otherwise.
func TestScheduleOverdue(t *testing.T) {
	for _, c := range []struct {
		rate float64
		n    int64
	}{{1000, 1000}, {1e6, 1e6}, {1e9, 1e9}, {1e12, 1e12}, {1000, 7}, {1000, 0}} {
		s, h := newSchedule(c.rate, 0, 1), newHistogram()
		s.overdue(h, c.n, int64(time.Second))
		if h.TotalCount() != c.n || s.taken != c.n {
			t.Errorf("%v per second: %d of %d latencies, %d taken", c.rate, h.TotalCount(), c.n, s.taken)
		}
		if c.n < 1000 {
			continue
		}
		// Even intervals: from a whole second down to nothing.
		for percent, want := range map[float64]float64{10: 1e8, 50: 5e8, 90: 9e8, 100: 1e9} {
			if got := float64(h.ValueAtPercentile(percent)); math.Abs(got-want) > want/100 {
				t.Errorf("%v per second: %v %% have waited %v ns, not %v", c.rate, percent, got, want)
			}
		}
	}
}

func TestPause(t *testing.T) {
	for failures, want := range map[int]int64{1: firstPause, 2: 2 * firstPause, 3: 4 * firstPause, 8: lastPause, 1000: lastPause, math.MaxInt: lastPause} {
		if got := pause(failures); got != want {
			t.Errorf("after %d failures: %d, not %d", failures, got, want)
		}
	}
}
