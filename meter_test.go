package sluice

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/invariants"
)

// fullMeter returns a Meter that counts everything.
func fullMeter() *Meter {
	words := make([]struct {
		word atomic.Uint64
		_    [56]byte
	}, 9)
	m := &Meter{Accepted: &words[0].word, Done: &words[1].word, BytesRead: &words[2].word, BytesWritten: &words[3].word}
	for i := range m.Status {
		m.Status[i] = &words[4+i].word
	}
	return m
}

// TestEmptyMeter: words that are not there are not counted in.
func TestEmptyMeter(t *testing.T) {
	c := newMeteredConn(&Meter{})
	for range 3 {
		c.roundTrip(t, []byte(simpleGet))
	}
	if n := c.server().control.Meter.Requests(); n != 0 {
		t.Errorf("%d requests without a word for them", n)
	}
	m := fullMeter()
	for status, want := range map[int]int{0: 0, 99: 0, 101: 0, 200: 1, 599: 4, 999: 4} {
		before := m.Status[want].Load()
		m.countStatus(status)
		if m.Status[want].Load() != before+1 {
			t.Errorf("status %d does not count in class %d", status, want+1)
		}
	}
}

// newMeteredConn is newSteadyConn with a Meter, or without.
func newMeteredConn(m *Meter) *steadyConn {
	c := &steadyConn{buffer: make([]byte, 0, 64<<10)}
	s := &Server{Handler: plainTextHandler, Logger: silence{}}
	s.control.Meter = m
	c.protocol = c.open(s)
	return c
}

func (c *steadyConn) server() *Server { return c.acceptor.server }

func TestMeterDoesNotAllocate(t *testing.T) {
	m := fullMeter()
	c := newMeteredConn(m)
	in := []byte(simpleGet)
	c.roundTrip(t, in)
	if n := testing.AllocsPerRun(1000, func() { c.roundTrip(t, in) }); n != 0 && !invariants.Enabled {
		t.Errorf("%v allocations", n)
	}
	if m.Requests() < 1000 || m.InFlight() != 0 {
		t.Errorf("%d requests, %d in flight", m.Requests(), m.InFlight())
	}
}

// BenchmarkServerMeter is what a Meter adds to a request that costs nothing
// else: both kinds take turns, and the quickest turns count, so that the noise of
// a busy machine hits neither.
func BenchmarkServerMeter(b *testing.B) {
	conns := [2]*steadyConn{newMeteredConn(nil), newMeteredConn(fullMeter())}
	least := [2]time.Duration{time.Hour, time.Hour}
	in := []byte(simpleGet)
	const batch = 200
	for turn := 0; b.Loop(); turn++ {
		for i := range conns {
			which := (i + turn) % 2
			begin := time.Now()
			for range batch {
				conns[which].roundTrip(b, in)
			}
			least[which] = min(least[which], time.Since(begin))
		}
	}
	b.ReportMetric(float64(least[0].Nanoseconds())/batch, "ns/request-without")
	b.ReportMetric(float64(least[1].Nanoseconds())/batch, "ns/request-with")
}
