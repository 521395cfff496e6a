package result

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// MergeLatencies returns the distribution of the HDR histograms of clients, which
// count microseconds.
func MergeLatencies(texts [][]byte) (Latency, error) {
	var all *hdrhistogram.Histogram
	for _, text := range texts {
		h, err := hdrhistogram.Decode(text)
		if err != nil {
			return Latency{}, fmt.Errorf("cannot read a client's histogram: %w", err)
		}
		if all == nil {
			all = h
		} else if dropped := all.Merge(h); dropped > 0 {
			return Latency{}, fmt.Errorf("%d values of a client's histogram do not fit", dropped)
		}
	}
	if all == nil || all.TotalCount() == 0 {
		return Latency{}, nil
	}
	at := func(percentile float64) time.Duration {
		return time.Duration(all.ValueAtPercentile(percentile)) * time.Microsecond
	}
	l := Latency{
		Mean: time.Duration(all.Mean() * float64(time.Microsecond)),
		P50:  at(50), P90: at(90), P99: at(99), P999: at(99.9),
		Max: time.Duration(all.Max()) * time.Microsecond,
	}
	for _, p := range curvePercentiles(all.TotalCount()) {
		l.Curve = append(l.Curve, Point{Percentile: p, Latency: at(p)})
	}
	text, err := all.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	l.Histogram = string(text)
	return l, err
}

// curvePercentiles returns the percentiles of a curve: as close to 100 as so many
// values go.
func curvePercentiles(count int64) []float64 {
	var all []float64
	for p := 0.0; p < 90; p += 5 {
		all = append(all, p)
	}
	for rest := 10.0; float64(count)*rest/100 >= 1 && rest > 1e-4; rest /= 10 {
		for _, part := range []float64{1, 0.7, 0.5, 0.3, 0.2} {
			all = append(all, 100-rest*part)
		}
	}
	return append(all, 100)
}
