package sluice

import "github.com/sluicehttp/sluice/internal/engine"

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
	s.mu.Lock()
	e := s.state.engine
	s.mu.Unlock()
	if e == nil {
		return EngineStats{}
	}
	return engineStats(e)
}

func engineStats(e engine.Engine) EngineStats {
	total, loops := e.Stats(), e.Loops()
	stats := EngineStats{
		Engine:      e.Name(),
		Connections: total.Open,
		Active:      total.Active,
		Loops:       make([]LoopStats, len(loops)),
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
