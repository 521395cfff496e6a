package http2

import "sync/atomic"

// gaugeStripes is how many connections can count at the same time without sharing a
// cache line, at best.
const gaugeStripes = 8

// Gauges count what the HTTP/2 connections of a server do. Each connection counts in one
// stripe, so that connections on several processors do not contend for a cache line. The
// zero value is ready.
type Gauges struct {
	stripes [gaugeStripes]gaugeStripe
	next    atomic.Uint32 // the stripe of the next connection
}

// A gaugeStripe is a part of each sum. A part may be negative: a connection that another
// Conn continues may then count in another stripe.
type gaugeStripe struct {
	conns   atomic.Int64
	busy    atomic.Int64 // connections with streams
	streams atomic.Int64
	resets  atomic.Int64
	calmed  atomic.Int64
	_       [24]byte // 64 bytes in all
}

// Sums are the values of Gauges.
type Sums struct {
	Conns   int64 // that are open
	Idle    int64 // of these, the ones without streams
	Streams int64 // that are open
	Resets  int64 // streams that either side has reset
	Calmed  int64 // connections that we have ended with ENHANCE_YOUR_CALM
}

// Sum adds up all stripes. They change meanwhile, so that the values may disagree
// slightly; none is negative.
func (g *Gauges) Sum() Sums {
	var s Sums
	busy := int64(0)
	for i := range g.stripes {
		stripe := &g.stripes[i]
		s.Streams += stripe.streams.Load()
		busy += stripe.busy.Load()
		s.Conns += stripe.conns.Load()
		s.Resets += stripe.resets.Load()
		s.Calmed += stripe.calmed.Load()
	}
	s.Conns, s.Streams = max(s.Conns, 0), max(s.Streams, 0)
	s.Idle = max(s.Conns-max(busy, 0), 0)
	return s
}

// stripe returns the stripe of a new connection.
func (g *Gauges) stripe() *gaugeStripe { return &g.stripes[g.next.Add(1)%gaugeStripes] }

// countStreams counts the streams that were opened and have ended since the last call.
func (c *Conn) countStreams() {
	n := c.streams.count()
	if n == c.counted {
		return
	}
	c.gauge.streams.Add(int64(n - c.counted))
	switch {
	case c.counted == 0:
		c.gauge.busy.Add(1)
	case n == 0:
		c.gauge.busy.Add(-1)
	}
	c.counted = n
}
