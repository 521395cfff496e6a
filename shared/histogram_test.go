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

// For values with a bucket of their own, quantiles are exact.
func TestExactQuantiles(t *testing.T) {
	h := Must(newLocal(t).Histogram("h"))
	for value := uint64(1); value <= 10; value++ {
		h.Record(value)
	}
	s := h.Snapshot()
	for _, c := range []struct {
		q    float64
		want uint64
	}{{-1, 1}, {0, 1}, {0.05, 1}, {0.1, 1}, {0.19, 1}, {0.2, 2}, {0.5, 5}, {0.9, 9}, {0.99, 9}, {1, 10}, {2, 10}} {
		if got := s.Quantile(c.q); got != c.want {
			t.Errorf("quantile %g is %d, want %d", c.q, got, c.want)
		}
	}
	for limit, want := range []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10} {
		if got := s.CountAtMost(uint64(limit)); got != want {
			t.Errorf("%d values are at most %d, want %d", got, limit, want)
		}
	}
}

// A quantile is the middle of its bucket: no value in the bucket differs from it by
// more than 1/32.
func TestQuantileIsTheMiddle(t *testing.T) {
	for _, bucket := range []int{16, 17, 31, 32, 100, 500, histogramBuckets - 1} {
		low, high := bucketRange(bucket)
		for _, value := range []uint64{low, high} {
			h := Must(newLocal(t).Histogram("h"))
			h.Record(value)
			got := h.Snapshot().Quantile(0.5)
			if got < low || got > high || (got-low)-(high-got)+1 > 1 || float64(max(got, value)-min(got, value)) > float64(value)/32+0.5 {
				t.Errorf("the median of %d alone is %d", value, got)
			}
		}
	}
}

// A merge has the same result as recording everything in one histogram.
func TestMerge(t *testing.T) {
	s := newLocal(t)
	one, other, both := Must(s.Histogram("one")), Must(s.Histogram("other")), Must(s.Histogram("both"))
	for i := range uint64(2000) {
		half := one
		if i%3 == 0 {
			half = other
		}
		half.Record(i * i)
		both.Record(i * i)
	}
	merged, right := one.Snapshot(), other.Snapshot()
	merged.Merge(right)
	if *merged != *both.Snapshot() {
		t.Errorf("merged: %d values with sum %d, want %d with %d", merged.Count(), merged.Sum(), both.Snapshot().Count(), both.Snapshot().Sum())
	}
	if *right != *other.Snapshot() {
		t.Error("Merge changed what was merged")
	}
	merged.Merge(new(Snapshot))
	if *merged != *both.Snapshot() {
		t.Error("an empty snapshot changes something")
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

// What was recorded since an earlier snapshot is a snapshot, too.
func TestSnapshotSince(t *testing.T) {
	h := Must(Must(New(Options{Local: true})).Histogram("h"))
	h.Record(5)
	h.Record(1000)
	earlier := h.Snapshot()
	if s := h.Snapshot().Since(earlier); s.Count() != 0 || s.Sum() != 0 || s.Quantile(1) != 0 {
		t.Errorf("nothing new: %d values, %d", s.Count(), s.Sum())
	}
	h.Record(7)
	h.Record(7)
	if s := h.Snapshot().Since(earlier); s.Count() != 2 || s.Sum() != 14 || s.Quantile(0) != 7 || s.Quantile(1) != 7 {
		t.Errorf("%d values, %d, from %d to %d", s.Count(), s.Sum(), s.Quantile(0), s.Quantile(1))
	}
}
