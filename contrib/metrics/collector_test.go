package metrics

import (
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/shared"
)

// someStatus returns a status with all its parts, and two processes in slot 1.
func someStatus() prefork.Status {
	worker := func(slot, pid int, phase string) prefork.WorkerStatus {
		return prefork.WorkerStatus{
			Slot: slot, Generation: 2, Phase: phase, Version: 3,
			ProcessStatus: prefork.ProcessStatus{PID: pid, Started: time.Unix(1000, 500e6), ResidentBytes: 1 << 20, CPUTime: 1500 * time.Millisecond},
			Load: prefork.Load{Accepted: 30, Active: 20, Idle: 15, InFlight: 5, OldestRequest: 2 * time.Second, Requests: 40,
				HTTP2: sluice.HTTP2Stats{Connections: 7, Idle: 4, Streams: 9}, HTTP3: sluice.HTTP3Stats{Connections: 3, Idle: 2, Streams: 5}},
		}
	}
	return prefork.Status{
		Wanted: 2, Rolling: true, Crashes: 3, Hangs: 1, Restarts: 4, RestartsFailed: 2, LogDropped: 17, Refused: 31, TimedOut: 32,
		Master: prefork.ProcessStatus{PID: 10, Goroutines: 6},
		Total: prefork.Load{Accepted: 100, Done: 60, Cut: 8, Responses: [5]uint64{0, 70, 2, 5, 1}, BytesRead: 1000, BytesWritten: 2000, HTTP2: sluice.HTTP2Stats{Resets: 21, Calmed: 2},
			HTTP3: sluice.HTTP3Stats{Resets: 31, Calmed: 32, Retries: 33, Refused: 34, Lost: 35}},
		Slots:   []prefork.SlotStatus{{Slot: 0, Queue: 9}, {Slot: 1, Restarts: 7, Crashes: 3, Hangs: 1}},
		Workers: []prefork.WorkerStatus{worker(0, 11, "ready"), worker(1, 12, "draining"), worker(1, 13, "ready"), worker(1, 0, "spawned")},
	}
}

// busy is a Source.
type busy struct{}

// Status has four requests: of 80 µs, 3 ms, 3 ms and a minute.
func (busy) Status() prefork.Status {
	h := shared.Must(shared.Must(shared.New(shared.Options{Size: 64 << 10, Processes: 1, Local: true})).Histogram("h"))
	for _, d := range []time.Duration{80 * time.Microsecond, 3 * time.Millisecond, 3 * time.Millisecond, time.Minute} {
		h.RecordDuration(d)
	}
	s := someStatus()
	s.Latencies = h.Snapshot()
	return s
}

func TestSluiceVersion(t *testing.T) {
	main := debug.Module{Path: "example.com/app", Version: "v1.0.0"}
	own := debug.Module{Path: "github.com/sluicehttp/sluice", Version: "v0.2.0"}
	for _, c := range []struct {
		info debug.BuildInfo
		want string
	}{
		{debug.BuildInfo{Main: main, Deps: []*debug.Module{{Path: "x", Version: "v3"}, &own}}, "v0.2.0"},
		{debug.BuildInfo{Main: own}, "v0.2.0"},
		{debug.BuildInfo{Main: main}, ""},
	} {
		if got := sluiceVersion(&c.info); got != c.want {
			t.Errorf("%+v: %q", c.info, got)
		}
	}
}

// long: what is compared with is text
func TestCollector(t *testing.T) {
	c := NewCollector(busy{})
	problems, err := testutil.CollectAndLint(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	const want = `
# HELP sluice_connections_cut_total Connections that were still open at the deadline of their worker's end. They are included in done.
# TYPE sluice_connections_cut_total counter
sluice_connections_cut_total 8
# HELP sluice_connections_refused_total Connections that were refused because of Concurrency, MaxConnsPerIP or ProxyProtocol. They are included in accepted and done.
# TYPE sluice_connections_refused_total counter
sluice_connections_refused_total 31
# HELP sluice_requests_timed_out_total Requests that did not arrive in time, or whose handler gave up.
# TYPE sluice_requests_timed_out_total counter
sluice_requests_timed_out_total 32
# HELP sluice_request_duration_seconds Time from the first byte of a request until its response is ready to be sent.
# TYPE sluice_request_duration_seconds histogram
sluice_request_duration_seconds_bucket{le="0.0001"} 1
sluice_request_duration_seconds_bucket{le="0.00025"} 1
sluice_request_duration_seconds_bucket{le="0.0005"} 1
sluice_request_duration_seconds_bucket{le="0.001"} 1
sluice_request_duration_seconds_bucket{le="0.0025"} 1
sluice_request_duration_seconds_bucket{le="0.005"} 3
sluice_request_duration_seconds_bucket{le="0.01"} 3
sluice_request_duration_seconds_bucket{le="0.025"} 3
sluice_request_duration_seconds_bucket{le="0.05"} 3
sluice_request_duration_seconds_bucket{le="0.1"} 3
sluice_request_duration_seconds_bucket{le="0.25"} 3
sluice_request_duration_seconds_bucket{le="0.5"} 3
sluice_request_duration_seconds_bucket{le="1"} 3
sluice_request_duration_seconds_bucket{le="2.5"} 3
sluice_request_duration_seconds_bucket{le="5"} 3
sluice_request_duration_seconds_bucket{le="10"} 3
sluice_request_duration_seconds_bucket{le="+Inf"} 4
sluice_request_duration_seconds_sum 60.006080000000004
sluice_request_duration_seconds_count 4
# HELP sluice_requests_total Requests by the class of their response's status.
# TYPE sluice_requests_total counter
sluice_requests_total{code="1xx"} 0
sluice_requests_total{code="2xx"} 70
sluice_requests_total{code="3xx"} 2
sluice_requests_total{code="4xx"} 5
sluice_requests_total{code="5xx"} 1
# HELP sluice_log_lines_dropped_total Lines of the master's log that were dropped because the log was not read in time.
# TYPE sluice_log_lines_dropped_total counter
sluice_log_lines_dropped_total 17
# HELP sluice_rolling_restarts_failed_total Rolling restarts that failed or were refused, in the master's life.
# TYPE sluice_rolling_restarts_failed_total counter
sluice_rolling_restarts_failed_total 2
# HELP sluice_slot_queue_length Connections that wait in the slot's sockets to be accepted.
# TYPE sluice_slot_queue_length gauge
sluice_slot_queue_length{slot="0"} 9
sluice_slot_queue_length{slot="1"} 0
# HELP sluice_worker_cpu_seconds_total Processor time that the worker has used.
# TYPE sluice_worker_cpu_seconds_total counter
sluice_worker_cpu_seconds_total{pid="11",slot="0"} 1.5
sluice_worker_cpu_seconds_total{pid="12",slot="1"} 1.5
sluice_worker_cpu_seconds_total{pid="13",slot="1"} 1.5
# HELP sluice_worker_info 1 for each worker process.
# TYPE sluice_worker_info gauge
sluice_worker_info{generation="2",phase="draining",pid="12",slot="1",version="3"} 1
sluice_worker_info{generation="2",phase="ready",pid="11",slot="0",version="3"} 1
sluice_worker_info{generation="2",phase="ready",pid="13",slot="1",version="3"} 1
# HELP sluice_worker_start_time_seconds When the worker was started, in seconds of Unix time.
# TYPE sluice_worker_start_time_seconds gauge
sluice_worker_start_time_seconds{pid="11",slot="0"} 1000.5
sluice_worker_start_time_seconds{pid="12",slot="1"} 1000.5
sluice_worker_start_time_seconds{pid="13",slot="1"} 1000.5
# HELP sluice_master_goroutines Goroutines of the master.
# TYPE sluice_master_goroutines gauge
sluice_master_goroutines 6
# HELP sluice_workers_ready Workers that serve.
# TYPE sluice_workers_ready gauge
sluice_workers_ready 2
# HELP sluice_workers_rolling 1 while workers are being replaced one by one, else 0.
# TYPE sluice_workers_rolling gauge
sluice_workers_rolling 1
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), "sluice_connections_cut_total", "sluice_connections_refused_total", "sluice_requests_timed_out_total", "sluice_request_duration_seconds", "sluice_requests_total", "sluice_slot_queue_length", "sluice_log_lines_dropped_total", "sluice_rolling_restarts_failed_total", "sluice_worker_cpu_seconds_total",
		"sluice_worker_info", "sluice_worker_start_time_seconds", "sluice_master_goroutines", "sluice_workers_ready", "sluice_workers_rolling"); err != nil {
		t.Error(err)
	}
}

func TestCollectorHTTP2(t *testing.T) {
	c := NewCollector(busy{})
	const want = `
# HELP sluice_http2_resets_total Streams of HTTP/2 that the client or the server has reset.
# TYPE sluice_http2_resets_total counter
sluice_http2_resets_total 21
# HELP sluice_http2_calmed_total Connections of HTTP/2 that were ended with ENHANCE_YOUR_CALM.
# TYPE sluice_http2_calmed_total counter
sluice_http2_calmed_total 2
# HELP sluice_worker_http2_connections_open Open HTTP/2 connections of the worker.
# TYPE sluice_worker_http2_connections_open gauge
sluice_worker_http2_connections_open{pid="11",slot="0"} 7
sluice_worker_http2_connections_open{pid="12",slot="1"} 7
sluice_worker_http2_connections_open{pid="13",slot="1"} 7
# HELP sluice_worker_http2_connections_idle HTTP/2 connections of the worker without an open stream.
# TYPE sluice_worker_http2_connections_idle gauge
sluice_worker_http2_connections_idle{pid="11",slot="0"} 4
sluice_worker_http2_connections_idle{pid="12",slot="1"} 4
sluice_worker_http2_connections_idle{pid="13",slot="1"} 4
# HELP sluice_worker_http2_streams_open Open streams of the worker's HTTP/2 connections.
# TYPE sluice_worker_http2_streams_open gauge
sluice_worker_http2_streams_open{pid="11",slot="0"} 9
sluice_worker_http2_streams_open{pid="12",slot="1"} 9
sluice_worker_http2_streams_open{pid="13",slot="1"} 9
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), "sluice_http2_resets_total", "sluice_http2_calmed_total",
		"sluice_worker_http2_connections_open", "sluice_worker_http2_connections_idle", "sluice_worker_http2_streams_open"); err != nil {
		t.Error(err)
	}
}

func TestCollectorHTTP3(t *testing.T) {
	c := NewCollector(busy{})
	const want = `
# HELP sluice_http3_calmed_total Connections of HTTP/3 that were ended with H3_EXCESSIVE_LOAD.
# TYPE sluice_http3_calmed_total counter
sluice_http3_calmed_total 32
# HELP sluice_http3_connections_lost_total Connections of HTTP/3 that have ended because the client did not answer any more.
# TYPE sluice_http3_connections_lost_total counter
sluice_http3_connections_lost_total 35
# HELP sluice_http3_connections_refused_total Connections of HTTP/3 that were refused.
# TYPE sluice_http3_connections_refused_total counter
sluice_http3_connections_refused_total 34
# HELP sluice_http3_resets_total Requests over HTTP/3 that the client or the server has ended early.
# TYPE sluice_http3_resets_total counter
sluice_http3_resets_total 31
# HELP sluice_http3_retries_total Handshakes for which a proof of the client's address was wanted first.
# TYPE sluice_http3_retries_total counter
sluice_http3_retries_total 33
# HELP sluice_worker_http3_connections_idle HTTP/3 connections of the worker without a request.
# TYPE sluice_worker_http3_connections_idle gauge
sluice_worker_http3_connections_idle{pid="11",slot="0"} 2
sluice_worker_http3_connections_idle{pid="12",slot="1"} 2
sluice_worker_http3_connections_idle{pid="13",slot="1"} 2
# HELP sluice_worker_http3_connections_open Open HTTP/3 connections of the worker.
# TYPE sluice_worker_http3_connections_open gauge
sluice_worker_http3_connections_open{pid="11",slot="0"} 3
sluice_worker_http3_connections_open{pid="12",slot="1"} 3
sluice_worker_http3_connections_open{pid="13",slot="1"} 3
# HELP sluice_worker_http3_streams_open Open streams of the worker's HTTP/3 connections.
# TYPE sluice_worker_http3_streams_open gauge
sluice_worker_http3_streams_open{pid="11",slot="0"} 5
sluice_worker_http3_streams_open{pid="12",slot="1"} 5
sluice_worker_http3_streams_open{pid="13",slot="1"} 5
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), "sluice_http3_resets_total", "sluice_http3_calmed_total", "sluice_http3_retries_total",
		"sluice_http3_connections_refused_total", "sluice_http3_connections_lost_total",
		"sluice_worker_http3_connections_open", "sluice_worker_http3_connections_idle", "sluice_worker_http3_streams_open"); err != nil {
		t.Error(err)
	}
}

// The library's strictest registry checks that the collected metrics match their
// descriptions.
func TestPedantic(t *testing.T) {
	c := NewCollector(busy{})
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != len(c.all) {
		t.Errorf("%d metrics of %d", len(families), len(c.all))
	}
	if err := r.Register(NewCollector(&prefork.Prefork{})); err == nil {
		t.Error("two collectors in one registry")
	}
}

// A server that does not run has no metrics, rather than zeros.
func TestNotRunning(t *testing.T) {
	if n := testutil.CollectAndCount(NewCollector(&prefork.Prefork{})); n != 0 {
		t.Errorf("%d metrics", n)
	}
}
