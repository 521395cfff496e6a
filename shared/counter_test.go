package shared

import (
	"bufio"
	"sync"
	"testing"
)

func countRole(s *Segment, in *bufio.Scanner) {
	counter, gauge := Must(s.Counter("count")), Must(s.Gauge("gauge"))
	histogram := Must(s.Histogram("histogram"))
	say("ready")
	hear(in)
	for i := range 250_000 {
		counter.Inc()
		if i%250 == 0 {
			histogram.Record(uint64(i))
			gauge.Inc()
		}
	}
	gauge.Add(-500)
	say("done")
	hear(in)
}

// 4 processes × 250,000 make exactly a million. The counter keeps it after the
// processes were killed, and the gauge goes to zero.
func TestCountOverProcesses(t *testing.T) {
	s := newShared(t, 5)
	counter, gauge, histogram := Must(s.Counter("count")), Must(s.Gauge("gauge")), Must(s.Histogram("histogram"))
	gauge.Set(3)
	workers := startProcesses(t, s, "count", 4)
	for _, w := range workers {
		w.send("go")
	}
	last := uint64(0)
	for counter.Value() < 1_000_000 {
		n := counter.Value()
		if n < last {
			t.Fatalf("the counter went from %d down to %d", last, n)
		}
		last = n
		s.page(0)[Probe].Add(1) // another write at the same time
	}
	for _, w := range workers {
		w.expect("done")
	}
	for i, w := range workers {
		if n := gauge.Value(); n != int64(3+500*(4-i)) {
			t.Errorf("the gauge is %d with %d processes", n, 4-i)
		}
		w.kill()
	}
	if n := counter.Value(); n != 1_000_000 {
		t.Errorf("the counter is %d", n)
	}
	if n := histogram.Snapshot().Count(); n != 4000 {
		t.Errorf("the histogram has %d values", n)
	}
	next := startProcesses(t, s, "count", 4) // in the places of the dead processes
	next[0].kill()
	if n, g := counter.Value(), gauge.Value(); n != 1_000_000 || g != 3 {
		t.Errorf("with new processes the counter is %d, the gauge %d", n, g)
	}
}

func TestCounterInOneProcess(t *testing.T) {
	s := newLocal(t)
	counter := Must(s.Counter("count"))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10_000 {
				counter.Add(2)
			}
		})
	}
	all.Wait()
	if n := Must(s.Counter("count")).Value(); n != 160_000 {
		t.Errorf("the counter is %d", n)
	}
}

func TestGauge(t *testing.T) {
	s := newLocal(t)
	other := attachAgain(t, s, 999_999_999)
	mine, theirs := Must(s.Gauge("g")), Must(other.Gauge("g"))
	mine.Inc()
	mine.Dec()
	mine.Dec()
	theirs.Set(10)
	theirs.Add(-3)
	if mine.Own() != -1 || theirs.Own() != 7 || mine.Value() != 6 {
		t.Errorf("%d + %d = %d", mine.Own(), theirs.Own(), mine.Value())
	}
	s.Reap(999_999_999)
	if mine.Value() != -1 {
		t.Errorf("after the other has died: %d", mine.Value())
	}
}
