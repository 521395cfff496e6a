package shared

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBuckets(t *testing.T) {
	next := uint64(0)
	for bucket := range histogramBuckets {
		low, high := bucketRange(bucket)
		if low != next || high < low || bucketOf(low) != bucket || bucketOf(high) != bucket {
			t.Fatalf("bucket %d has %d to %d: next is %d, they are in %d and %d", bucket, low, high, next, bucketOf(low), bucketOf(high))
		}
		if high-low > low/16 {
			t.Fatalf("bucket %d from %d is %d wide", bucket, low, high-low+1)
		}
		next = high + 1
	}
	if next != 0 {
		t.Errorf("the buckets end at %d", next)
	}
}

func TestQuantiles(t *testing.T) {
	s := newLocal(t)
	h := Must(s.Histogram("h"))
	empty := h.Snapshot()
	if empty.Quantile(0.5) != 0 || empty.Mean() != 0 {
		t.Error("an empty histogram has values")
	}
	random := rand.New(rand.NewPCG(1, 2))
	values := make([]uint64, 10_000)
	sum := uint64(0)
	for i := range values {
		values[i] = uint64(math.Exp(random.Float64() * 20))
		sum += values[i]
		h.Record(values[i])
	}
	slices.Sort(values)
	snapshot := h.Snapshot()
	if snapshot.Count() != 10_000 || snapshot.Sum() != sum || snapshot.Mean() != float64(sum)/10_000 {
		t.Errorf("count %d, sum %d, mean %f", snapshot.Count(), snapshot.Sum(), snapshot.Mean())
	}
	for _, q := range []float64{-1, 0, 0.01, 0.5, 0.9, 0.99, 0.999, 1, 2} {
		rank := min(max(int(min(max(q, 0), 1)*10_000), 1), 10_000)
		want := float64(values[rank-1])
		if got := float64(snapshot.Quantile(q)); math.Abs(got-want) > want/32+1 {
			t.Errorf("quantile %g is %g, want about %g", q, got, want)
		}
	}
	if n := snapshot.CountAtMost(math.MaxUint64); n != 10_000 {
		t.Errorf("%d values at most", n)
	}
	if n, want := snapshot.CountAtMost(values[4999]), 5000; math.Abs(float64(n)-float64(want)) > 200 {
		t.Errorf("%d values not above the median", n)
	}
	both := new(Snapshot)
	both.Merge(snapshot)
	both.Merge(snapshot)
	if both.Count() != 20_000 || both.Quantile(0.5) != snapshot.Quantile(0.5) {
		t.Errorf("merged: %d, median %d", both.Count(), both.Quantile(0.5))
	}
}

func TestRecordDuration(t *testing.T) {
	h := Must(newLocal(t).Histogram("h"))
	h.RecordDuration(time.Second)
	h.RecordDuration(-time.Second)
	if s := h.Snapshot(); s.Count() != 2 || s.Sum() != 1e9 || s.Quantile(0) != 0 {
		t.Errorf("count %d, sum %d, least %d", s.Count(), s.Sum(), s.Quantile(0))
	}
}
