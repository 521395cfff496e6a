package sluice

import (
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// A Meter has the words in which a Server counts (Server.Meter). They may lie in
// memory that processes share, so that what a process has counted outlives it:
// each is written at once, when what it counts happens. A word that is nil is
// not counted in; the words must not be changed while a server uses the Meter.
// Several servers may use one. A Meter must not be copied.
type Meter struct {
	noCopy noCopy

	// Accepted counts connections before anything is done with them: accepted
	// ones, refused ones among them, and those of ServeConn and AdoptConn.
	Accepted *atomic.Uint64
	// Done counts them again when nothing is left to do: they are closed, were
	// handed over (HandOver, Divert), or their hijack handler has returned. So
	// Accepted - Done of a process that died is how many it had in its hands.
	Done *atomic.Uint64
	// BytesRead counts bytes of requests that the server has looked at.
	BytesRead *atomic.Uint64
	// BytesWritten counts bytes of responses that were given to the connection:
	// what the client did not take is among them. A file counts when its
	// sending begins.
	BytesWritten *atomic.Uint64
	// Status counts requests by the class of their final response, 1xx first: of
	// interim responses only 101 is final. Requests without a response, as after
	// ErrAbortHandler, are not counted.
	Status [5]*atomic.Uint64

	flights flights
}

// Requests is the sum of Status.
func (m *Meter) Requests() (total uint64) {
	for _, word := range m.Status {
		if word != nil {
			total += word.Load()
		}
	}
	return total
}

// InFlight is the number of requests being handled: those that have arrived and
// whose response is not complete. It is this process's own. Handlers that go on
// after their time-out (TimeoutHandler) or after Hijack are not counted.
func (m *Meter) InFlight() int { return m.flights.count() }

// Oldest returns when the oldest of the requests being handled has begun, to the
// second and never too late, and the zero time if there is none. now is the
// present. One that has been handled for more than 17 minutes may seem younger.
func (m *Meter) Oldest(now time.Time) time.Time {
	at := clock.Nanos()
	begun, ok := m.flights.oldest(at)
	if !ok {
		return time.Time{}
	}
	return now.Add(-time.Duration(at - begun))
}

// countIn adds n to a word, if there is one.
func countIn[N int | int64](word *atomic.Uint64, n N) {
	if word != nil && n > 0 {
		word.Add(uint64(n))
	}
}

// countStatus counts a request by the status of its final response.
func (m *Meter) countStatus(status int) {
	countIn(m.Status[min(max(status/100, 1), len(m.Status))-1], 1)
}

// arrived and departed count a connection in and out; see engine.Hooks.
func (m *Meter) arrived()  { countIn(m.Accepted, 1) }
func (m *Meter) departed() { countIn(m.Done, 1) }

// flights counts requests in words for the second in which they began, round and
// round: what is not 0 was begun then and is still being handled.
type flights struct {
	words [flightWords]atomic.Int32
}

const (
	flightWords = 1 << 10 // seconds, a power of two
	second      = int64(time.Second)
)

// begin counts a request that began at now (of clock.Nanos), and returns what end
// wants.
func (f *flights) begin(now int64) (word *atomic.Int32) {
	word = &f.words[now/second&(flightWords-1)]
	word.Add(1)
	return word
}

func (f *flights) count() (total int) {
	for i := range f.words {
		total += int(f.words[i].Load())
	}
	return total
}

// oldest returns the begin of the second in which the oldest one has begun.
func (f *flights) oldest(now int64) (begun int64, ok bool) {
	current := now / second
	for at := current - flightWords + 1; at <= current; at++ {
		if f.words[at&(flightWords-1)].Load() > 0 {
			return at * second, true
		}
	}
	return 0, false
}
