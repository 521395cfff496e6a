// Package latency records durations in histograms that processes can hand to
// each other.
package latency

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Recorded durations are kept to three digits, between a nanosecond and an hour, as
// the load generator has them; what lies outside counts as the bound.
const (
	longest = time.Hour
	digits  = 3
)

// A Histogram counts durations. The zero value is empty and ready; its methods
// may be called from any goroutine.
type Histogram struct {
	mu   sync.Mutex
	hist *hdrhistogram.Histogram // nanoseconds; nil: empty
}

// Of returns a Histogram of one in nanoseconds, which it takes over.
func Of(hist *hdrhistogram.Histogram) *Histogram { return &Histogram{hist: hist} }

// counts returns the histogram, which it makes if need be. The lock is held.
func (h *Histogram) counts() *hdrhistogram.Histogram {
	if h.hist == nil {
		h.hist = hdrhistogram.New(1, longest.Nanoseconds(), digits)
	}
	return h.hist
}

// Record adds a duration.
func (h *Histogram) Record(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// Cannot fail: the value is within the bounds.
	_ = h.counts().RecordValue(min(max(d, 1), longest).Nanoseconds())
}

// Add adds what other has counted.
func (h *Histogram) Add(other *Histogram) {
	other.mu.Lock()
	added := other.counts().Clone()
	other.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts().Merge(added)
}

// Count returns how many durations were recorded.
func (h *Histogram) Count() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts().TotalCount()
}

// Percentile returns the duration that so many per cent don't exceed; 100 is
// the longest one.
func (h *Histogram) Percentile(percent float64) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Duration(h.counts().ValueAtPercentile(percent))
}

// MarshalJSON implements json.Marshaler.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	encoded, err := h.counts().Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, err
	}
	return json.Marshal(string(encoded))
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *Histogram) UnmarshalJSON(text []byte) error {
	var encoded string
	if err := json.Unmarshal(text, &encoded); err != nil {
		return err
	}
	hist, err := hdrhistogram.Decode([]byte(encoded))
	if err != nil {
		return fmt.Errorf("histogram: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hist = hist
	return nil
}

// Milliseconds formats a duration for a table: "3.7", "0.042".
func Milliseconds(d time.Duration) string { return Microseconds(float64(d.Microseconds())) }

// Microseconds formats microseconds as Milliseconds does: in milliseconds.
func Microseconds(us float64) string {
	ms := us / 1000
	switch {
	case ms >= 100:
		return fmt.Sprintf("%.0f", ms)
	case ms >= 1:
		return fmt.Sprintf("%.1f", ms)
	default:
		return fmt.Sprintf("%.3f", ms)
	}
}
