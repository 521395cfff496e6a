package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sluicehttp/sluice/shared"
)

// someValues returns a segment with values of all kinds.
func someValues() *shared.Segment {
	s := shared.Must(shared.New(shared.Options{Local: true}))
	shared.Must(s.Counter("hits")).Add(3)
	shared.Must(s.Counter("bytes_total")).Add(4)
	shared.Must(s.Counter("bytes")).Add(100)          // the same metric name: not exported
	shared.Must(s.Counter("sluice_requests")).Add(99) // belongs to the Collector
	shared.Must(s.Gauge("jobs in the queue")).Set(-5)
	shared.Must(s.Gauge("9lives")).Set(9)
	shared.Must(s.Flag("maintenance")).Set(true)
	shared.Must(s.Config("settings", 10))
	durations := shared.Must(s.Histogram("job_duration_seconds"))
	durations.RecordDuration(time.Second)
	durations.RecordDuration(4 * time.Millisecond)
	sizes := shared.Must(s.Histogram("size"))
	for _, n := range []uint64{0, 1, 4, 15, 1 << 40} {
		sizes.Record(n)
	}
	percent := shared.Must(s.Histogram("share"))
	percent.Record(250)
	return s
}

func TestValues(t *testing.T) {
	s := someValues()
	const want = `
# HELP _9lives The shared gauge "9lives".
# TYPE _9lives gauge
_9lives 9
# HELP bytes_total The shared counter "bytes_total".
# TYPE bytes_total counter
bytes_total 4
# HELP hits_total How often.
# TYPE hits_total counter
hits_total 3
# HELP job_duration_seconds The shared histogram "job_duration_seconds".
# TYPE job_duration_seconds histogram
job_duration_seconds_bucket{le="0.005"} 1
job_duration_seconds_bucket{le="0.01"} 1
job_duration_seconds_bucket{le="0.025"} 1
job_duration_seconds_bucket{le="0.05"} 1
job_duration_seconds_bucket{le="0.1"} 1
job_duration_seconds_bucket{le="0.25"} 1
job_duration_seconds_bucket{le="0.5"} 1
job_duration_seconds_bucket{le="1"} 2
job_duration_seconds_bucket{le="2.5"} 2
job_duration_seconds_bucket{le="5"} 2
job_duration_seconds_bucket{le="10"} 2
job_duration_seconds_bucket{le="+Inf"} 2
job_duration_seconds_sum 1.004
job_duration_seconds_count 2
# HELP jobs_in_the_queue The shared gauge "jobs in the queue".
# TYPE jobs_in_the_queue gauge
jobs_in_the_queue -5
# HELP share The shared histogram "share".
# TYPE share histogram
share_bucket{le="-1"} 0
share_bucket{le="0.5"} 0
share_bucket{le="1e+30"} 1
share_bucket{le="+Inf"} 1
share_sum 2.5
share_count 1
`
	v := &Values{Segment: s, Help: map[string]string{"hits": "How often."}, Histograms: map[string]Histogram{
		"share": {Bounds: []float64{-1, 0.5, 1e30}, Scale: 0.01},
	}}
	if err := testutil.CollectAndCompare(v, strings.NewReader(want), "_9lives", "bytes_total", "hits_total", "job_duration_seconds", "jobs_in_the_queue", "share"); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(v); n != 7 {
		t.Errorf("%d metrics", n)
	}
	problems, err := testutil.CollectAndLint(v)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	prefixed := &Values{Segment: s, Prefix: "app_"}
	if n := testutil.CollectAndCount(prefixed, "app_hits_total", "app_size"); n != 2 {
		t.Errorf("%d metrics", n)
	}
}

// The default buckets of a histogram are as exact as possible.
func TestDefaultBounds(t *testing.T) {
	s := shared.Must(shared.New(shared.Options{Local: true}))
	sizes := shared.Must(s.Histogram("size"))
	for _, n := range []uint64{0, 1, 2, 4, 5, 64, 70, 1 << 40} {
		sizes.Record(n)
	}
	const want = `
# HELP size The shared histogram "size".
# TYPE size histogram
size_bucket{le="1"} 2
size_bucket{le="4"} 4
size_bucket{le="16"} 5
size_bucket{le="64"} 6
size_bucket{le="256"} 7
size_bucket{le="1024"} 7
size_bucket{le="4096"} 7
size_bucket{le="16384"} 7
size_bucket{le="65536"} 7
size_bucket{le="262144"} 7
size_bucket{le="1.048576e+06"} 7
size_bucket{le="4.194304e+06"} 7
size_bucket{le="1.6777216e+07"} 7
size_bucket{le="6.7108864e+07"} 7
size_bucket{le="2.68435456e+08"} 7
size_bucket{le="1.073741824e+09"} 7
size_bucket{le="+Inf"} 8
size_sum 1.099511627922e+12
size_count 8
`
	if err := testutil.CollectAndCompare(&Values{Segment: s}, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// Invalid settings are an error of that metric.
func TestBadHistogram(t *testing.T) {
	s := shared.Must(shared.New(shared.Options{Local: true}))
	shared.Must(s.Histogram("size")).Record(1)
	for _, h := range []Histogram{{Bounds: []float64{2, 1}}, {Scale: -1}} {
		v := &Values{Segment: s, Histograms: map[string]Histogram{"size": h}}
		if _, err := testutil.CollectAndLint(v); err == nil {
			t.Errorf("%+v: no error", h)
		}
	}
}
