package shared

import (
	"math/bits"
	"time"
)

// A histogram's buckets: one for each value below 16, and 16 for each power of
// two above, so that a bucket is never wider than a sixteenth of its values.
const (
	histogramBuckets = 61 * 16
	histogramSum     = histogramBuckets // behind the buckets, on its own line
	histogramWords   = histogramBuckets + lineWords
)

// A Histogram counts values by size: durations, sizes of bodies. It covers all of
// uint64 with an error of at most 1/16 of the value. Each process has buckets of
// its own, 8 KiB, of which only those take memory that are used.
//
// Crash rule: what a process has recorded stays when it dies.
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

// Record counts a value, in a unit of the program's choice.
func (h *Histogram) Record(value uint64) {
	h.own[bucketOf(value)].Add(1)
	h.own[histogramSum].Add(value)
}

// RecordDuration counts a duration in nanoseconds; a negative one counts as zero.
func (h *Histogram) RecordDuration(d time.Duration) { h.Record(uint64(max(d, 0))) }

// bucketOf returns the bucket for value: below 16 itself, above that the position
// of the highest bit and the four bits behind it.
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

// Read replaces dst by what all processes, dead ones too, have recorded. It needs
// no memory, so dst can be used again and again.
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

// A Snapshot is what a histogram held at a moment. The zero value is empty.
// Values that are recorded while it is taken may be in it or not.
type Snapshot struct {
	buckets [histogramBuckets]uint64
	count   uint64
	sum     uint64
}

// Count returns how many values there are.
func (s *Snapshot) Count() uint64 { return s.count }

// Sum returns the exact sum of the values, modulo 2^64.
func (s *Snapshot) Sum() uint64 { return s.sum }

// Mean returns the average, zero if there is none.
func (s *Snapshot) Mean() float64 {
	if s.count == 0 {
		return 0
	}
	return float64(s.sum) / float64(s.count)
}

// Quantile returns a value that about the part q of the values, from 0 to 1, does
// not exceed: the middle of the bucket in which it lies, at most 1/32 away from
// the true one. Without values it returns zero.
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

// CountAtMost returns how many values are not greater than limit, taking values
// of limit's own bucket for not greater.
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
