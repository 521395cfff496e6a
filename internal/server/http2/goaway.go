package http2

import (
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// A connection ends gracefully in two steps (RFC 9113 section 6.8). The first GOAWAY
// names no last stream, and a PING follows. When it is acknowledged, all requests that
// the peer sent before it knew have arrived, and the second GOAWAY names the last one.

// drainTime is how long the peer has for the PING.
const drainTime = time.Second

// drainPing is the data of that PING.
var drainPing = [8]byte{'s', 'l', 'u', 'i', 'c', 'e', 'g', 'o'}

// firstTime is how long a new connection has for its first request when the server ends. The
// peer has opened it for that request. It may not look at GOAWAY before it sends the request,
// and some clients take the end of a connection that has carried none for a failure that must
// not be repeated.
const firstTime = 2 * time.Second

// leave begins the graceful end because the server ends. A connection without a request gets
// GOAWAY with its first one, or after firstTime. In Shutdown it gets GOAWAY at once.
func (c *Conn) leave(now int64) {
	if !c.awaitsFirst(now) || c.host.Stage() == server.StageShutDown {
		c.warn()
	} else if c.phase == phaseOpen {
		c.phase = phaseAwaiting
	}
}

// awaitsFirst reports whether the connection is new and has made no request.
func (c *Conn) awaitsFirst(now int64) bool { return c.firstDue != 0 && c.firstDue > now }

// warn begins the graceful end.
func (c *Conn) warn() {
	if c.phase > phaseAwaiting {
		return
	}
	c.phase = phaseWarned
	c.out = h2.AppendGoAway(c.out, h2.MaxStream, h2.CodeNoError, "")
	c.out = h2.AppendPing(c.out, drainPing, false)
	c.drainDue = clock.Nanos() + int64(drainTime)
}

// drain makes the newest stream the last one.
func (c *Conn) drain() {
	c.drainDue, c.idleDue, c.sleepDue = 0, 0, 0
	if c.phase >= phaseDraining {
		return
	}
	c.phase = phaseDraining
	c.out = h2.AppendGoAway(c.out, c.last, h2.CodeNoError, "")
}

// isDone reports whether the connection is to be closed.
func (c *Conn) isDone() bool {
	return c.phase >= phaseCut || c.phase == phaseDraining && c.streams.count() == 0
}

// cutTunnels resets the tunnels of a connection that ends, when nothing else is left and
// the Host wants it.
func (c *Conn) cutTunnels() {
	if c.phase != phaseDraining || c.tunnels == 0 || c.streams.count() > c.tunnels || c.host.Stage() != server.StageShutDown {
		return
	}
	c.phase = phaseCut
	for s := range c.streams.each() {
		c.resetAfter(s, h2.CodeCancel)
	}
}

// EndAfter ends the connection after the requests that have arrived. It may be called
// on any goroutine.
func (s *Stream) EndAfter() {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	c.warn()
	c.prompter.Prompt()
}

func (c *Conn) pingAcked(data [8]byte, now int64) {
	switch data {
	case h2.RoundTripPing:
		c.growth.RoundTrip.End(now)
	case drainPing:
		switch {
		case c.phase != phaseWarned:
		case c.awaitsFirst(now):
			c.drainDue = min(c.drainDue, c.firstDue)
		default:
			c.drain()
		}
	}
}
