package main

import (
	"encoding/json"
	"runtime"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/sluicehttp/sluice/tools/lab/load"
)

// benchSchema is the version of benchReport. Fields may be added to one version.
const benchSchema = 1

// benchReport is what --json writes.
type benchReport struct {
	Tool   string `json:"tool"`
	Schema int    `json:"schema"`

	Time           time.Time `json:"time"` // when the run began
	URL            string    `json:"url"`
	Method         string    `json:"method"`
	Address        string    `json:"address"`
	Loop           string    `json:"loop"` // "open" or "closed"
	TargetRate     float64   `json:"targetRate,omitempty"`
	Connections    int       `json:"connections"`
	Threads        int       `json:"threads"`
	Protocol       string    `json:"protocol"` // "HTTP/1.1", "HTTP/2", "WebSocket" or "SSE"
	Pipeline       int       `json:"pipeline"`
	Streams        int       `json:"streams,omitempty"` // with HTTP/2
	KeepAlive      bool      `json:"keepAlive"`
	TimeoutSeconds float64   `json:"timeoutSeconds"`
	RequestBytes   int       `json:"requestBytes"`           // of WebSocket: the handshake, without its fields
	MessageBytes   int       `json:"messageBytes,omitempty"` // of WebSocket

	ElapsedSeconds     float64          `json:"elapsedSeconds"`
	IsInterrupted      bool             `json:"isInterrupted"`
	Sent               int64            `json:"sent"`
	Responses          int64            `json:"responses"`
	ResponsesPerSecond float64          `json:"responsesPerSecond"`
	Unanswered         int64            `json:"unanswered"`
	Unsent             int64            `json:"unsent"`
	BytesRead          int64            `json:"bytesRead"`
	BytesWritten       int64            `json:"bytesWritten"`
	ConnectionsMade    int64            `json:"connectionsMade"`
	Status             map[string]int64 `json:"status"`
	Errors             benchErrors      `json:"errors"`

	// EventStreams is there with server-sent events. The responses are then the events, and
	// have no latency.
	EventStreams *benchStreams `json:"eventStreams,omitempty"`

	Latency benchLatency  `json:"latency"`
	Service *benchLatency `json:"service,omitempty"` // of an open loop
	// RatesPerSecond has the responses per second, second by second.
	RatesPerSecond []float64   `json:"ratesPerSecond"`
	Client         benchClient `json:"client"`
}

// benchStreams is what was measured of streams of server-sent events.
type benchStreams struct {
	Opened      int64        `json:"opened"`
	OpenedAgain int64        `json:"openedAgain"` // of those, by connections that had one before
	Ended       int64        `json:"ended"`       // by the server, in order
	Opening     benchLatency `json:"opening"`     // from connecting to the first byte
	Interval    benchLatency `json:"interval"`    // between two events of a stream
}

// benchErrors is what went wrong, by kind. Examples has the first of each.
type benchErrors struct {
	Connect  int64             `json:"connect"`
	Write    int64             `json:"write"`
	Read     int64             `json:"read"`
	Timeout  int64             `json:"timeout"`
	Invalid  int64             `json:"invalid"`
	Reset    int64             `json:"reset"` // with this, refused and goaway: HTTP/2
	Refused  int64             `json:"refused"`
	GoAway   int64             `json:"goaway"`
	Examples map[string]string `json:"examples"`
}

// benchLatency is a histogram.
type benchLatency struct {
	Count             int64             `json:"count"`
	MeanMicroseconds  float64           `json:"meanMicroseconds"`
	StdevMicroseconds float64           `json:"stdevMicroseconds"`
	MinMicroseconds   float64           `json:"minMicroseconds"`
	MaxMicroseconds   float64           `json:"maxMicroseconds"`
	Percentiles       []benchPercentile `json:"percentiles"`
	// Histogram has all of it, in nanoseconds: HdrHistogram's compressed format,
	// version 2, in base64.
	Histogram string `json:"histogram"`
}

type benchPercentile struct {
	Percent      float64 `json:"percent"`
	Microseconds float64 `json:"microseconds"`
}

// benchClient is about this process.
type benchClient struct {
	CPUSeconds                float64 `json:"cpuSeconds"`
	CPUMicrosecondsPerRequest float64 `json:"cpuMicrosecondsPerRequest"`
	Processors                int     `json:"processors"`
	OS                        string  `json:"os"`
	Architecture              string  `json:"architecture"`
	Go                        string  `json:"go"`
}

// appendJSON appends what programs read.
func (m *measurement) appendJSON(dst []byte) ([]byte, error) {
	report, err := m.report()
	if err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(append(dst, text...), '\n'), nil
}

func (m *measurement) report() (*benchReport, error) {
	r, o := m.result, m.options
	seconds := max(r.Elapsed, 1).Seconds()
	report := &benchReport{
		Tool: "sluice bench", Schema: benchSchema,
		Time: m.begin.UTC(), URL: m.target.url.String(), Method: o.method, Address: m.target.address,
		Loop: "closed", TargetRate: o.rate, Connections: m.connections(), Threads: m.threads(), Protocol: "HTTP/1.1", Pipeline: o.pipeline,
		KeepAlive: !o.disableKeepAlive, TimeoutSeconds: o.timeout.Seconds(), RequestBytes: len(m.target.request),
		ElapsedSeconds: seconds, IsInterrupted: m.isInterrupted, Sent: r.Sent, Responses: r.Answered,
		ResponsesPerSecond: float64(r.Answered) / seconds, Unanswered: r.Unanswered, Unsent: r.Unsent,
		BytesRead: r.BytesRead, BytesWritten: r.BytesWritten, ConnectionsMade: r.Connections,
		Status: map[string]int64{}, Errors: m.errorReport(),
		RatesPerSecond: append([]float64{}, r.Rates...),
		Client: benchClient{CPUSeconds: m.cpu.Seconds(), CPUMicrosecondsPerRequest: m.cpuEach(),
			Processors: runtime.NumCPU(), OS: runtime.GOOS, Architecture: runtime.GOARCH, Go: runtime.Version()},
	}
	if o.rate > 0 {
		report.Loop = "open"
	}
	if o.http2 {
		report.Protocol, report.Streams = "HTTP/2", o.streams
	}
	if o.http3 {
		report.Protocol, report.Streams = "HTTP/3", o.streams
	}
	if m.config.WebSocket != nil {
		report.Protocol, report.MessageBytes = "WebSocket", len(m.target.message)
	}
	for status, n := range r.Status {
		if status > 0 && n > 0 { // messages have none
			report.Status[strconv.Itoa(status)] = n
		}
	}
	var err error
	if m.streams != nil {
		report.Protocol = "SSE"
		if report.EventStreams, err = m.streams.report(); err != nil {
			return report, err
		}
	}
	if report.Latency, err = latencyReport(r.Latency); err != nil || r.Service == nil {
		return report, err
	}
	service, err := latencyReport(r.Service)
	report.Service = &service
	return report, err
}

// report returns what programs read.
func (c *streamCount) report() (*benchStreams, error) {
	opening, err := latencyReport(c.opening)
	if err != nil {
		return nil, err
	}
	interval, err := latencyReport(c.interval)
	return &benchStreams{Opened: c.opened, OpenedAgain: c.again, Ended: c.ended, Opening: opening, Interval: interval}, err
}

// cpuEach returns the microseconds of processor time per response; 0 if there are
// none.
func (m *measurement) cpuEach() float64 {
	if m.result.Answered == 0 {
		return 0
	}
	return m.cpu.Seconds() * 1e6 / float64(m.result.Answered)
}

func (m *measurement) errorReport() benchErrors {
	e := &m.result.Errors
	report := benchErrors{Connect: e[load.Connect], Write: e[load.Write], Read: e[load.Read], Timeout: e[load.Timeout],
		Invalid: e[load.Invalid], Reset: e[load.Reset], Refused: e[load.Refused], GoAway: e[load.GoAway], Examples: map[string]string{}}
	for kind, err := range m.result.Examples {
		if err != nil {
			report.Examples[load.Kind(kind).String()] = err.Error()
		}
	}
	return report
}

func latencyReport(h *hdrhistogram.Histogram) (benchLatency, error) {
	const microsecond = float64(time.Microsecond)
	if h.TotalCount() == 0 {
		return benchLatency{Percentiles: []benchPercentile{}}, nil // they are no numbers
	}
	encoded, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	report := benchLatency{
		Count: h.TotalCount(), MeanMicroseconds: h.Mean() / microsecond, StdevMicroseconds: h.StdDev() / microsecond,
		MinMicroseconds: float64(h.Min()) / microsecond, MaxMicroseconds: float64(h.Max()) / microsecond,
		Histogram: string(encoded),
	}
	for _, percent := range percentiles {
		report.Percentiles = append(report.Percentiles, benchPercentile{percent, float64(h.ValueAtPercentile(percent)) / microsecond})
	}
	return report, err
}
