package sluice

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// attacher is a Server as a server.Attacher.
type attacher Server

// Attach implements server.Attacher. The attachment is part of what the Server serves now:
// Shutdown ends it with the engine, and after that it belongs to no later one.
func (t *attacher) Attach(p server.Attached) (server.Attachment, error) {
	s := (*Server)(t)
	if s.Handler == nil {
		return nil, errNoHandler
	}
	a := &attachment{acceptor: newAcceptor(s, s.config()), protocol: p, ended: make(chan struct{})}
	a.ctx, a.cut = context.WithCancel(context.Background())
	cfg := a.cfg
	a.config = server.AttachedConfig{
		Limits: cfg.Limits, ReadTimeout: cfg.ReadTimeout, WriteTimeout: cfg.WriteTimeout, IdleTimeout: cfg.IdleTimeout,
		MaxRequests: cfg.MaxRequests, MaxBodyMemory: cfg.maxBodyMemory,
		AsksUser: cfg.AsksUser, StreamsBodies: cfg.streamBody, LogsAll: cfg.LogsAll, ClosesHijacked: cfg.ClosesHijacked,
		Meter: cfg.Meter,
	}
	s.state.Lock()
	defer s.state.Unlock()
	if s.state.isShutDown {
		return nil, ErrServerClosed
	}
	a.config.TLS = s.TLSConfig
	a.engine = s.engineLocked()
	s.state.attached = append(s.state.attached, a)
	s.http3Gauges().add(p)
	return a, nil
}

// attachment implements server.Attachment. Of the acceptor's methods, it has those of a
// server.Host, and RunHijacked.
type attachment struct {
	*acceptor
	protocol server.Attached
	engine   engine.Engine
	config   server.AttachedConfig

	mu        sync.Mutex
	announced *[]byte // by this attachment

	ctx   context.Context // of protocol.Shutdown; cut ends it
	cut   context.CancelFunc
	err   error         // of protocol.Shutdown
	ended chan struct{} // closed when that has returned
}

var _ server.Attachment = (*attachment)(nil)

// Config implements server.Attachment.
func (a *attachment) Config() *server.AttachedConfig { return &a.config }

// Detach implements server.Attachment.
func (a *attachment) Detach() {
	s := a.server
	a.Announce(nil)
	s.state.Lock()
	s.state.attached = slices.DeleteFunc(s.state.attached, func(other *attachment) bool { return other == a })
	s.state.Unlock()
	s.http3Gauges().remove(a.protocol)
}

// Admit implements server.Attachment.
func (a *attachment) Admit(c net.Conn) (server.Facts, error) {
	a.arrived()
	if err := a.admit(c); err != nil {
		a.departed()
		return server.Facts{}, err
	}
	a.tell(c, StateNew)
	return server.Facts{ID: a.server.gauges.connID.Add(1), Opened: clock.Nanos(), Version: 3, IsTLS: true}, nil
}

// SetActive implements server.Attachment.
func (a *attachment) SetActive(c net.Conn, isActive bool) {
	if isActive {
		a.tell(c, StateActive)
	} else {
		a.tell(c, StateIdle)
	}
}

func (a *attachment) tell(c net.Conn, state ConnState) {
	if a.cfg.connState != nil {
		a.cfg.connState(c, state)
	}
}

// Transferred implements server.Attachment.
func (a *attachment) Transferred(read, written int) { a.cfg.meter.transferred(read, written) }

// Release implements server.Attachment.
func (a *attachment) Release(c net.Conn, err error) {
	a.tell(c, StateClosed)
	if err != nil {
		a.Log(c, err)
	}
	a.acceptor.Release(c)
	a.departed()
}

// Log implements server.Attachment. Without LogAllErrors it skips errors that the client
// causes.
func (a *attachment) Log(c net.Conn, err error) {
	var violation server.Violation
	if a.cfg.LogsAll || !errors.As(err, &violation) {
		a.cfg.logConnError(c, err)
	}
}

// Workers implements server.Attachment.
func (a *attachment) Workers(key uint64) engine.Workers { return a.engine.Workers(key) }

// Stage implements server.Attachment.
func (a *attachment) Stage() server.Stage { return a.server.stage() }

// IsClosing implements server.Attachment.
func (a *attachment) IsClosing(f *server.Facts) bool { return a.cfg.isClosing(a.server, f) }

// beginEnd shuts the protocol down, on another goroutine. The engine shuts down meanwhile, and
// must run the Tasks of requests that still arrive. So a Task of ours keeps it from its end.
func (a *attachment) beginEnd() {
	a.Workers(0).Go((*keeper)(a))
	go func() {
		defer close(a.ended)
		a.err = a.protocol.Shutdown(a.ctx)
	}()
}

// A keeper is the Task that waits until the protocol of an attachment has ended.
type keeper attachment

// Run implements engine.Task.
func (k *keeper) Run() {
	w := (*attachment)(k).Workers(0)
	w.Exempt(1)
	defer w.Exempt(-1)
	<-k.ended
}

// Lost implements engine.Task: the time for Shutdown is over.
func (k *keeper) Lost(error) {}

// ServeProtocol implements server.Attachment. All engines leave ServeConn to that of
// goroutines.
func (a *attachment) ServeProtocol(c net.Conn, open func(engine.Conn, []byte) (engine.Protocol, []byte)) error {
	return closedError(a.engine.ServeConn(c, nil, &streamAcceptor{a.acceptor, open}))
}

// A streamAcceptor is the engine.Acceptor of one stream that has left HTTP. Nothing counts it.
type streamAcceptor struct {
	of   *acceptor
	open func(engine.Conn, []byte) (engine.Protocol, []byte)
}

var _ engine.Waker = (*streamAcceptor)(nil)

// Open implements engine.Acceptor.
func (s *streamAcceptor) Open(c engine.Conn) (engine.Protocol, []byte) {
	if timeout := s.of.cfg.WriteTimeout; timeout > 0 {
		c.SetWriteTimeout(timeout)
	}
	c.Prompter().Prompt()
	return &streamOpener{conn: c, open: s.open}, nil
}

// Admit implements engine.Acceptor.
func (s *streamAcceptor) Admit(net.Conn) (ok bool, refusal []byte) { return true, nil }

// Release implements engine.Acceptor.
func (s *streamAcceptor) Release(net.Conn) {}

// AcceptError implements engine.Acceptor.
func (s *streamAcceptor) AcceptError(error) {}

// Wake implements engine.Waker.
func (s *streamAcceptor) Wake(c engine.Conn, m engine.Memo) engine.Protocol {
	return s.of.server.wakeUpgraded(c, m)
}

// A streamOpener is the Protocol of such a stream until the one that it has opened succeeds
// it, which is before any input is read.
type streamOpener struct {
	conn engine.Conn
	open func(engine.Conn, []byte) (engine.Protocol, []byte)
	next engine.Protocol
}

// Capabilities implements engine.Protocol.
func (o *streamOpener) Capabilities() engine.Capabilities { return engine.CanPrompt | engine.CanSwitch }

// Prompted implements engine.Prompted.
func (o *streamOpener) Prompted(out []byte) ([]byte, engine.Next) {
	if o.next, out = o.open(o.conn, out); o.next == nil {
		return out, engine.Close
	}
	return out, engine.Switch
}

// Successor implements engine.Switcher.
func (o *streamOpener) Successor() engine.Protocol { return o.next }

// Feed implements engine.Protocol.
func (o *streamOpener) Feed([]byte) (used int, next engine.Next) { return 0, engine.Run }

// Run implements engine.Protocol.
func (o *streamOpener) Run(out []byte) ([]byte, engine.Next) { return o.Prompted(out) }

// Pause implements engine.Protocol.
func (o *streamOpener) Pause() (isIdle bool) { return false }

// HalfClosed implements engine.Protocol.
func (o *streamOpener) HalfClosed(out []byte) []byte { return out }

// TimedOut implements engine.Protocol.
func (o *streamOpener) TimedOut(out []byte) ([]byte, engine.Next) { return out, engine.Abort }

// Detached implements engine.Protocol.
func (o *streamOpener) Detached(c net.Conn) { c.Close() }

// Closed implements engine.Protocol.
func (o *streamOpener) Closed(error) {}

// Announce implements server.Attachment. Another attachment's value is not taken back.
func (a *attachment) Announce(altSvc []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(altSvc) == 0 {
		a.server.gauges.altSvc.CompareAndSwap(a.announced, nil)
		a.announced = nil
		return
	}
	value := h1.AppendFieldValue(nil, altSvc)
	a.announced = &value
	a.server.gauges.altSvc.Store(a.announced)
}

// HTTP3Stats are the gauges of the HTTP/3 connections of a Server, which module http3 serves. If
// the Server has a Meter (ServerControl.Meter), they are those of all servers that use it. The
// zero value is that of a server without HTTP/3.
type HTTP3Stats struct {
	// Connections is the number of open HTTP/3 connections, whose handshakes are complete.
	Connections int `json:"connections"`
	// Idle is the number of these connections without a request.
	Idle int `json:"idle"`
	// Streams is the number of open streams with requests: those that arrive, wait for a
	// handler or have one, and responses that are not sent completely.
	Streams int `json:"streams"`
	// Resets counts the requests that the client or the server has ended early: with
	// RESET_STREAM or STOP_SENDING (RFC 9000 sections 19.4 and 19.5).
	Resets uint64 `json:"resets"`
	// Calmed counts the connections that the server has ended with H3_EXCESSIVE_LOAD, because
	// the client caused too much work or sent a head too slowly.
	Calmed uint64 `json:"calmed"`
	// Retries counts the handshakes for which the server wanted a proof of the client's
	// address first (RFC 9000 section 8.1.2).
	Retries uint64 `json:"retries"`
	// Refused counts the connections that were refused: because of too many handshakes, of
	// limits of the Server, or because it shuts down.
	Refused uint64 `json:"refused"`
	// Lost counts the connections that have ended because the client did not answer any more.
	Lost uint64 `json:"lost"`
}

// http3Gauges are the protocols of which HTTP3Stats tells. The zero value has none.
type http3Gauges struct {
	mu    sync.Mutex
	of    []server.Attached
	ended HTTP3Stats // what those have counted that were removed
}

// http3Gauges returns where what is attached to s counts.
func (s *Server) http3Gauges() *http3Gauges {
	if m := s.control.Meter; m != nil {
		return &m.http3
	}
	return &s.gauges.http3
}

func (g *http3Gauges) add(p server.Attached) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.of = append(g.of, p)
}

// remove removes p, if it is there, and keeps what it has counted.
func (g *http3Gauges) remove(p server.Attached) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := slices.Index(g.of, p)
	if at < 0 {
		return
	}
	g.of = slices.Delete(g.of, at, at+1)
	g.ended.addCounts(p.Stats())
}

// handshakes returns how many handshakes are in progress.
func (g *http3Gauges) handshakes() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.of {
		n += p.Handshakes()
	}
	return n
}

// sum returns the gauges of all.
func (g *http3Gauges) sum() HTTP3Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	total := g.ended
	for _, p := range g.of {
		s := p.Stats()
		total.Connections += s.Connections
		total.Idle += s.Idle
		total.Streams += s.Streams
		total.addCounts(s)
	}
	return total
}

// addCounts adds the counters of s, which only grow.
func (t *HTTP3Stats) addCounts(s server.AttachedStats) {
	t.Resets += s.Resets
	t.Calmed += s.Calmed
	t.Retries += s.Retries
	t.Refused += s.Refused
	t.Lost += s.Lost
}
