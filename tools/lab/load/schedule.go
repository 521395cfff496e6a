package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// clock counts nanoseconds from the start of a run.
type clock struct{ start time.Time }

func (c clock) now() int64 { return int64(time.Since(c.start)) }

// A schedule says when the requests of an open loop are due: at even intervals,
// whatever the server does. Times are those of the run's clock.
type schedule struct {
	first    float64 // nanoseconds
	interval float64
	taken    int64
}

// newSchedule returns thread's part of a rate in requests per second that is
// spread over some threads: the n-th request of all is the n/threads-th of the
// thread n%threads.
func newSchedule(rate float64, thread, threads int) *schedule {
	every := float64(time.Second) / rate
	return &schedule{first: every * float64(thread), interval: every * float64(threads)}
}

// at returns when a request is due.
func (s *schedule) at(n int64) int64 { return int64(s.first + float64(n)*s.interval) }

// next returns when the next request is due that was not taken.
func (s *schedule) next() int64 { return s.at(s.taken) }

// take takes the next request and returns when it was due.
func (s *schedule) take() int64 {
	at := s.at(s.taken)
	s.taken++
	return at
}

// due returns how many requests are due that were not taken.
func (s *schedule) due(now int64) int64 {
	if s.next() > now {
		return 0
	}
	n := int64((float64(now)-s.first)/s.interval) + 1
	for s.at(n) <= now { // what division and multiplication differ in
		n++
	}
	for s.at(n-1) > now {
		n--
	}
	return n - s.taken
}

// overdueGroups bounds how many values overdue counts one by one.
const overdueGroups = 100_000

// overdue takes n requests and adds what each has waited until now to h. A rate
// that is far too high leaves billions: then neighbours, which differ by less than
// the digits of h, count as one.
func (s *schedule) overdue(h *hdrhistogram.Histogram, n, now int64) {
	group := n/overdueGroups + 1
	for n > 0 {
		size := min(group, n)
		// Cannot fail: the value is within the bounds.
		_ = h.RecordValues(bounded(now-s.at(s.taken)), size)
		s.taken += size
		n -= size
	}
}
