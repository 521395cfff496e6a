package sluice

import (
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/http2"
)

// A Meter holds the atomic counters that a Server updates (ServerControl.Meter).
// The counters may lie in memory that processes share, so that they survive the
// process: the server updates each one at once, when the event happens. The
// server skips a counter that is nil. Do not change the pointers while a server
// uses the Meter. Several servers may share one Meter. A Meter must not be
// copied.
type Meter struct {
	noCopy noCopy

	// Accepted counts connections when they arrive: accepted ones, including those
	// that are then refused, and those of ServeConn and AdoptConn.
	Accepted *atomic.Uint64
	// Done counts connections that have ended for this server: they are closed, or
	// were handed over (HandOver, Divert), or their hijack handler has returned.
	// So, for a process that died, Accepted - Done is the number of connections
	// that it was serving.
	Done *atomic.Uint64
	// BytesRead counts bytes of requests that the server has parsed or passed to a
	// handler.
	BytesRead *atomic.Uint64
	// BytesWritten counts bytes of responses that were passed to the connection,
	// including bytes that the client did not receive. A file counts when sending
	// begins.
	BytesWritten *atomic.Uint64
	// Status counts requests by the class of their final response: Status[0]
	// counts 1xx. Of the interim responses only 101 is final. Requests without a
	// response, as after ErrAbortHandler, do not count.
	Status [5]*atomic.Uint64

	flights flights
	http2   http2.Gauges
}

// HTTP2 returns the gauges of the HTTP/2 connections of all servers that use the Meter.
func (m *Meter) HTTP2() HTTP2Stats { return http2Stats(&m.http2) }

// Requests returns the sum of Status.
func (m *Meter) Requests() (total uint64) {
	for _, word := range m.Status {
		if word != nil {
			total += word.Load()
		}
	}
	return total
}

// InFlight returns the number of requests in progress in this process: requests
// that have arrived and whose response is not complete. Handlers that keep
// running after their time-out (TimeoutHandler) or after Hijack do not count.
func (m *Meter) InFlight() int { return m.flights.count() }

// Oldest returns the time at which the oldest request in progress began,
// rounded down to a second, and the zero time if there is none. now is the
// current time. A request that has run for more than 17 minutes may seem
// younger.
func (m *Meter) Oldest(now time.Time) time.Time {
	at := clock.Nanos()
	begun, ok := m.flights.oldest(at)
	if !ok {
		return time.Time{}
	}
	return now.Add(-time.Duration(at - begun))
}

// countIn adds n to a counter, if there is one.
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

// flights counts the requests in progress by the second in which they began, in
// a ring of counters: words[s % flightWords] is the number of requests that
// began in second s and have not ended.
type flights struct {
	words [flightWords]atomic.Int32
}

const (
	flightWords = 1 << 10 // seconds, a power of two
	second      = int64(time.Second)
)

// begin counts a request that began at now (of clock.Nanos). The caller
// subtracts 1 from the returned counter when the request ends.
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

// oldest returns the start of the second in which the oldest request began.
func (f *flights) oldest(now int64) (begun int64, ok bool) {
	current := now / second
	for at := current - flightWords + 1; at <= current; at++ {
		if f.words[at&(flightWords-1)].Load() > 0 {
			return at * second, true
		}
	}
	return 0, false
}
