package sluice

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/server/http1"
	"github.com/sluicehttp/sluice/internal/server/http2"
)

// serverGauges are the counters of a Server that change without its mutex.
type serverGauges struct {
	isClosing atomic.Bool // connections are closed after their next response
	// Each request reads what is above, and each connection writes what is below. A
	// cache line apart, writing does not take the line from all other processors.
	_ [64]byte

	connID     atomic.Uint64
	arrived    atomic.Int64 // connections that engines own, and hijacked ones
	admitted   atomic.Int64 // of these, the ones that count against limits
	hijacked   atomic.Int64 // connections that hijack handlers own
	rejected   atomic.Uint32
	bodyMemory atomic.Int64         // bytes of request bodies held
	timed      atomic.Int64         // handlers running under TimeoutHandler
	hasWarned  [misuses]atomic.Bool // this misuse is logged
	http2      http2.Gauges         // unless there is a Meter
	forms      message.FormCollector
}

// open returns the number of connections that engines own, from the moment at
// which they are accepted or adopted.
func (g *serverGauges) open() int64 { return max(g.arrived.Load()-g.hijacked.Load(), 0) }

// served returns the number of connections that count against limits.
func (g *serverGauges) served() int64 { return max(g.admitted.Load()-g.hijacked.Load(), 0) }

// acceptor is the engine.Acceptor of one Serve or ServeConn, or of all adopted
// connections.
type acceptor struct {
	server *Server
	cfg    *serverConfig
	hooks  engine.Hooks // empty for ServeConn, whose connections Admit counts
}

// newAcceptor returns an acceptor for many connections.
func newAcceptor(s *Server, cfg *serverConfig) *acceptor {
	a := &acceptor{server: s, cfg: cfg}
	a.hooks = engine.Hooks{Arrived: a.arrived, Departed: a.departed, Divert: s.control.Divert}
	return a
}

// A single is the state of one ServeConn.
type single struct {
	acceptor acceptor
	config   serverConfig
	name     []byte         // memory of config.name
	streams  sync.WaitGroup // requests of HTTP/2 that have not ended

	mu      sync.Mutex // requests of HTTP/2 run at the same time
	failure error      // why the connection or a request was refused; nil: neither
	// isRetained is set when other goroutines may use config after ServeConn has
	// returned.
	isRetained bool
}

// fail stores err for ServeConn. The first one counts.
func (c *serverConfig) fail(err error) {
	if one := c.single; one != nil {
		one.mu.Lock()
		defer one.mu.Unlock()
		if one.failure == nil {
			one.failure = err
		}
	}
}

// retain prevents c from being reused for another ServeConn.
func (c *serverConfig) retain() {
	if one := c.single; one != nil {
		one.mu.Lock()
		defer one.mu.Unlock()
		one.isRetained = true
	}
}

// tellState calls Server.ConnState.
func (c *serverConfig) tellState(conn engine.Conn, state ConnState) {
	if c.connState != nil {
		c.connState(conn.NetConn(), state)
	}
}

// logConnError logs an error of conn. Without LogAllErrors it skips errors that
// the client causes.
func (c *serverConfig) logConnError(conn engine.Conn, err error) {
	if !c.LogsAll {
		var netErr net.Error
		if errors.As(err, &netErr) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
			return
		}
	}
	c.logger.Printf("error when serving connection %q<->%q: %v", conn.LocalAddr(), conn.RemoteAddr(), err)
}

// Admit counts a connection against the limits; see engine.Acceptor.
func (a *acceptor) Admit(c net.Conn) (ok bool, refusal []byte) {
	s := a.server
	if s.gauges.admitted.Add(1)-s.gauges.hijacked.Load() > a.cfg.concurrency {
		s.gauges.admitted.Add(-1)
		s.gauges.rejected.Add(1)
		a.cfg.meter.refused()
		a.cfg.fail(ErrConcurrencyLimit)
		a.cfg.logger.Printf("connection from %s refused: Server.Concurrency=%d is reached", c.RemoteAddr(), a.cfg.concurrency)
		time.Sleep(a.cfg.refusalPause)
		return false, refusalText(StatusServiceUnavailable, "The connection cannot be served: the server's concurrency limit is reached")
	}
	if !s.perIP.Add(c, a.cfg.perIP) {
		s.gauges.admitted.Add(-1)
		a.cfg.meter.refused()
		a.cfg.fail(ErrPerIPConnLimit)
		return false, refusalText(StatusTooManyRequests, "The number of connections from your address is limited")
	}
	if a.cfg.single != nil {
		s.gauges.arrived.Add(1)
	}
	return true, nil
}

// RefusePlain implements engine.PlainRefuser: a client that sends HTTP without TLS is told
// so, as one that speaks HTTP/2 is, in the form that people can read.
func (a *acceptor) RefusePlain(first []byte) (refusal []byte) {
	method, _, _ := bytes.Cut(first, []byte(" "))
	isUpper := func(c rune) bool { return 'A' <= c && c <= 'Z' || c == '-' }
	if len(method) < len("GET") || len(bytes.TrimLeftFunc(method, isUpper)) > 0 {
		return nil
	}
	return refusalText(StatusBadRequest, "This port speaks HTTPS, and the request came in plain HTTP: use https://")
}

// Hooks makes the engine count connections and call ServerControl.Divert; see
// engine.Hooker.
func (a *acceptor) Hooks() engine.Hooks {
	if m := a.cfg.meter; m != nil && a.cfg.single != nil {
		return engine.Hooks{Arrived: m.arrived, Departed: m.departed}
	}
	return a.hooks
}

// arrived counts a connection that the engine has got; departed counts it when
// it ends.
func (a *acceptor) arrived() {
	a.server.gauges.arrived.Add(1)
	a.cfg.meter.arrived()
}

func (a *acceptor) departed() {
	a.server.gauges.arrived.Add(-1)
	a.cfg.meter.departed()
}

// Release undoes the counting of Admit; see engine.Acceptor.
func (a *acceptor) Release(c net.Conn) {
	if a.cfg.single != nil {
		a.server.gauges.arrived.Add(-1)
	}
	a.server.gauges.admitted.Add(-1)
	a.server.perIP.Remove(c, a.cfg.perIP)
}

// AcceptError logs a failed Accept, which the engine retries; see
// engine.Acceptor.
func (a *acceptor) AcceptError(err error) {
	a.cfg.logger.Printf("cannot accept a connection, trying again: %v", err)
}

// Open creates the state of a new connection; see engine.Acceptor.
func (a *acceptor) Open(conn engine.Conn) (engine.Protocol, []byte) {
	s := a.server
	facts := server.Facts{ID: s.gauges.connID.Add(1), Opened: clock.Nanos()}
	a.cfg.tellState(conn, StateNew)
	if !conn.IsSocket() {
		if stater, ok := conn.NetConn().(tlsStater); ok {
			facts.IsTLS = true
			state := stater.ConnectionState()
			protocol := state.NegotiatedProtocol
			if handler := s.nextProto(protocol); handler != nil {
				return &alpnConn{conn: conn, cfg: a.cfg, handler: handler}, nil
			}
			if protocol == engine.ProtocolHTTP2 && state.Version >= tls.VersionTLS12 && a.cfg.speaksHTTP2(s) {
				return a.openHTTP2(conn, facts, nil), nil
			}
		}
	}
	if a.cfg.IdleTimeout > 0 {
		conn.SetReadDeadline(facts.Opened, a.cfg.IdleTimeout)
	}
	if a.cfg.WriteTimeout > 0 {
		conn.SetWriteTimeout(a.cfg.WriteTimeout)
	}
	return http1.Open(conn, a, &a.cfg.Config, facts), nil
}
