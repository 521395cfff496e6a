package main

import (
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/sluicehttp/sluice/tools/lab/load"
)

func TestBenchFormats(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0ns", 7: "7ns", 999: "999ns", 1234: "1.23µs", 412_345: "412µs", 99_960: "100µs", 1_234_567: "1.23ms",
		12_345_678: "12.3ms", 10 * time.Second: "10.0s", 5 * time.Second: "5s", 90500 * time.Millisecond: "90.5s", 150 * time.Second: "2m30s",
	} {
		if got := tidy(d); got != want {
			t.Errorf("%d ns: %s, not %s", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %s, not %s", n, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0 B", 80: "80 B", 480: "480 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.50 KiB", 20 << 20: "20.0 MiB", 1 << 50: "1024 TiB"} {
		if got := size(v); got != want {
			t.Errorf("%v bytes: %s, not %s", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 0.25: "0.2", 12.34: "12.3", 1234.5: "1,235", 50: "50"} {
		if got := decimal(v); got != want {
			t.Errorf("%v: %s, not %s", v, got, want)
		}
	}
	if got := count(1, "thread") + count(1024, "thread"); got != "1 thread1,024 threads" {
		t.Errorf("%s", got)
	}
	if mean, spread := deviation([]float64{2, 4, 4, 4, 5, 5, 7, 9}); mean != 5 || spread != 2 {
		t.Errorf("mean %v, deviation %v", mean, spread)
	}
}

// oneSecond returns a run of a second with some latencies, in milliseconds.
func oneSecond(o *benchOptions, milliseconds ...int64) *measurement {
	h := hdrhistogram.New(1, int64(time.Hour), 3)
	for _, ms := range milliseconds {
		h.RecordValue(ms * int64(time.Millisecond))
	}
	o.method = "GET"
	return &measurement{
		options: o, target: &benchTarget{url: &url.URL{Scheme: "http", Host: "h"}},
		config: &load.Config{Connections: 2, Threads: 2},
		result: &load.Result{Elapsed: time.Second, Latency: h},
	}
}

// The summary says what went wrong, and what not to make of its numbers.
func TestBenchSummaryOfFailures(t *testing.T) {
	m := oneSecond(&benchOptions{rate: 1000}, 10, 20)
	m.result.Answered, m.result.Unsent = 2, 998
	m.result.Status[301], m.result.Status[503] = 1, 1
	m.result.Errors[load.Read] = 7
	m.result.Examples[load.Read] = io.ErrUnexpectedEOF
	text := string(m.appendSummary(nil))
	for _, want := range []string{
		"open loop, 1,000/s\n", "  Status     3xx 1 (301: 1), 5xx 1 (503: 1)\n",
		"  Errors     connect 0, write 0, read 7, timeout 0, invalid 0\n", "             first read: unexpected EOF\n",
		"  The rate was not kept: 998 requests due", "p50 10.0ms, p90 20.0ms, p99 20.0ms\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	m = oneSecond(&benchOptions{rate: 50}) // it was kept, whatever came of it
	m.result.Errors[load.Read], m.result.Unsent = 50, 1
	m.result.Examples[load.Read] = io.ErrUnexpectedEOF
	if text := string(m.appendSummary(nil)); strings.Contains(text, "not kept") {
		t.Errorf("a rate whose requests have all failed:\n%s", text)
	}
	m = oneSecond(&benchOptions{}, 1)
	m.result.Answered, m.cpu = 1, 1990*time.Millisecond
	if text := string(m.appendSummary(nil)); !strings.Contains(text, "100% of 2 threads") || !strings.Contains(text, "busy nearly all the time") {
		t.Errorf("a busy client:\n%s", text)
	}
	m.cpu = time.Second
	if text := string(m.appendSummary(nil)); strings.Contains(text, "busy nearly all the time") || strings.Contains(text, "not kept") {
		t.Errorf("a client that is not busy:\n%s", text)
	}
}

// Without a response there is no latency, and the summary says what there was.
func TestBenchSummaryOfNothing(t *testing.T) {
	m := oneSecond(&benchOptions{latency: true})
	m.result.Sent, m.result.Errors[load.Connect], m.result.Errors[load.Timeout] = 9, 1, 8
	m.result.Examples[load.Connect], m.result.Examples[load.Timeout] = io.ErrClosedPipe, io.ErrNoProgress
	m.cpu = time.Millisecond
	text := string(m.appendSummary(nil))
	for _, want := range []string{"  Latency    none\n", "  Status     none\n", "timeout 8", "first timeout: "} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	if err := m.noResponse(); !errors.Is(err, io.ErrNoProgress) || errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("of 8 timeouts and another error it says %v", err)
	}
	if report, err := m.report(); err != nil || report.Client.CPUMicrosecondsPerRequest != 0 {
		t.Errorf("processor time of no request: %+v, %v", report, err)
	}
}

// Lines that are wider than the terminal would not be overwritten.
func TestFitted(t *testing.T) {
	for _, c := range []struct {
		line  string
		width int
		want  string
	}{
		{"1s  900/s  p50 3µs", 0, "1s  900/s  p50 3µs"}, {"1s  900/s  p50 3µs", 80, "1s  900/s  p50 3µs"},
		{"1s  900/s  p50 3µs", barWidth + 17, "1s  900/s  p50 3µ"}, {"1s  900/s", barWidth, ""}, {"1s", 1, ""},
	} {
		if got := fitted(c.line, c.width); got != c.want {
			t.Errorf("%q in %d columns: %q, not %q", c.line, c.width, got, c.want)
		}
	}
}

func TestBenchProgressLine(t *testing.T) {
	m := oneSecond(&benchOptions{}, 1, 2, 3)
	now := load.Progress{Counts: &m.result.Counts, Rate: 1234.4, Latency: m.result.Latency}
	if got, want := progressLine(now), "1,234/s  p50 2.00ms  p99 3.00ms  max 3.00ms"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	now.Rate, now.Latency = 0, oneSecond(&benchOptions{}).result.Latency // they are no 0 ns
	if got, want := progressLine(now), "0/s"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	now.Counts.Errors[load.Timeout], now.Counts.Status[404] = 2, 3
	if got, want := progressLine(now), "  errors 2  4xx/5xx 3"; !strings.HasSuffix(got, want) {
		t.Errorf("%q has no %q", got, want)
	}
}
