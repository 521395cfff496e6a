package shared

import (
	"math/bits"
	"time"
)

// A histogram's buckets: one for each value below 16, and 16 for each power of
// two above, so that a bucket is never wider than a sixteenth of its values.
const (
	histogramBuckets = 61 * 16
	histogramSum     = histogramBuckets // after the buckets, on a separate line
	histogramWords   = histogramBuckets + lineWords
)

// A Histogram counts values by size, for example durations or body sizes. It covers
// all of uint64; a bucket is at most 1/16 of its values wide. Each process has its
// own buckets, 8 KiB. Pages of them that were never used take no memory.
//
// Crash rule: what a process has recorded remains when it dies.
type Histogram struct {
	segment *Segment
	own     []word
	cells   []word
}

// Histogram returns the histogram of that name. Errors: [ErrName], [ErrFull],
// [ErrMismatch], [ErrBusy].
func (s *Segment) Histogram(name string) (*Histogram, error) {
	cells, err := s.open(name, kindHistogram, parameters{}, s.layout.lanes*histogramWords)
	if err != nil {
		return nil, err
	}
	from := s.lane * histogramWords
	return &Histogram{segment: s, own: cells[from : from+histogramWords], cells: cells}, nil
}

// Record counts a value. The program chooses its unit.
func (h *Histogram) Record(value uint64) {
	h.own[bucketOf(value)].Add(1)
	h.own[histogramSum].Add(value)
}

// RecordDuration counts a duration in nanoseconds; a negative one counts as zero.
func (h *Histogram) RecordDuration(d time.Duration) { h.Record(uint64(max(d, 0))) }

// bucketOf returns the bucket for value. Below 16 it is the value itself; above, it
// consists of the position of the highest bit and the next four bits.
func bucketOf(value uint64) int {
	if value < 16 {
		return int(value)
	}
	exponent := bits.Len64(value) - 5
	return (exponent+1)*16 + int(value>>exponent)&15
}

// bucketRange returns the smallest and the greatest value of a bucket.
func bucketRange(bucket int) (low, high uint64) {
	if bucket < 16 {
		return uint64(bucket), uint64(bucket)
	}
	exponent := bucket/16 - 1
	low = uint64(16+bucket%16) << exponent
	return low, low + 1<<exponent - 1
}

// Read replaces the contents of dst with what all processes, including dead ones,
// have recorded. It does not allocate; dst can be reused.
func (h *Histogram) Read(dst *Snapshot) {
	*dst = Snapshot{}
	for lane := range h.segment.lanesInUse() {
		cells := h.cells[lane*histogramWords : (lane+1)*histogramWords]
		for bucket := range dst.buckets {
			n := cells[bucket].Load()
			dst.buckets[bucket] += n
			dst.count += n
		}
		dst.sum += cells[histogramSum].Load()
	}
}

// Snapshot returns a new snapshot, 8 KiB; see [Histogram.Read].
func (h *Histogram) Snapshot() *Snapshot {
	snapshot := new(Snapshot)
	h.Read(snapshot)
	return snapshot
}

// A Snapshot is a copy of a histogram's contents. The zero value is empty. It may
// or may not include values that are recorded while it is taken.
type Snapshot struct {
	buckets [histogramBuckets]uint64
	count   uint64
	sum     uint64
}

// Count returns the number of values.
func (s *Snapshot) Count() uint64 { return s.count }

// Sum returns the exact sum of the values, modulo 2^64.
func (s *Snapshot) Sum() uint64 { return s.sum }

// Mean returns the average; zero if there are no values.
func (s *Snapshot) Mean() float64 {
	if s.count == 0 {
		return 0
	}
	return float64(s.sum) / float64(s.count)
}

// Quantile returns the quantile q, from 0 to 1: the fraction q of the values does
// not exceed it. The result is the middle of a bucket, and differs from the exact
// quantile by at most 1/32 of it. Without values it is zero.
func (s *Snapshot) Quantile(q float64) uint64 {
	if s.count == 0 {
		return 0
	}
	rank := uint64(min(max(q, 0), 1) * float64(s.count))
	rank = min(max(rank, 1), s.count)
	for bucket, n := range s.buckets {
		if n >= rank {
			low, high := bucketRange(bucket)
			return low + (high-low)/2
		}
		rank -= n
	}
	return 0 // not reached: the buckets hold count values
}

// CountAtMost returns how many values are not greater than limit. It also counts
// the greater values in limit's bucket.
func (s *Snapshot) CountAtMost(limit uint64) (n uint64) {
	for _, inBucket := range s.buckets[:bucketOf(limit)+1] {
		n += inBucket
	}
	return n
}

// Merge adds the values of other.
func (s *Snapshot) Merge(other *Snapshot) {
	for bucket, n := range other.buckets {
		s.buckets[bucket] += n
	}
	s.count += other.count
	s.sum += other.sum
}

// Since returns the values that were recorded after earlier, a snapshot of the same histogram.
func (s *Snapshot) Since(earlier *Snapshot) *Snapshot {
	later := &Snapshot{count: s.count - earlier.count, sum: s.sum - earlier.sum}
	for bucket, n := range s.buckets {
		later.buckets[bucket] = n - earlier.buckets[bucket]
	}
	return later
}
