package prefork

import (
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/shared"
)

// Names in the segment. contrib/metrics does not export values whose names begin with
// sluice_ under these, because its Collector does.
const (
	refusedName  = "sluice_refused"
	timedOutName = "sluice_timed_out"
	latencyName  = "sluice_latency"
)

// newMeter returns a meter that counts on this process's page of the scoreboard, and in
// values of the segment, as far as there is room for them. slow gets the slow requests.
func newMeter(s *shared.Segment, slow *slowList) *sluice.Meter {
	page := s.Page()
	m := &sluice.Meter{
		Accepted:     page.Word(shared.Accepted),
		Done:         page.Word(shared.Done),
		BytesRead:    page.Word(shared.BytesRead),
		BytesWritten: page.Word(shared.BytesWritten),
	}
	for i := range m.Status {
		m.Status[i] = page.Word(shared.Status1xx + shared.Field(i))
	}
	if c, err := s.Counter(refusedName); err == nil {
		m.Refused = c.Word()
	}
	if c, err := s.Counter(timedOutName); err == nil {
		m.TimedOut = c.Word()
	}
	if h, err := s.Histogram(latencyName); err == nil {
		m.Latency = func(ctx *sluice.RequestCtx, took time.Duration) {
			h.RecordDuration(took)
			slow.record(ctx, took)
		}
	}
	return m
}

// latencyOf returns what all processes have measured; an empty snapshot if there is no room.
func latencyOf(s *shared.Segment) *shared.Snapshot {
	if h, err := s.Histogram(latencyName); err == nil {
		return h.Snapshot()
	}
	return new(shared.Snapshot)
}

// countOf returns the value of a counter; 0 if there is no room for it.
func countOf(s *shared.Segment, name string) uint64 {
	if c, err := s.Counter(name); err == nil {
		return c.Value()
	}
	return 0
}

// A LatencyStatus has quantiles of the latencies of requests, as Meter.Latency of package
// sluice measures them, since the start and over all processes. They are exact to 3 %, and
// zero without requests.
type LatencyStatus struct {
	// P50 is the median.
	P50 time.Duration `json:"p50_ns"`
	// P90 is what one request of ten exceeded.
	P90 time.Duration `json:"p90_ns"`
	// P99 is what one request of a hundred exceeded.
	P99 time.Duration `json:"p99_ns"`
	// P999 is what one request of a thousand exceeded.
	P999 time.Duration `json:"p999_ns"`
}

func latencyStatus(s *shared.Snapshot) LatencyStatus {
	at := func(q float64) time.Duration { return time.Duration(s.Quantile(q)) }
	return LatencyStatus{at(0.5), at(0.9), at(0.99), at(0.999)}
}
