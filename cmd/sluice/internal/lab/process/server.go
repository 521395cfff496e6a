//go:build linux

package process

import (
	"context"
	"io"
	"log"
	"net"
	"sync/atomic"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/cmd/sluice/internal/lab/control"
	"github.com/sluicehttp/sluice/cmd/sluice/internal/lab/scenario"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/tcp"
)

// A server is a process that serves, or a worker of prefork's.
type server struct {
	*process
	requests atomic.Uint64
	tcp      *tcp.Server    // nil: HTTP
	http     *sluice.Server // nil: TCP
}

func newServer(p *process) *server {
	s := &server{process: p}
	work := p.config.Scenario.Workload
	if p.config.Scenario.Protocol == scenario.HTTP {
		s.http = &sluice.Server{
			Handler: s.answer(work),
			Engine:  p.engine(),
			// The limit that a process has is that of its descriptors.
			Concurrency: 1 << 30,
		}
		return s
	}
	s.tcp = &tcp.Server{
		Handler:    s.handler(work),
		Engine:     p.engine(),
		MaxWorkers: p.config.MaxWorkers,
		Loops:      p.config.Loops,
	}
	return s
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
	if s.http != nil {
		return s.http.Serve(ln)
	}
	return s.tcp.Serve(ln)
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

// receive implements role: servers have nothing to be told.
func (s *server) receive(control.Message) {}

// count implements role.
func (s *server) count(stats *control.Stats) {
	stats.Requests = s.requests.Load()
	switch {
	case !stats.Asked: // it would look at every connection
	case s.http != nil:
		stats.Connections = int(s.http.GetOpenConnectionsCount())
	default:
		stats.Connections = s.tcp.Stats().Connections
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
