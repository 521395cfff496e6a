package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/sluicehttp/sluice/tools/lab/load"
)

// measurement is a run of "sluice bench", and what it has found.
type measurement struct {
	options       *benchOptions
	target        *benchTarget
	config        *load.Config
	result        *load.Result
	streams       *streamCount // of --sse; nil: no streams
	begin         time.Time
	cpu           time.Duration // of this process
	isInterrupted bool
}

// isAnswered reports whether there was a response, or a stream if those were wanted.
func (m *measurement) isAnswered() bool {
	if m.streams != nil {
		return m.streams.opened > 0
	}
	return m.result.Answered > 0
}

// noResponse says why there was none: with an error of the most frequent kind.
func (m *measurement) noResponse() error {
	missing, errors := errNoResponse, m.result.Errors[:]
	if m.streams != nil {
		missing = errNoStream
	}
	if most := slices.Max(errors); most > 0 {
		return fmt.Errorf("%w: %w", missing, m.result.Examples[slices.Index(errors, most)])
	}
	if m.isInterrupted {
		return fmt.Errorf("%w: %w", missing, errInterrupted)
	}
	return missing
}

// appendSummary appends what people read.
func (m *measurement) appendSummary(dst []byte) []byte {
	r := m.result
	seconds := r.Elapsed.Seconds()
	dst = append(dst, m.title()...)
	name, each := "Requests", "request"
	switch {
	case m.config.WebSocket != nil:
		name = "Messages"
	case m.streams != nil:
		name, each = "Events  ", "event"
	}
	dst = fmt.Appendf(dst, "  %s   %s in %s, %s/s%s\n", name, grouped(r.Answered), tidy(r.Elapsed),
		decimal(float64(r.Answered)/seconds), m.spread())
	dst = fmt.Appendf(dst, "  Transfer   %s read, %s/s; %s written\n", size(float64(r.BytesRead)),
		size(float64(r.BytesRead)/seconds), size(float64(r.BytesWritten)))
	if m.streams != nil {
		dst = m.appendStreams(dst)
	} else {
		dst = m.appendLatency(dst, "Latency", r.Latency)
	}
	if r.Service != nil && m.options.latency {
		dst = m.appendLatency(dst, "Service", r.Service)
	}
	if m.config.WebSocket == nil {
		dst = fmt.Appendf(dst, "  Status     %s\n", m.statuses())
	}
	dst = fmt.Appendf(dst, "  Errors     %s\n", m.errors())
	for kind, err := range r.Examples {
		if err != nil {
			dst = fmt.Appendf(dst, "             first %s: %v\n", load.Kind(kind), err)
		}
	}
	if m.cpu > 0 && r.Answered > 0 {
		dst = fmt.Appendf(dst, "  Client     %.2fµs of processor time per %s, %.0f%% of %s\n",
			m.cpuEach(), each, 100*m.cpu.Seconds()/seconds/float64(m.threads()), count(m.threads(), "thread"))
	}
	return m.appendNotes(dst)
}

// appendStreams appends what is special about streams.
func (m *measurement) appendStreams(dst []byte) []byte {
	s := m.streams
	dst = fmt.Appendf(dst, "  Streams    %s opened, %s of them again; the server has ended %s\n", grouped(s.opened), grouped(s.again), grouped(s.ended))
	dst = m.appendLatency(dst, "Opening", s.opening)
	return m.appendLatency(dst, "Interval", s.interval)
}

// title says what was done.
func (m *measurement) title() string {
	o := m.options
	parts := []string{count(m.connections(), "connection"), count(m.threads(), "thread")}
	switch {
	case o.sse:
		parts = append(parts, "server-sent events")
	case o.rate > 0:
		parts = append(parts, "open loop, "+decimal(o.rate)+"/s")
	default:
		parts = append(parts, "closed loop")
	}
	if o.http2 {
		parts = append(parts, "HTTP/2", count(o.streams, "stream"))
	}
	if o.http3 {
		parts = append(parts, "HTTP/3", count(o.streams, "stream"))
	}
	if m.config.WebSocket != nil {
		parts = append(parts, "WebSocket", "messages of "+size(float64(len(m.target.message))))
	}
	if o.pipeline > 1 {
		parts = append(parts, fmt.Sprintf("pipeline %d", o.pipeline))
	}
	if o.disableKeepAlive {
		parts = append(parts, "a connection per request")
	}
	if m.isInterrupted {
		parts = append(parts, "interrupted")
	}
	return fmt.Sprintf("%s %s\n  %s\n", o.method, m.target.url, strings.Join(parts, ", "))
}

// connections and threads are how many the run had.
func (m *measurement) connections() int { return m.config.Connections }

func (m *measurement) threads() int { return min(m.config.Threads, m.connections()) }

// spread says how even the rate was.
func (m *measurement) spread() string {
	if len(m.result.Rates) < 2 {
		return ""
	}
	mean, deviation := deviation(m.result.Rates)
	if mean == 0 {
		return ""
	}
	return fmt.Sprintf(" (±%.1f%% by the second)", 100*deviation/mean)
}

// appendLatency appends a histogram: a few percentiles, or a table of them.
func (m *measurement) appendLatency(dst []byte, name string, h *hdrhistogram.Histogram) []byte {
	if h.TotalCount() == 0 {
		return fmt.Appendf(dst, "  %-9s  none\n", name)
	}
	duration := func(ns float64) string { return tidy(time.Duration(ns)) }
	dst = fmt.Appendf(dst, "  %-9s  mean %s, stdev %s, max %s\n", name, duration(h.Mean()), duration(h.StdDev()), duration(float64(h.Max())))
	if !m.options.latency {
		return fmt.Appendf(dst, "             p50 %s, p90 %s, p99 %s\n", duration(float64(h.ValueAtPercentile(50))),
			duration(float64(h.ValueAtPercentile(90))), duration(float64(h.ValueAtPercentile(99))))
	}
	for _, percent := range percentiles {
		dst = fmt.Appendf(dst, "    %7s  %s\n", strconv.FormatFloat(percent, 'f', -1, 64)+"%",
			duration(float64(h.ValueAtPercentile(percent))))
	}
	return dst
}

// percentiles are those that tables have.
var percentiles = []float64{50, 75, 90, 95, 99, 99.9, 99.99, 100}

// statuses lists the responses by class, those that are no success also by status.
func (m *measurement) statuses() string {
	var parts []string
	for class := 1; class <= 9; class++ {
		n := m.result.StatusClass(class)
		if n == 0 {
			continue
		}
		part := fmt.Sprintf("%dxx %s", class, grouped(n))
		if class != 2 {
			var codes []string
			for code := class * 100; code < class*100+100; code++ {
				if n := m.result.Status[code]; n > 0 {
					codes = append(codes, fmt.Sprintf("%d: %s", code, grouped(n)))
				}
			}
			part += " (" + strings.Join(codes, ", ") + ")"
		}
		parts = append(parts, part)
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// errors lists what went wrong, by kind.
func (m *measurement) errors() string {
	if m.result.ErrorSum() == 0 {
		return "none"
	}
	var parts []string
	for kind, n := range m.result.Errors {
		if m.options.hasStreams() || kind < int(load.Reset) {
			parts = append(parts, fmt.Sprintf("%s %s", load.Kind(kind), grouped(n)))
		}
	}
	return strings.Join(parts, ", ")
}

// reachedRate is the part of a rate from which on it counts as kept.
const reachedRate = 0.99

// appendNotes says what numbers above cannot be taken as they are.
func (m *measurement) appendNotes(dst []byte) []byte {
	r, o := m.result, m.options
	ended := float64(r.Answered + r.ErrorSum())
	if o.rate > 0 && r.Unsent > 0 && ended/r.Elapsed.Seconds() < reachedRate*o.rate {
		dst = fmt.Appendf(dst, "  The rate was not kept: %s due in the end and not sent. How long they\n"+
			"  have waited is a part of the latency.\n", count(int(r.Unsent), "request"))
	}
	if utilization := m.cpu.Seconds() / r.Elapsed.Seconds() / float64(m.threads()); utilization > busyClient && o.rate == 0 {
		dst = append(dst, "  This process was busy nearly all the time: the server may be capable of more.\n"...)
	}
	return dst
}

// busyClient is the part of the time from which on the client may be the bound.
const busyClient = 0.95

// deviation returns the mean and the standard deviation.
func deviation(values []float64) (mean, deviation float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		deviation += (v - mean) * (v - mean) / float64(len(values))
	}
	return mean, math.Sqrt(deviation)
}

// tidy formats a duration with three digits: "412µs", "1.23ms", "10.0s".
func tidy(d time.Duration) string {
	unit, name := time.Nanosecond, "ns"
	switch {
	case d >= 100*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		unit, name = time.Second, "s"
	case d >= time.Millisecond:
		unit, name = time.Millisecond, "ms"
	case d >= time.Microsecond:
		unit, name = time.Microsecond, "µs"
	}
	return threeDigits(float64(d)/float64(unit)) + name
}

// threeDigits formats a number from 0 to 1024 with three digits.
func threeDigits(v float64) string {
	switch {
	case v >= 99.95 || v == math.Trunc(v) && v < 10:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// size formats a number of bytes: "18.7 MiB".
func size(bytes float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for ; bytes >= 1024 && i < len(units)-1; i++ {
		bytes /= 1024
	}
	if i == 0 {
		return fmt.Sprintf("%.0f B", bytes)
	}
	return threeDigits(bytes) + " " + units[i]
}

// grouped formats a number with commas between thousands.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// decimal formats a rate.
func decimal(v float64) string {
	if v >= 1000 || v == math.Trunc(v) {
		return grouped(int64(v + 0.5))
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// count formats a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return grouped(int64(n)) + " " + thing + "s"
}
