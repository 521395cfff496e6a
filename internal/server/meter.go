package server

import (
	"sync/atomic"
	"time"
)

// A Meter has the counters that connections update. One that is nil is skipped.
// BenchmarkServerMeter measures the cost.
type Meter struct {
	BytesRead, BytesWritten *atomic.Uint64
	Informational           *atomic.Uint64 // final responses with a status of 1xx
	Flights                 *Flights       // nil: nothing is counted
}

// Add adds n to a counter, if there is one.
func Add[N int | int64](word *atomic.Uint64, n N) {
	if word != nil && n > 0 {
		word.Add(uint64(n))
	}
}

// Flights counts the requests in progress by the second in which they began, in
// a ring of counters: words[s % flightWords] is the number of requests that
// began in second s and have not ended. The zero value is ready.
type Flights struct {
	words [flightWords]atomic.Int32
}

const (
	flightWords = 1 << 10 // seconds, a power of two
	second      = int64(time.Second)
)

// Begin counts a request that began at now (of clock.Nanos). The caller
// subtracts 1 from the returned counter when the request ends.
func (f *Flights) Begin(now int64) (word *atomic.Int32) {
	word = &f.words[now/second&(flightWords-1)]
	word.Add(1)
	return word
}

// Count returns the number of requests in progress.
func (f *Flights) Count() (total int) {
	for i := range f.words {
		total += int(f.words[i].Load())
	}
	return total
}

// Oldest returns the start of the second in which the oldest request began.
func (f *Flights) Oldest(now int64) (begun int64, ok bool) {
	current := now / second
	for at := current - flightWords + 1; at <= current; at++ {
		if f.words[at&(flightWords-1)].Load() > 0 {
			return at * second, true
		}
	}
	return 0, false
}
