//go:build linux

package member

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"sync/atomic"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/sse"
	"github.com/sluicehttp/sluice/tcp"
	"github.com/sluicehttp/sluice/tools/lab/internal/control"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
	"github.com/sluicehttp/sluice/websocket/room"
)

// A server is a process that serves, or a worker of prefork's.
type server struct {
	*process
	requests atomic.Uint64
	hub      *sse.Hub       // nil: there are no server-sent events
	rooms    *room.Hub      // nil: there are no WebSockets
	tcp      *tcp.Server    // nil: there is HTTP only
	http     *sluice.Server // nil: there is TCP only
	written  atomic.Uint64  // bytes, if there are pings
}

func newServer(p *process) *server {
	s := &server{process: p}
	work := p.config.Scenario.Workload
	switch p.config.Scenario.Protocol {
	case scenario.TCP:
		s.tcp = p.newTCP(s.handler(work))
	case scenario.WebSocket:
		s.rooms, _ = room.New(room.Options{}) // without a backplane it cannot fail
		s.http = p.newHTTP(s.upgrade(work))
		s.http.HTTP2.Disable = true
		if p.config.Scenario.Pings > 0 {
			s.http.Control().Meter = &sluice.Meter{BytesWritten: &s.written}
		}
	case scenario.SSE:
		s.hub = p.newHub()
		s.http = p.newHTTP(s.publish(work))
		s.http.HTTP2.Disable = true
	default:
		s.http = p.newHTTP(s.answer(work))
		s.http.HTTP2.Disable = p.config.Scenario.Protocol != scenario.HTTP2
	}
	return s
}

func (p *process) newTCP(handler tcp.Handler) *tcp.Server {
	return &tcp.Server{Handler: handler, Engine: p.engine(), MaxWorkers: p.config.MaxWorkers, Loops: p.config.Loops}
}

func (p *process) newHTTP(handler sluice.RequestHandler) *sluice.Server {
	return &sluice.Server{
		Handler:    handler,
		Engine:     p.engine(),
		MaxWorkers: p.config.MaxWorkers,
		Loops:      p.config.Loops,
		// The limit that a process has is that of its descriptors.
		Concurrency: 1 << 30,
		TLSConfig:   &tls.Config{MinVersion: tls.VersionTLS13},
		CompactTLS:  p.config.Scenario.CompactTLS,
	}
}

// engine is the one that the scenario asks for.
func (p *process) engine() sluice.Engine {
	if p.config.Scenario.Server == scenario.Goroutine {
		return sluice.EnginePerConn
	}
	return sluice.EngineEpoll
}

// serve serves ln.
func (s *server) serve(ln net.Listener) error {
	switch s.config.Scenario.Protocol {
	case scenario.TCP:
		return s.tcp.Serve(ln)
	case scenario.HTTPS: // with a certificate that lives as long as the process
		certificate, key, err := sluice.GenerateTestCertificate("localhost")
		if err != nil {
			return err
		}
		return s.http.ServeTLSEmbed(ln, certificate, key)
	}
	return s.http.Serve(ln)
}

// start implements role.
func (s *server) start() error {
	if s.config.Scenario.Server == scenario.Prefork {
		return (&master{process: s.process}).lead(s)
	}
	lc := net.ListenConfig{KeepAlive: -1}
	lc.SetMultipathTCP(false)
	ln, err := lc.Listen(context.Background(), "tcp4", s.config.Addr)
	if err != nil {
		return err
	}
	if err := s.link.Send(control.Message{Ready: &control.Ready{}}); err != nil {
		return err
	}
	return s.serve(ln)
}

// receive implements role.
func (s *server) receive(m control.Message) {
	if m.Broadcast != nil && s.rooms != nil {
		go s.broadcast(*m.Broadcast)
	}
}

// count implements role.
func (s *server) count(stats *control.Stats) {
	stats.Requests, stats.Written = s.requests.Load(), s.written.Load()
	if !stats.Asked { // it would look at every connection
		return
	}
	switch {
	case s.tcp != nil:
		stats.Connections = s.tcp.Stats().Connections
	case s.hub != nil: // without those on which events are asked for
		stats.Connections = s.hub.Stats().Streams
	default:
		stats.Connections = int(s.http.GetOpenConnectionsCount())
	}
}

// A master is the process above prefork's workers.
type master struct{ *process }

// start implements role.
func (m *master) start() error { return m.lead(newServer(m.process)) }

func (m *master) receive(control.Message) {}

func (m *master) count(*control.Stats) {}

// lead is the same in a master and in its workers, as package prefork has it.
func (m *master) lead(s *server) error {
	var p *prefork.Prefork
	if s.http != nil {
		p = prefork.New(s.http)
		p.ServeFunc = s.serve // which knows of TLS
	} else {
		p = &prefork.Prefork{ServeFunc: s.serve, Drain: s.tcp.Shutdown}
	}
	p.Logger = log.New(io.Discard, "", 0)
	p.Workers, p.MaxWorkers = m.config.Workers, m.config.Workers
	p.GOMAXPROCS = m.config.Processors
	p.SharedSockets = m.config.Scenario.Shared
	// A worker that dies has lost its connections: the run is over.
	p.RecoverThreshold = 0
	p.OnFleetReady = func() { _ = m.link.Send(control.Message{Ready: &control.Ready{}}) }
	return p.ListenAndServe(m.config.Addr)
}
