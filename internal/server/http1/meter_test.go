package http1_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/server/http1/http1test"
)

// fullMeter returns a Meter that counts everything.
func fullMeter() *sluice.Meter {
	words := make([]struct {
		word atomic.Uint64
		_    [56]byte
	}, 9)
	m := &sluice.Meter{Accepted: &words[0].word, Done: &words[1].word, BytesRead: &words[2].word, BytesWritten: &words[3].word}
	for i := range m.Status {
		m.Status[i] = &words[4+i].word
	}
	return m
}

// TestEmptyMeter: words that are not there are not counted in.
func TestEmptyMeter(t *testing.T) {
	m := &sluice.Meter{}
	c := newMeteredConn(m)
	for range 3 {
		c.RoundTrip(t, []byte(simpleGet))
	}
	if n := m.Requests(); n != 0 {
		t.Errorf("%d requests without a word for them", n)
	}
}

// newMeteredConn returns a connection of a server with a Meter, or without.
func newMeteredConn(m *sluice.Meter) *http1test.Steady {
	s := &sluice.Server{Handler: plainTextHandler, Logger: silence{}}
	s.Control().Meter = m
	return http1test.OpenSteady(acceptorOf(s), false)
}

func TestMeterDoesNotAllocate(t *testing.T) {
	m := fullMeter()
	c := newMeteredConn(m)
	in := []byte(simpleGet)
	c.RoundTrip(t, in)
	if n := testing.AllocsPerRun(1000, func() { c.RoundTrip(t, in) }); n != 0 && !invariants.Enabled {
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
	conns := [2]*http1test.Steady{newMeteredConn(nil), newMeteredConn(fullMeter())}
	least := [2]time.Duration{time.Hour, time.Hour}
	in := []byte(simpleGet)
	const batch = 200
	for turn := 0; b.Loop(); turn++ {
		for i := range conns {
			which := (i + turn) % 2
			begin := time.Now()
			for range batch {
				conns[which].RoundTrip(b, in)
			}
			least[which] = min(least[which], time.Since(begin))
		}
	}
	b.ReportMetric(float64(least[0].Nanoseconds())/batch, "ns/request-without")
	b.ReportMetric(float64(least[1].Nanoseconds())/batch, "ns/request-with")
}
