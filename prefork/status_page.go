package prefork

import (
	"runtime/metrics"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/shared"
)

// pageInterval is how often a worker writes its page.
const pageInterval = 250 * time.Millisecond

// write updates the worker's page until stop is closed. m may be nil.
func (b *board) write(m *sluice.Meter, stop <-chan struct{}) {
	w := newPageWriter(b.segment, b.page, m)
	defer w.close()
	ticker := time.NewTicker(pageInterval)
	defer ticker.Stop()
	for {
		w.write(pageInterval)
		b.refill()
		b.slow.publish(b.segment, int(b.page.Get(shared.Slot)), time.Now())
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
	}
}

// A pageWriter writes what a process reports about itself, except the counters
// that its server updates. One goroutine uses it. Writing allocates nothing.
type pageWriter struct {
	segment *shared.Segment
	page    *shared.Page
	meter   *sluice.Meter
	usage   usage
	samples [2]metrics.Sample
	last    time.Time // of write
}

func newPageWriter(s *shared.Segment, page *shared.Page, m *sluice.Meter) *pageWriter {
	w := &pageWriter{segment: s, page: page, meter: m}
	w.samples[0].Name = "/sched/goroutines:goroutines"
	w.samples[1].Name = "/gc/cycles/total:gc-cycles"
	w.usage.open()
	return w
}

func (w *pageWriter) close() { w.usage.close() }

// write writes all values. interval is the intended time since the last call, from
// which Lag is calculated.
func (w *pageWriter) write(interval time.Duration) {
	now := time.Now()
	if !w.last.IsZero() {
		w.page.Set(shared.Lag, uint64(max(now.Sub(w.last)-interval, 0)))
	}
	w.last = now
	if w.meter != nil {
		w.writeLoad(now)
	}
	metrics.Read(w.samples[:])
	w.page.Set(shared.Goroutines, w.sample(0))
	w.page.Set(shared.GarbageCollections, w.sample(1))
	w.page.Set(shared.ResidentBytes, w.usage.resident())
	w.page.Set(shared.CPUTime, uint64(w.usage.cpu()))
	w.page.Set(shared.Heartbeat, uint64(w.segment.Now()))
}

// writeLoad writes the server's present load.
func (w *pageWriter) writeLoad(now time.Time) {
	done := w.page.Get(shared.Done) // before Accepted, so that active is not negative
	active := w.page.Get(shared.Accepted) - done
	inFlight := uint64(max(w.meter.InFlight(), 0))
	http2, http3 := w.meter.HTTP2(), w.meter.HTTP3()
	w.page.Set(shared.Active, active)
	w.page.Set(shared.InFlight, inFlight)
	w.page.Set(shared.Idle, idle(active, inFlight, &http2, &http3))
	w.page.Set(shared.HTTP2Connections, uint64(http2.Connections))
	w.page.Set(shared.HTTP2Idle, uint64(http2.Idle))
	w.page.Set(shared.HTTP2Streams, uint64(http2.Streams))
	w.page.Set(shared.HTTP2Resets, http2.Resets)
	w.page.Set(shared.HTTP2Calmed, http2.Calmed)
	w.page.Set(shared.HTTP3Connections, uint64(http3.Connections))
	w.page.Set(shared.HTTP3Idle, uint64(http3.Idle))
	w.page.Set(shared.HTTP3Streams, uint64(http3.Streams))
	w.page.Set(shared.HTTP3Resets, http3.Resets)
	w.page.Set(shared.HTTP3Calmed, http3.Calmed)
	w.page.Set(shared.HTTP3Retries, http3.Retries)
	w.page.Set(shared.HTTP3Refused, http3.Refused)
	w.page.Set(shared.HTTP3Lost, http3.Lost)
	oldest := uint64(0)
	if began := w.meter.Oldest(now); !began.IsZero() {
		oldest = uint64(w.segment.Now() - int64(now.Sub(began)))
	}
	w.page.Set(shared.Oldest, oldest)
	requests := uint64(0)
	for f := shared.Status1xx; f <= shared.Status5xx; f++ {
		requests += w.page.Get(f)
	}
	w.page.Set(shared.Requests, requests)
}

// idle returns how many of the open connections have no request. A connection of
// HTTP/1.1 has one at most.
func idle(active, inFlight uint64, http2 *sluice.HTTP2Stats, http3 *sluice.HTTP3Stats) uint64 {
	others := active - min(uint64(http2.Connections+http3.Connections), active)
	theirs := inFlight - min(uint64(http2.Streams+http3.Streams), inFlight)
	return others - min(theirs, others) + uint64(http2.Idle+http3.Idle)
}

// sample returns a value of package runtime/metrics; zero if the Go version does
// not have it.
func (w *pageWriter) sample(i int) uint64 {
	if w.samples[i].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return w.samples[i].Value.Uint64()
}
