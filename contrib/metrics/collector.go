package metrics

import (
	"fmt"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/shared"
)

// A Collector is a prometheus.Collector for the status of a prefork server, or of a
// prefork.Single. It may be used in any process of the server. While ListenAndServe of a
// Prefork does not run, it has no metrics.
type Collector struct {
	described
	source prefork.Source

	accepted, done, cut, requests, read, written *prometheus.Desc
	wanted, ready, rolling, degraded             *prometheus.Desc
	crashes, hangs, restarts, restartsFailed     *prometheus.Desc
	logDropped, build                            *prometheus.Desc
	resets, calmed                               *prometheus.Desc
	refused, timedOut, latency                   *prometheus.Desc
	master, worker                               processDescs
	workerInfo, workerAccepted, workerRequests   *prometheus.Desc
	open, idle, inFlight, oldest                 *prometheus.Desc
	http2Open, http2Idle, streams                *prometheus.Desc
	http3Open, http3Idle, http3Streams           *prometheus.Desc
	http3Resets, http3Calmed, http3Retries       *prometheus.Desc
	http3Refused, http3Lost                      *prometheus.Desc
	queue, slotRestarts, slotCrashes, slotHangs  *prometheus.Desc
}

// processDescs describe the resources of a process.
type processDescs struct {
	start, heartbeat, lag, resident, cpu, goroutines, collections *prometheus.Desc
}

// NewCollector returns a Collector for s: a Prefork, or a Single.
func NewCollector(s prefork.Source) *Collector {
	c := &Collector{source: s}
	c.accepted = c.describe("connections_accepted_total", "Connections that workers have accepted. One that is handed over from worker to worker counts again.")
	c.done = c.describe("connections_done_total", "Accepted connections that were closed or handed over.")
	c.cut = c.describe("connections_cut_total", "Connections that were still open at the deadline of their worker's end. They are included in done.")
	c.requests = c.describe("requests_total", "Requests by the class of their response's status.", "code")
	c.read = c.describe("received_bytes_total", "Bytes of requests.")
	c.written = c.describe("sent_bytes_total", "Bytes of responses.")
	c.refused = c.describe("connections_refused_total", "Connections that were refused because of Concurrency, MaxConnsPerIP or ProxyProtocol. They are included in accepted and done.")
	c.timedOut = c.describe("requests_timed_out_total", "Requests that did not arrive in time, or whose handler gave up.")
	c.latency = c.describe("request_duration_seconds", "Time from the first byte of a request until its response is ready to be sent.")
	c.resets = c.describe("http2_resets_total", "Streams of HTTP/2 that the client or the server has reset.")
	c.calmed = c.describe("http2_calmed_total", "Connections of HTTP/2 that were ended with ENHANCE_YOUR_CALM.")
	c.http3Resets = c.describe("http3_resets_total", "Requests over HTTP/3 that the client or the server has ended early.")
	c.http3Calmed = c.describe("http3_calmed_total", "Connections of HTTP/3 that were ended with H3_EXCESSIVE_LOAD.")
	c.http3Retries = c.describe("http3_retries_total", "Handshakes for which a proof of the client's address was wanted first.")
	c.http3Refused = c.describe("http3_connections_refused_total", "Connections of HTTP/3 that were refused.")
	c.http3Lost = c.describe("http3_connections_lost_total", "Connections of HTTP/3 that have ended because the client did not answer any more.")

	c.wanted = c.describe("workers_wanted", "Workers that should run.")
	c.ready = c.describe("workers_ready", "Workers that serve.")
	c.rolling = c.describe("workers_rolling", "1 while workers are being replaced one by one, else 0.")
	c.degraded = c.describe("workers_degraded", "1 while too many workers have died and not all are replaced, else 0.")
	c.crashes = c.describe("worker_crashes_total", "Unexpected exits of workers in the master's life, hanging ones included.")
	c.hangs = c.describe("worker_hangs_total", "Workers that were replaced because they hung, in the master's life.")
	c.restarts = c.describe("rolling_restarts_total", "Rolling restarts that are complete, in the master's life.")
	c.restartsFailed = c.describe("rolling_restarts_failed_total", "Rolling restarts that failed or were refused, in the master's life.")
	c.logDropped = c.describe("log_lines_dropped_total", "Lines of the master's log that were dropped because the log was not read in time.")

	c.build = c.describe("build_info", "1, with the versions of Sluice, of the program that answers, and of Go.", "version", "program", "program_version", "goversion")

	c.master = c.describeProcess("master_", "master")
	c.worker = c.describeProcess("worker_", "worker", "slot", "pid")
	c.workerInfo = c.describe("worker_info", "1 for each worker process.", "slot", "pid", "generation", "phase", "version")
	c.workerAccepted = c.describe("worker_connections_accepted_total", "Connections that the worker has accepted.", "slot", "pid")
	c.workerRequests = c.describe("worker_requests_total", "Requests that the worker has answered.", "slot", "pid")
	c.open = c.describe("worker_connections_open", "Open connections of the worker.", "slot", "pid")
	c.idle = c.describe("worker_connections_idle", "Connections of the worker without a request in progress.", "slot", "pid")
	c.inFlight = c.describe("worker_requests_in_flight", "Requests that the worker is handling.", "slot", "pid")
	c.oldest = c.describe("worker_oldest_request_seconds", "Time since the oldest request in progress began; 0 without one.", "slot", "pid")
	c.http2Open = c.describe("worker_http2_connections_open", "Open HTTP/2 connections of the worker.", "slot", "pid")
	c.http2Idle = c.describe("worker_http2_connections_idle", "HTTP/2 connections of the worker without an open stream.", "slot", "pid")
	c.streams = c.describe("worker_http2_streams_open", "Open streams of the worker's HTTP/2 connections.", "slot", "pid")
	c.http3Open = c.describe("worker_http3_connections_open", "Open HTTP/3 connections of the worker.", "slot", "pid")
	c.http3Idle = c.describe("worker_http3_connections_idle", "HTTP/3 connections of the worker without a request.", "slot", "pid")
	c.http3Streams = c.describe("worker_http3_streams_open", "Open streams of the worker's HTTP/3 connections.", "slot", "pid")

	c.queue = c.describe("slot_queue_length", "Connections that wait in the slot's sockets to be accepted.", "slot")
	c.slotRestarts = c.describe("slot_restarts_total", "Processes of the slot after the first, in the master's life.", "slot")
	c.slotCrashes = c.describe("slot_crashes_total", "Unexpected exits of the slot's processes, in the master's life.", "slot")
	c.slotHangs = c.describe("slot_hangs_total", "Processes of the slot that hung, in the master's life.", "slot")
	return c
}

// described are the descriptions of a collector's metrics.
type described struct{ all []*prometheus.Desc }

func (d *described) describe(name, help string, labels ...string) *prometheus.Desc {
	one := prometheus.NewDesc(prefix+name, help, labels, nil)
	d.all = append(d.all, one)
	return one
}

// Describe sends the descriptions of all metrics.
func (d *described) Describe(to chan<- *prometheus.Desc) {
	for _, one := range d.all {
		to <- one
	}
}

func (c *Collector) describeProcess(name, who string, labels ...string) processDescs {
	one := func(rest, help string) *prometheus.Desc {
		return c.describe(name+rest, fmt.Sprintf(help, who), labels...)
	}
	return processDescs{
		start:       one("start_time_seconds", "When the %s was started, in seconds of Unix time."),
		heartbeat:   one("heartbeat_age_seconds", "Time since the last report of the %s."),
		lag:         one("lag_seconds", "How much later than intended the %s reported."),
		resident:    one("resident_bytes", "Memory that the %s has in use, shared memory included."),
		cpu:         one("cpu_seconds_total", "Processor time that the %s has used."),
		goroutines:  one("goroutines", "Goroutines of the %s."),
		collections: one("gc_cycles_total", "Garbage collections of the %s."),
	}
}

// Collect sends the metrics of all processes.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	s := c.source.Status()
	if s.Wanted == 0 && len(s.Workers) == 0 {
		return // ListenAndServe does not run
	}
	out := sender(to)
	c.collectFleet(out, &s)
	if s.Master.PID != 0 {
		out.process(&c.master, &s.Master)
	}
	for i := range s.Workers {
		if w := &s.Workers[i]; w.PID != 0 { // 0: it is being started
			c.collectWorker(out, w)
		}
	}
	for _, slot := range s.Slots {
		label := strconv.Itoa(slot.Slot)
		out.gauge(c.queue, float64(slot.Queue), label)
		out.counter(c.slotRestarts, float64(slot.Restarts), label)
		out.counter(c.slotCrashes, float64(slot.Crashes), label)
		out.counter(c.slotHangs, float64(slot.Hangs), label)
	}
}

func (c *Collector) collectFleet(out sender, s *prefork.Status) {
	out.counter(c.accepted, float64(s.Total.Accepted))
	out.counter(c.done, float64(s.Total.Done))
	out.counter(c.cut, float64(s.Total.Cut))
	for class, n := range s.Total.Responses {
		out.counter(c.requests, float64(n), strconv.Itoa(class+1)+"xx")
	}
	out.counter(c.read, float64(s.Total.BytesRead))
	out.counter(c.written, float64(s.Total.BytesWritten))
	out.counter(c.refused, float64(s.Refused))
	out.counter(c.timedOut, float64(s.TimedOut))
	out <- c.durations(s.Latencies)
	out.counter(c.resets, float64(s.Total.HTTP2.Resets))
	out.counter(c.calmed, float64(s.Total.HTTP2.Calmed))
	out.counter(c.http3Resets, float64(s.Total.HTTP3.Resets))
	out.counter(c.http3Calmed, float64(s.Total.HTTP3.Calmed))
	out.counter(c.http3Retries, float64(s.Total.HTTP3.Retries))
	out.counter(c.http3Refused, float64(s.Total.HTTP3.Refused))
	out.counter(c.http3Lost, float64(s.Total.HTTP3.Lost))
	ready := 0
	for i := range s.Workers {
		if s.Workers[i].Phase == "ready" {
			ready++
		}
	}
	out.gauge(c.wanted, float64(s.Wanted))
	out.gauge(c.ready, float64(ready))
	out.gauge(c.rolling, number(s.Rolling))
	out.gauge(c.degraded, number(s.Degraded))
	out.counter(c.crashes, float64(s.Crashes))
	out.counter(c.hangs, float64(s.Hangs))
	out.counter(c.restarts, float64(s.Restarts))
	out.counter(c.restartsFailed, float64(s.RestartsFailed))
	out.counter(c.logDropped, float64(s.LogDropped))
	if info, ok := debug.ReadBuildInfo(); ok {
		out.gauge(c.build, 1, sluiceVersion(info), info.Main.Path, info.Main.Version, info.GoVersion)
	}
}

// sluiceVersion returns the version of Sluice's module in a program; "" if it is not known.
func sluiceVersion(info *debug.BuildInfo) string {
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path == "github.com/sluicehttp/sluice" {
			return m.Version
		}
	}
	return ""
}

// durations returns the histogram of latencies.
func (c *Collector) durations(s *shared.Snapshot) prometheus.Metric {
	m, err := Histogram{Bounds: latencyBounds(), Scale: nanosecond}.metric(s, c.latency)
	if err != nil {
		return prometheus.NewInvalidMetric(c.latency, err)
	}
	return m
}

// latencyBounds are finer than prometheus.DefBuckets, which begin where most handlers end.
func latencyBounds() []float64 {
	return []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
}

func (c *Collector) collectWorker(out sender, w *prefork.WorkerStatus) {
	slot, pid := strconv.Itoa(w.Slot), strconv.Itoa(w.PID)
	out.gauge(c.workerInfo, 1, slot, pid, strconv.Itoa(w.Generation), w.Phase, strconv.Itoa(w.Version))
	out.process(&c.worker, &w.ProcessStatus, slot, pid)
	out.counter(c.workerAccepted, float64(w.Accepted), slot, pid)
	out.counter(c.workerRequests, float64(w.Requests), slot, pid)
	out.gauge(c.open, float64(w.Active), slot, pid)
	out.gauge(c.idle, float64(w.Idle), slot, pid)
	out.gauge(c.inFlight, float64(w.InFlight), slot, pid)
	out.gauge(c.oldest, w.OldestRequest.Seconds(), slot, pid)
	out.gauge(c.http2Open, float64(w.HTTP2.Connections), slot, pid)
	out.gauge(c.http2Idle, float64(w.HTTP2.Idle), slot, pid)
	out.gauge(c.streams, float64(w.HTTP2.Streams), slot, pid)
	out.gauge(c.http3Open, float64(w.HTTP3.Connections), slot, pid)
	out.gauge(c.http3Idle, float64(w.HTTP3.Idle), slot, pid)
	out.gauge(c.http3Streams, float64(w.HTTP3.Streams), slot, pid)
}

// A sender creates metrics and sends them.
type sender chan<- prometheus.Metric

func (out sender) gauge(d *prometheus.Desc, value float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (out sender) counter(d *prometheus.Desc, value float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
}

func (out sender) process(d *processDescs, p *prefork.ProcessStatus, labels ...string) {
	out.gauge(d.start, float64(p.Started.UnixNano())/float64(time.Second), labels...)
	out.gauge(d.heartbeat, p.HeartbeatAge.Seconds(), labels...)
	out.gauge(d.lag, p.Lag.Seconds(), labels...)
	out.gauge(d.resident, float64(p.ResidentBytes), labels...)
	out.counter(d.cpu, p.CPUTime.Seconds(), labels...)
	out.gauge(d.goroutines, float64(p.Goroutines), labels...)
	out.counter(d.collections, float64(p.GarbageCollections), labels...)
}

// number returns 1 for true, 0 for false.
func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
