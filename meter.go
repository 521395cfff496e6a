package sluice

import (
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/server/http2"
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
	// Refused counts connections that were refused because of Server.Concurrency,
	// MaxConnsPerIP or ProxyProtocol. They are included in Accepted and Done.
	Refused *atomic.Uint64
	// TimedOut counts requests that did not arrive in time (answered 408), and those whose
	// handler gave up (TimeoutHandler, RequestCtx.TimeoutError). They are included in Status.
	TimedOut *atomic.Uint64
	// Latency is called for each request that counts in Status, but for those that are
	// answered by a HijackHandler. It receives the time from the request's arrival, its
	// first byte, until the response is ready to be sent: the handler has returned, or has
	// called Flush, and a streamed body is yet to come. Pipelined requests that have arrived
	// together begin together. It must not block, or keep or change ctx. If nil, nothing is
	// measured.
	Latency func(ctx *RequestCtx, took time.Duration)

	flights server.Flights
	http2   http2.Gauges
	http3   http3Gauges
}

// HTTP2 returns the gauges of the HTTP/2 connections of all servers that use the Meter.
func (m *Meter) HTTP2() HTTP2Stats { return http2Stats(&m.http2) }

// HTTP3 returns the gauges of the HTTP/3 connections of all servers that use the Meter.
func (m *Meter) HTTP3() HTTP3Stats { return m.http3.sum() }

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
func (m *Meter) InFlight() int { return m.flights.Count() }

// Oldest returns the time at which the oldest request in progress began,
// rounded down to a second, and the zero time if there is none. now is the
// current time. A request that has run for more than 17 minutes may seem
// younger.
func (m *Meter) Oldest(now time.Time) time.Time {
	at := clock.Nanos()
	begun, ok := m.flights.Oldest(at)
	if !ok {
		return time.Time{}
	}
	return now.Add(-time.Duration(at - begun))
}

// http1 returns the counters that connections of HTTP/1.1 update.
func (m *Meter) http1() server.Meter {
	if m == nil {
		return server.Meter{}
	}
	return server.Meter{BytesRead: m.BytesRead, BytesWritten: m.BytesWritten, Informational: m.Status[0], Flights: &m.flights}
}

// countStatus counts a request by the status of its final response.
func (m *Meter) countStatus(ctx *RequestCtx) {
	class := ctx.Response.StatusCode() / 100
	server.Add(m.Status[min(max(class, 1), len(m.Status))-1], 1)
	if m.Latency != nil {
		m.Latency(ctx, time.Duration(clock.Nanos()-ctx.start))
	}
}

// refused counts a connection beyond a limit, and timedOut a request, if m is not nil.
func (m *Meter) refused() {
	if m != nil {
		server.Add(m.Refused, 1)
	}
}

func (m *Meter) timedOut() {
	if m != nil {
		server.Add(m.TimedOut, 1)
	}
}

// arrived and departed count a connection in and out, if m is not nil; see engine.Hooks.
func (m *Meter) arrived() {
	if m != nil {
		server.Add(m.Accepted, 1)
	}
}

func (m *Meter) departed() {
	if m != nil {
		server.Add(m.Done, 1)
	}
}

// transferred counts bytes of a connection, if m is not nil.
func (m *Meter) transferred(read, written int) {
	if m != nil {
		server.Add(m.BytesRead, read)
		server.Add(m.BytesWritten, written)
	}
}
