package metrics

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicehttp/sluice/shared"
)

const (
	// prefix is the prefix of a Collector's metrics.
	prefix = "sluice_"
	// nanosecond is the scale of durations, in seconds.
	nanosecond = 1e-9
)

// A Histogram configures how Values exports a histogram of package shared.
type Histogram struct {
	// Bounds are the upper bounds of the buckets in the metric's unit, in ascending
	// order. They are exact to 1/16. Nil: prometheus.DefBuckets for names that end in
	// "_seconds", otherwise powers of 4 from 1 to 4^15.
	Bounds []float64
	// Scale is the factor for recorded values. Zero: 1e-9, for RecordDuration, if the
	// name ends in "_seconds", otherwise 1.
	Scale float64
}

// Values is a prometheus.Collector for the counters, gauges and histograms that a
// program has in a shared segment at the time of the request.
//
// A metric has the value's name, with "_" in place of characters that a metric's name
// may not have. A counter's name gets the suffix "_total". Of values with the same
// metric name only the first is exported. Names that begin with "sluice_" are not
// exported, because they belong to a Collector.
type Values struct {
	// Segment holds the values; shared.Default() if nil.
	Segment *shared.Segment
	// Prefix is put before the names. It must be valid in a metric's name.
	Prefix string
	// Help has the metrics' help texts by the values' names in the segment. The
	// default says what kind of value it is.
	Help map[string]string
	// Histograms has the histograms' settings by their names in the segment.
	Histograms map[string]Histogram
}

// Describe sends nothing, because the metrics are not known in advance.
func (v *Values) Describe(chan<- *prometheus.Desc) {}

// Collect sends the values, each for all processes together.
func (v *Values) Collect(to chan<- prometheus.Metric) {
	s := v.Segment
	if s == nil {
		s = shared.Default()
	}
	seen := make(map[string]bool)
	for _, e := range s.Entries() {
		if e.Type != "Counter" && e.Type != "Gauge" && e.Type != "Histogram" {
			continue
		}
		name := v.Prefix + metricName(e.Name)
		if e.Type == "Counter" && !strings.HasSuffix(name, "_total") {
			name += "_total"
		}
		if seen[name] || strings.HasPrefix(name, prefix) {
			continue
		}
		seen[name] = true
		help := v.Help[e.Name]
		if help == "" {
			help = fmt.Sprintf("The shared %s %q.", strings.ToLower(e.Type), e.Name)
		}
		m, err := v.metric(s, e, prometheus.NewDesc(name, help, nil, nil))
		if err != nil {
			m = prometheus.NewInvalidMetric(prometheus.NewDesc(name, help, nil, nil), err)
		}
		to <- m
	}
}

// metric reads a value and returns its metric.
func (v *Values) metric(s *shared.Segment, e shared.Entry, d *prometheus.Desc) (prometheus.Metric, error) {
	switch e.Type {
	case "Counter":
		c, err := s.Counter(e.Name)
		if err != nil {
			return nil, err
		}
		return prometheus.NewConstMetric(d, prometheus.CounterValue, float64(c.Value()))
	case "Gauge":
		g, err := s.Gauge(e.Name)
		if err != nil {
			return nil, err
		}
		return prometheus.NewConstMetric(d, prometheus.GaugeValue, float64(g.Value()))
	}
	h, err := s.Histogram(e.Name)
	if err != nil {
		return nil, err
	}
	return v.histogram(e.Name, h.Snapshot(), d)
}

// histogram returns a histogram in Prometheus's form: each bucket counts the values
// up to its bound.
func (v *Values) histogram(name string, s *shared.Snapshot, d *prometheus.Desc) (prometheus.Metric, error) {
	o := v.Histograms[name]
	isDuration := strings.HasSuffix(metricName(name), "_seconds")
	if o.Scale == 0 {
		o.Scale = 1
		if isDuration {
			o.Scale = nanosecond
		}
	}
	if o.Bounds == nil && isDuration {
		o.Bounds = prometheus.DefBuckets
	} else if o.Bounds == nil {
		o.Bounds = prometheus.ExponentialBuckets(1, 4, 16)
	}
	if o.Scale < 0 || !slices.IsSorted(o.Bounds) {
		return nil, fmt.Errorf("metrics: the scale of histogram %q is negative, or its bounds are not in order", name)
	}
	return o.metric(s, d)
}

// metric returns s in Prometheus's form. All fields are set.
func (o Histogram) metric(s *shared.Snapshot, d *prometheus.Desc) (prometheus.Metric, error) {
	buckets := make(map[float64]uint64, len(o.Bounds))
	for _, bound := range o.Bounds {
		if bound >= 0 {
			buckets[bound] = s.CountAtMost(toValue(bound / o.Scale))
		} else {
			buckets[bound] = 0
		}
	}
	return prometheus.NewConstHistogram(d, s.Count(), float64(s.Sum())*o.Scale, buckets)
}

// toValue returns the greatest recorded value that is not greater than bound. bound
// may have a rounding error.
func toValue(bound float64) uint64 {
	const greatest = 1 << 63
	if bound >= greatest {
		return greatest
	}
	return uint64(bound + bound*1e-12)
}

// metricName replaces the characters that a metric's name may not have.
func metricName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == ':' {
			return r
		}
		return '_'
	}, name)
	if name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name
}
