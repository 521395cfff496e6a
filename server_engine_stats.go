package sluice

import "github.com/sluicehttp/sluice/internal/server/http2"

// EngineStats is a snapshot of the gauges of a Server's engine. Its fields are
// read one after the other while the server runs, so they may disagree
// slightly.
type EngineStats struct {
	// Engine is the engine's name, as Engine.String returns it. It is empty when
	// the server does not serve.
	Engine string `json:"engine"`
	// Connections is the number of connections of the engine, without hijacked
	// ones.
	Connections int `json:"connections"`
	// Active is the number of connections with a request in progress.
	Active int `json:"active"`
	// Loops has one element for each part of the engine that owns connections.
	Loops []LoopStats `json:"loops"`
	// HTTP2 are the gauges of HTTP/2.
	HTTP2 HTTP2Stats `json:"http2"`
}

// HTTP2Stats are the gauges of the HTTP/2 connections of a Server. If the Server has a
// Meter (ServerControl.Meter), they are those of all servers that use it. The zero value
// is that of a server without HTTP/2.
type HTTP2Stats struct {
	// Connections is the number of open HTTP/2 connections. A connection counts from its
	// preface on.
	Connections int `json:"connections"`
	// Idle is the number of these connections without an open stream.
	Idle int `json:"idle"`
	// Streams is the number of open streams: requests that arrive, wait for a handler or
	// have one, and responses that are not sent completely.
	Streams int `json:"streams"`
	// Resets counts the streams that the client or the server has ended with RST_STREAM
	// (RFC 9113 section 6.4), including requests that were refused.
	Resets uint64 `json:"resets"`
	// Calmed counts the connections that the server has ended with ENHANCE_YOUR_CALM,
	// because the client caused too much work or sent a head too slowly.
	Calmed uint64 `json:"calmed"`
}

func http2Stats(g *http2.Gauges) HTTP2Stats {
	s := g.Sum()
	return HTTP2Stats{
		Connections: int(s.Conns), Idle: int(s.Idle), Streams: int(s.Streams),
		Resets: uint64(s.Resets), Calmed: uint64(s.Calmed),
	}
}

// http2Gauges returns where the connections of s count.
func (s *Server) http2Gauges() *http2.Gauges {
	if m := s.control.Meter; m != nil {
		return &m.http2
	}
	return &s.gauges.http2
}

// LoopStats are the gauges of one part of an engine: an event loop with its
// workers, or the whole of EnginePerConn.
type LoopStats struct {
	// Connections is the number of open connections.
	Connections int `json:"connections"`
	// Active is the number of connections that are in the middle of a request, or
	// claimed by a worker.
	Active int `json:"active"`
	// Queued is the number of connections that are ready and wait for a worker. It
	// grows when handlers occupy all workers or all processors.
	Queued int `json:"queued"`
	// Workers is the number of goroutines that run handlers.
	Workers int `json:"workers"`
	// IdleWorkers is the number of workers that wait for work.
	IdleWorkers int `json:"idle_workers"`
	// Buffers is the number of input and output buffers in use.
	Buffers int `json:"buffers"`
}

// EngineStats returns a snapshot of the engine's gauges, and the zero value if
// the server does not serve. Use it for monitoring only: it visits each
// connection or each loop.
func (s *Server) EngineStats() EngineStats {
	e := s.currentEngine()
	if e == nil {
		return EngineStats{}
	}
	total, loops := e.Stats(), e.Loops()
	stats := EngineStats{
		Engine:      e.Name(),
		Connections: total.Open,
		Active:      total.Active,
		Loops:       make([]LoopStats, len(loops)),
		HTTP2:       http2Stats(s.http2Gauges()),
	}
	for i, l := range loops {
		stats.Loops[i] = LoopStats(l)
	}
	return stats
}

// EngineStats returns Server.EngineStats of the server that received the
// request, and the zero value outside a server.
func (ctx *RequestCtx) EngineStats() EngineStats {
	if ctx.server == nil {
		return EngineStats{}
	}
	return ctx.server.EngineStats()
}
