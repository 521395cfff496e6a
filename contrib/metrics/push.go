package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicehttp/sluice/sse"
	"github.com/sluicehttp/sluice/websocket"
)

// A PushCollector is a prometheus.Collector for Endpoints of package websocket and Hubs of
// package sse of this process. Make it with NewPushCollector, and add them before it is
// registered.
type PushCollector struct {
	described
	endpoints map[string]*websocket.Endpoint
	hubs      map[string]*sse.Hub

	open, opened, closed, received, sent, dropped, pending *prometheus.Desc
	streams, topics, events, bytes                         *prometheus.Desc
}

// NewPushCollector returns a PushCollector without Endpoints and Hubs.
func NewPushCollector() *PushCollector {
	c := &PushCollector{endpoints: map[string]*websocket.Endpoint{}, hubs: map[string]*sse.Hub{}}
	c.open = c.describe("websocket_open", "Open WebSockets.", "endpoint")
	c.opened = c.describe("websocket_opened_total", "WebSockets that were opened, or handed over by other processes.", "endpoint")
	c.closed = c.describe("websocket_closed_total", "WebSockets that have ended, by their code. 3000 stands for the codes of libraries, 4000 for those of programs.", "endpoint", "code")
	c.received = c.describe("websocket_messages_received_total", "Messages of WebSockets that were received.", "endpoint")
	c.sent = c.describe("websocket_messages_sent_total", "Messages of WebSockets that were accepted to be sent.", "endpoint")
	c.dropped = c.describe("websocket_messages_dropped_total", "Messages of WebSockets that were dropped because the peer is slow.", "endpoint")
	c.pending = c.describe("websocket_pending_bytes", "Bytes that wait for peers of WebSockets.", "endpoint")
	c.streams = c.describe("sse_streams_open", "Open streams of server-sent events.", "hub")
	c.topics = c.describe("sse_topics", "Topics with streams, or with events in the history.", "hub")
	c.events = c.describe("sse_history_events", "Events in the history.", "hub")
	c.bytes = c.describe("sse_history_bytes", "Bytes of the events in the history.", "hub")
	return c
}

// AddEndpoint adds an Endpoint; its metrics have name as the label "endpoint".
func (c *PushCollector) AddEndpoint(name string, e *websocket.Endpoint) {
	c.endpoints[name] = e
}

// AddHub adds a Hub; its metrics have name as the label "hub".
func (c *PushCollector) AddHub(name string, h *sse.Hub) {
	c.hubs[name] = h
}

// Collect sends the metrics.
func (c *PushCollector) Collect(to chan<- prometheus.Metric) {
	out := sender(to)
	for name, e := range c.endpoints {
		s := e.Stats()
		out.gauge(c.open, float64(s.Open), name)
		out.counter(c.opened, float64(s.Opened), name)
		out.counter(c.received, float64(s.Received), name)
		out.counter(c.sent, float64(s.Sent), name)
		out.counter(c.dropped, float64(s.Dropped), name)
		out.gauge(c.pending, float64(s.Pending), name)
		for code, n := range s.Closed {
			out.counter(c.closed, float64(n), name, strconv.Itoa(int(code)))
		}
	}
	for name, h := range c.hubs {
		s := h.Stats()
		out.gauge(c.streams, float64(s.Streams), name)
		out.gauge(c.topics, float64(s.Topics), name)
		out.gauge(c.events, float64(s.Events), name)
		out.gauge(c.bytes, float64(s.HistoryBytes), name)
	}
}
