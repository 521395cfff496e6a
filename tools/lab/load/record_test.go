package load

import (
	"errors"
	"testing"
	"time"
)

// What recorders count is collected once, by the interval it was recorded in.
func TestCollector(t *testing.T) {
	var told []Progress
	r := &run{Config: Config{Rate: 1, Every: time.Second, Progress: func(p Progress) {
		if p.Latency.TotalCount() != 2 {
			t.Errorf("interval %d has %d latencies", len(told), p.Latency.TotalCount())
		}
		told = append(told, p)
	}}}
	r.recorders = []*recorder{newRecorder(true), newRecorder(true)}
	c := newCollector(r)
	for i := range 3 {
		for k, rec := range r.recorders {
			rec.mu.Lock()
			rec.answered(200+300*k, 0, int64(i+1)*500, int64(i+1)*1000)
			rec.mu.Unlock()
		}
		c.interval(time.Duration(i+1) * time.Second)
	}
	r.recorders[1].failed(Read, errTruncated, 3)
	r.recorders[1].failed(Read, errSurplus, 1)
	c.last(3100 * time.Millisecond)
	result := c.result()
	if len(told) != 3 || told[2].Rate != 2 || told[2].Elapsed != 3*time.Second {
		t.Errorf("told %+v", told)
	}
	if result.Answered != 6 || result.StatusClass(2) != 3 || result.StatusClass(5) != 3 || result.Status[500] != 3 {
		t.Errorf("%d responses, %d + %d", result.Answered, result.StatusClass(2), result.StatusClass(5))
	}
	if result.ErrorSum() != 4 || result.Errors[Read] != 4 || !errors.Is(result.Examples[Read], errTruncated) || result.Examples[Write] != nil {
		t.Errorf("errors %v, %v", result.Errors, result.Examples)
	}
	if n, longest := result.Latency.TotalCount(), result.Latency.Max(); n != 6 || longest < 3000 || longest > 3010 {
		t.Errorf("%d latencies up to %d", n, longest)
	}
	if n, longest := result.Service.TotalCount(), result.Service.Max(); n != 6 || longest < 1500 || longest > 1505 {
		t.Errorf("%d service times up to %d", n, longest)
	}
	if len(result.Rates) != 3 || result.Elapsed != 3100*time.Millisecond {
		t.Errorf("rates %v in %v", result.Rates, result.Elapsed)
	}
}

func TestRecordBounds(t *testing.T) {
	h := newHistogram()
	for _, d := range []int64{-5, 0, 1, int64(2 * longest)} {
		record(h, d)
	}
	if h.TotalCount() != 4 || h.Min() != 1 || h.Max() < int64(longest) {
		t.Errorf("%d from %d to %d", h.TotalCount(), h.Min(), h.Max())
	}
}

func TestBegin(t *testing.T) {
	r := &run{Config: Config{Requests: 10}, spent: make(chan struct{})}
	r.left.Store(10)
	var got []int
	for range 5 {
		got = append(got, r.begin(4))
	}
	if got[0] != 4 || got[1] != 4 || got[2] != 2 || got[3] != 0 || got[4] != 0 {
		t.Errorf("begun %v", got)
	}
	select {
	case <-r.spent:
	default:
		t.Error("nobody is told that there are none left")
	}
}
