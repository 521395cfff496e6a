package tcp

import (
	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/choose"
)

// Engine is sluice.Engine; the engines are the same as for HTTP.
// sluice.ParseEngine returns the Engine of a name.
type Engine = sluice.Engine

// The engines; see the constants of the same names in package sluice.
const (
	EngineAuto    = sluice.EngineAuto
	EnginePerConn = sluice.EnginePerConn
	EngineEpoll   = sluice.EngineEpoll
)

// start returns the engine in use and makes one if there is none.
func (s *Server) start(cfg *config) engine.Engine {
	s.serving.Lock()
	defer s.serving.Unlock()
	return s.startLocked(cfg)
}

// startLocked is start while the mutex is held.
func (s *Server) startLocked(cfg *config) engine.Engine {
	if s.serving.Engine == nil {
		s.serving.Engine = s.newEngine(cfg)
	}
	return s.serving.Engine
}

// newEngine makes the engine that s asks for, or perconn if epoll does not work.
func (s *Server) newEngine(cfg *config) engine.Engine {
	e, obstacle := choose.New(s.engineOptions(), s.Engine != EnginePerConn)
	if obstacle != nil && s.Engine == EngineEpoll {
		cfg.logger.Printf("connections are served by engine perconn, because epoll does not work: %v", obstacle)
	}
	return e
}

// Stats is a snapshot of a Server's counters and of its engine's gauges.
type Stats struct {
	sluice.EngineStats
	// Accepted is the number of connections accepted over the life of the
	// Server, without refused connections.
	Accepted uint64 `json:"accepted"`
	// Refused is the number of connections refused because of MaxConns,
	// MaxConnsPerIP or ProxyProtocol.
	Refused uint64 `json:"refused"`
}

// Stats returns a snapshot. It is meant for monitoring, not for hot paths, because
// it visits each connection or each loop.
func (s *Server) Stats() Stats {
	s.serving.Lock()
	e := s.serving.Engine
	s.serving.Unlock()
	stats := Stats{Accepted: s.gauges.accepted.Load(), Refused: s.gauges.refused.Load()}
	if e == nil {
		return stats
	}
	total, loops := e.Stats(), e.Loops()
	stats.Engine = e.Name()
	stats.Connections, stats.Active = total.Open, total.Active
	stats.Handshakes, stats.HandshakesDropped = total.Handshakes, total.HandshakesDropped
	stats.Loops = make([]sluice.LoopStats, len(loops))
	for i, loop := range loops {
		stats.Loops[i] = sluice.LoopStats(loop)
	}
	return stats
}
