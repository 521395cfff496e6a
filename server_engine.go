package sluice

import (
	"fmt"
	"net"
	"runtime"
	"strings"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/choose"
	"github.com/sluicehttp/sluice/internal/engine/compact"
	"github.com/sluicehttp/sluice/internal/engine/uring"
	"github.com/sluicehttp/sluice/internal/server/http2"
)

// An Engine moves bytes between sockets and requests. Handlers need not know
// which engine runs them: they may block on all of them.
type Engine uint8

const (
	// EngineAuto is EngineEpoll where EngineEpoll works, and EnginePerConn
	// elsewhere.
	EngineAuto Engine = iota
	// EnginePerConn runs a goroutine for each connection. It serves every net.Conn
	// on every system.
	EnginePerConn
	// EngineEpoll waits for all connections at once, and runs goroutines only for
	// those that have work: an idle connection costs very little. It needs Linux
	// on amd64 or arm64. It serves the sockets of a net.TCPListener or
	// net.UnixListener, with or without the TLS of ServeTLS, and connections of
	// other listeners that are a *net.TCPConn. EnginePerConn serves the other
	// connections.
	EngineEpoll
)

// engineNames are the names of the engines, indexed by Engine.
var engineNames = [...]string{EngineAuto: "auto", EnginePerConn: "perconn", EngineEpoll: "epoll"}

// String returns the name that ParseEngine accepts: "auto", "perconn" or
// "epoll".
func (e Engine) String() string {
	if int(e) < len(engineNames) {
		return engineNames[e]
	}
	return fmt.Sprintf("Engine(%d)", uint8(e))
}

// ParseEngine returns the engine with the given name: "auto", "perconn" or
// "epoll". Any other name is an error.
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

// UnmarshalText implements encoding.TextUnmarshaler. It accepts what
// ParseEngine accepts.
func (e *Engine) UnmarshalText(text []byte) (err error) {
	*e, err = ParseEngine(string(text))
	return err
}

// EngineInfo says which engine serves, and why.
type EngineInfo struct {
	// Engine is EnginePerConn or EngineEpoll.
	Engine Engine `json:"engine"`
	// Reason is the explanation, for humans.
	Reason string `json:"reason"`
	// MultipathTCP is true if the listener's socket is one for Multipath TCP (RFC
	// 8684), as that of net.Listen is on Linux. Each new connection then costs
	// half as much CPU time again. It is false for nil, and for a listener without
	// a method SyscallConn.
	MultipathTCP bool `json:"multipath_tcp"`
	// CompactTLS is true if connections of ServeTLS can become compact, see
	// Server.CompactTLS. EngineStats.CompactTLS counts those that are.
	CompactTLS bool `json:"compact_tls"`
	// CompactObstacle is why CompactTLS is false although Server.CompactTLS is set,
	// for humans; empty otherwise.
	CompactObstacle string `json:"compact_obstacle,omitempty"`
	// IOUring is true if responses are sent by io_uring, see Server.IOUring.
	IOUring bool `json:"io_uring"`
	// IOUringObstacle is why IOUring is false although Server.IOUring is IOUringOn,
	// or IOUringAuto with GOMAXPROCS=1 and EngineEpoll, for humans; empty otherwise.
	IOUringObstacle string `json:"io_uring_obstacle,omitempty"`
}

// String describes i for logs: "epoll (auto: linux, TCP listener)". After the
// reason it says "multipath TCP" if i.MultipathTCP is true, "compact TLS" if
// i.CompactTLS is true and "io_uring" if i.IOUring is true, or why not.
func (i EngineInfo) String() string {
	about := i.Reason
	if i.MultipathTCP {
		about += "; multipath TCP"
	}
	switch {
	case i.CompactTLS:
		about += "; compact TLS"
	case i.CompactObstacle != "":
		about += "; no compact TLS: " + i.CompactObstacle
	}
	switch {
	case i.IOUring:
		about += "; io_uring"
	case i.IOUringObstacle != "":
		about += "; no io_uring: " + i.IOUringObstacle
	}
	return fmt.Sprintf("%v (%s)", i.Engine, about)
}

// EngineInfo reports which engine serves, or would serve, connections from ln,
// and why. ln is the listener that Serve or ServeTLS gets. If ln is nil,
// EngineInfo reports the engine for listeners that do not restrict the choice.
// For a listener that is not of package net, it reports only the engine for
// connections that are not bare sockets. It may be called before Serve, after
// the fields of s are set.
func (s *Server) EngineInfo(ln net.Listener) EngineInfo {
	e, reason := s.engineFor(ln)
	info := EngineInfo{Engine: e, Reason: reason, MultipathTCP: choose.IsMultipath(ln)}
	if s.CompactTLS {
		info.CompactObstacle = s.compactObstacle(e)
		info.CompactTLS = info.CompactObstacle == ""
	}
	if s.wantsIOUring() && (e == EngineEpoll || s.IOUring == IOUringOn) {
		info.IOUringObstacle = ioURingObstacle(e)
		info.IOUring = info.IOUringObstacle == ""
	}
	return info
}

// engineFor returns the engine for ln, and why.
func (s *Server) engineFor(ln net.Listener) (e Engine, reason string) {
	obstacle := s.epollObstacle(ln)
	switch {
	case s.Engine == EnginePerConn:
		return EnginePerConn, "as set"
	case obstacle != nil && s.Engine == EngineEpoll:
		return EnginePerConn, "epoll is set, but " + textOf(obstacle)
	case obstacle != nil:
		return EnginePerConn, "auto: " + textOf(obstacle)
	case s.Engine == EngineEpoll:
		return EngineEpoll, "as set"
	case ln == nil:
		return EngineEpoll, "auto: " + runtime.GOOS
	}
	kind, _ := choose.Listener(ln)
	return EngineEpoll, "auto: " + runtime.GOOS + ", " + kind
}

// compactObstacle returns why no connection that e serves becomes compact.
func (s *Server) compactObstacle(e Engine) string {
	if e != EngineEpoll {
		return "engine " + e.String() + " serves"
	}
	s.state.Lock() // of TLSConfig
	defer s.state.Unlock()
	if err := compact.Obstacle(s.TLSConfig); err != nil {
		return textOf(err)
	}
	return ""
}

// textOf returns an error's text for the middle of a sentence.
func textOf(err error) string { return strings.TrimPrefix(err.Error(), "sluice: ") }

// epollObstacle returns why EngineEpoll cannot serve ln, nil if it can.
func (s *Server) epollObstacle(ln net.Listener) error {
	s.state.Lock()
	isServing, err := s.state.Engine != nil, s.state.noEpoll
	s.state.Unlock()
	if !isServing {
		_, err = s.newEngine() // only a test: an engine holds no resources before it serves
	}
	if err != nil || ln == nil {
		return err
	}
	if kind, hasSockets := choose.Listener(ln); !hasSockets {
		return fmt.Errorf("%s may yield more than bare sockets", kind)
	}
	return nil
}

// logListener logs, once for each Serve, that ln is for Multipath TCP, and that
// the server does not use the engine that was set.
func (s *Server) logListener(ln net.Listener, logger Logger) {
	choose.LogMultipath(ln, logger.Printf)
	if s.Engine != EngineEpoll {
		return
	}
	if info := s.EngineInfo(ln); info.Engine != EngineEpoll {
		logger.Printf("connections are served by engine %v", info)
	}
}

// newEngine creates the engine of s. noEpoll is the reason if EngineEpoll was
// wanted and is not available.
func (s *Server) newEngine() (e engine.Engine, noEpoll error) {
	return choose.New(s.engineOptions(), s.Engine != EnginePerConn)
}

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
	// CompactTLS is the number of connections of TLS that are compact, see
	// Server.CompactTLS.
	CompactTLS int `json:"compact_tls"`
	// ColdTLS is the number of these that were idle for one to two seconds: their
	// ciphers have been released.
	ColdTLS int `json:"cold_tls"`
	// Loops has one element for each part of the engine that owns connections.
	Loops []LoopStats `json:"loops"`
	// HTTP2 are the gauges of HTTP/2.
	HTTP2 HTTP2Stats `json:"http2"`
	// HTTP3 are the gauges of HTTP/3, whose connections are in no Loop, and not in Connections.
	// The streams of HTTP/3 that were taken over are: those of WebSockets.
	HTTP3 HTTP3Stats `json:"http3"`
	// Handshakes is the number of TLS handshakes that have begun and wait for their clients.
	Handshakes int `json:"handshakes"`
	// HandshakesDropped counts the handshakes that were ended because too many had begun
	// after them: 2,048 for each processor.
	HandshakesDropped uint64 `json:"handshakes_dropped"`
	// ProxyRefused counts the connections that ended because of Server.ProxyProtocol: without a
	// header, with a wrong one, or of an untrusted peer.
	ProxyRefused uint64 `json:"proxy_refused"`
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
		CompactTLS:  total.Compact,
		ColdTLS:     total.Cold,
		Loops:       make([]LoopStats, len(loops)),
		HTTP2:       http2Stats(s.http2Gauges()),
		HTTP3:       s.http3Gauges().sum(),

		Handshakes:        total.Handshakes,
		HandshakesDropped: total.HandshakesDropped,
		ProxyRefused:      s.gauges.unproxied.Load(),
	}
	for i, l := range loops {
		stats.Loops[i] = LoopStats(l)
	}
	return stats
}

// An IOUring says whether EngineEpoll sends by io_uring, see Server.IOUring.
type IOUring uint8

const (
	// IOUringAuto is IOUringOn where that was measured to gain: with GOMAXPROCS=1,
	// as in the workers of package prefork.
	IOUringAuto IOUring = iota
	// IOUringOn sends by io_uring where the kernel allows it. Otherwise the server
	// serves without it, and EngineInfo.IOUringObstacle says why.
	IOUringOn
	// IOUringOff makes no use of io_uring.
	IOUringOff
)

// ioURingNames are the names of the values, indexed by IOUring.
var ioURingNames = [...]string{IOUringAuto: "auto", IOUringOn: "on", IOUringOff: "off"}

// String returns the name that ParseIOUring accepts: "auto", "on" or "off".
func (u IOUring) String() string {
	if int(u) < len(ioURingNames) {
		return ioURingNames[u]
	}
	return fmt.Sprintf("IOUring(%d)", uint8(u))
}

// ParseIOUring returns the value with the given name: "auto", "on" or "off". Any other
// name is an error.
func ParseIOUring(name string) (IOUring, error) {
	for u, known := range ioURingNames {
		if name == known {
			return IOUring(u), nil
		}
	}
	return IOUringAuto, fmt.Errorf("sluice: there is no setting %q of io_uring: it must be auto, on or off", name)
}

// MarshalText implements encoding.TextMarshaler.
func (u IOUring) MarshalText() ([]byte, error) {
	if int(u) >= len(ioURingNames) {
		return nil, fmt.Errorf("sluice: there is no setting of io_uring with the number %d", uint8(u))
	}
	return []byte(ioURingNames[u]), nil
}

// UnmarshalText implements encoding.TextUnmarshaler. It accepts what ParseIOUring
// accepts.
func (u *IOUring) UnmarshalText(text []byte) (err error) {
	*u, err = ParseIOUring(string(text))
	return err
}

// wantsIOUring reports whether the engine of s is to send by io_uring.
func (s *Server) wantsIOUring() bool {
	return s.IOUring == IOUringOn || s.IOUring == IOUringAuto && runtime.GOMAXPROCS(0) == 1
}

// ioURingObstacle returns why e does not send by io_uring although s wants it to.
func ioURingObstacle(e Engine) string {
	if e != EngineEpoll {
		return "engine " + e.String() + " serves"
	}
	if err := uring.Obstacle(); err != nil {
		return textOf(err)
	}
	return ""
}
