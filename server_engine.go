package sluice

import (
	"fmt"
	"net"
	"runtime"
	"strings"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/epoll"
	"github.com/sluicehttp/sluice/internal/engine/perconn"
)

// An Engine is a way to move bytes between sockets and requests. Handlers need
// not know which one runs them: they may block in all of them.
type Engine uint8

const (
	// EngineAuto is EngineEpoll where that works, and EnginePerConn elsewhere.
	EngineAuto Engine = iota
	// EnginePerConn has a goroutine for each connection. It serves every
	// net.Conn on every system.
	EnginePerConn
	// EngineEpoll waits for all connections at once and has goroutines for
	// those that have something to do: an idle connection costs next to
	// nothing. It needs Linux, on amd64 or arm64, and sockets that it knows:
	// those of a net.TCPListener or net.UnixListener, with or without the TLS of
	// ServeTLS, and those of other listeners that prove to be a *net.TCPConn.
	// EnginePerConn serves the connections that it cannot.
	EngineEpoll
)

// engineNames are the names of the engines, by their number.
var engineNames = [...]string{EngineAuto: "auto", EnginePerConn: "perconn", EngineEpoll: "epoll"}

// String returns the name that ParseEngine knows: "auto", "perconn" or "epoll".
func (e Engine) String() string {
	if int(e) < len(engineNames) {
		return engineNames[e]
	}
	return fmt.Sprintf("Engine(%d)", uint8(e))
}

// ParseEngine returns the engine of a name: "auto", "perconn" or "epoll".
func ParseEngine(name string) (Engine, error) {
	for e, known := range engineNames {
		if name == known {
			return Engine(e), nil
		}
	}
	return EngineAuto, fmt.Errorf("sluice: there is no engine %q: it must be auto, perconn or epoll", name)
}

// MarshalText implements encoding.TextMarshaler.
func (e Engine) MarshalText() ([]byte, error) {
	if int(e) >= len(engineNames) {
		return nil, fmt.Errorf("sluice: there is no engine with the number %d", uint8(e))
	}
	return []byte(engineNames[e]), nil
}

// UnmarshalText implements encoding.TextUnmarshaler; it takes what ParseEngine
// takes.
func (e *Engine) UnmarshalText(text []byte) (err error) {
	*e, err = ParseEngine(string(text))
	return err
}

// EngineInfo tells which engine serves, and why.
type EngineInfo struct {
	// Engine is EnginePerConn or EngineEpoll.
	Engine Engine `json:"engine"`
	// Reason says why, for humans.
	Reason string `json:"reason"`
}

// String describes i for logs: "epoll (auto: linux, TCP listener)".
func (i EngineInfo) String() string { return fmt.Sprintf("%v (%s)", i.Engine, i.Reason) }

// EngineInfo tells which engine serves, or would serve, connections from ln,
// which is what Serve or ServeTLS gets, and why. With a nil ln it tells which one
// serves wherever the listener allows it. Of a listener that is not of package
// net it can only say which engine serves connections that are not bare
// sockets. It may be called before Serve, once the fields of s are set.
func (s *Server) EngineInfo(ln net.Listener) EngineInfo {
	obstacle := s.epollObstacle(ln)
	switch {
	case s.Engine == EnginePerConn:
		return EngineInfo{EnginePerConn, "as set"}
	case obstacle != nil && s.Engine == EngineEpoll:
		return EngineInfo{EnginePerConn, "epoll is set, but " + textOf(obstacle)}
	case obstacle != nil:
		return EngineInfo{EnginePerConn, "auto: " + textOf(obstacle)}
	case s.Engine == EngineEpoll:
		return EngineInfo{EngineEpoll, "as set"}
	case ln == nil:
		return EngineInfo{EngineEpoll, "auto: " + runtime.GOOS}
	}
	kind, _ := listenerKind(ln)
	return EngineInfo{EngineEpoll, "auto: " + runtime.GOOS + ", " + kind}
}

// textOf is an error's text for the middle of a sentence.
func textOf(err error) string { return strings.TrimPrefix(err.Error(), "sluice: ") }

// epollObstacle says why EngineEpoll cannot serve ln; nil: it can.
func (s *Server) epollObstacle(ln net.Listener) error {
	s.mu.Lock()
	isServing, err := s.state.engine != nil, s.state.noEpoll
	s.mu.Unlock()
	if !isServing {
		_, err = s.newEngine() // a try: it holds nothing before it serves
	}
	if err != nil || ln == nil {
		return err
	}
	if kind, hasSockets := listenerKind(ln); !hasSockets {
		return fmt.Errorf("%s may yield more than bare sockets", kind)
	}
	return nil
}

// listenerKind names what ln is, and tells whether it yields bare sockets.
func listenerKind(ln net.Listener) (kind string, hasSockets bool) {
	switch l := ln.(type) {
	case *net.TCPListener:
		return "TCP listener", true
	case *net.UnixListener:
		return "unix listener", true
	case *engine.TLSListener:
		kind, hasSockets = listenerKind(l.Listener)
		return kind + " with TLS", hasSockets
	}
	return fmt.Sprintf("%T", ln), false
}

// logFallback tells the log once for each Serve that the engine that was set is
// not the one that serves.
func (s *Server) logFallback(ln net.Listener, logger Logger) {
	if s.Engine != EngineEpoll {
		return
	}
	if info := s.EngineInfo(ln); info.Engine != EngineEpoll {
		logger.Printf("connections are served by engine %v", info)
	}
}

// newEngine makes the engine of s. noEpoll says why that is not EngineEpoll.
func (s *Server) newEngine() (e engine.Engine, noEpoll error) {
	options := s.engineOptions()
	fallback := perconn.New(options)
	if s.Engine == EnginePerConn {
		return fallback, nil
	}
	if e, noEpoll = epoll.New(options, fallback); noEpoll != nil {
		return fallback, noEpoll
	}
	return e, nil
}
