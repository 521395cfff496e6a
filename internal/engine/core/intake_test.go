//go:build linux && (amd64 || arm64)

package core

import (
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/sock"
)

// A floodedSource has connections without end while it is flooded: their peers are
// gone. It notes how many of them are accepted at once.
type floodedSource struct {
	*pollSource
	isFlooded     atomic.Bool
	flood         chan struct{} // receives when the flood has begun
	accepts, most int           // in one pass; of the loop that accepts
}

func (s *floodedSource) Accept(listener int, peer *sock.Address) (int, syscall.Errno) {
	if s.isFlooded.Load() {
		s.accepts++
		select {
		case s.flood <- struct{}{}:
		default:
		}
		return -1, syscall.ECONNABORTED
	}
	return s.pollSource.Accept(listener, peer)
}

func (s *floodedSource) Backlog(listener int) int {
	if s.isFlooded.Load() {
		return 2 * acceptsInARow
	}
	return s.pollSource.Backlog(listener)
}

func (s *floodedSource) Open() (Poller, error) {
	p, err := s.pollSource.Open()
	return &floodedPoller{p, s}, err
}

type floodedPoller struct {
	Poller
	source *floodedSource
}

func (p *floodedPoller) Run(pass func([]Event) Then, serve func(bool) Then) {
	s := p.source
	p.Poller.Run(func(events []Event) Then {
		s.accepts = 0
		then := pass(events)
		s.most = max(s.most, s.accepts)
		return then
	}, serve)
}

// A silentSource does not tell the backlog, as some systems do not.
type silentSource struct{ *pollSource }

func (silentSource) Backlog(int) int { return 0 }

// Connections are accepted also where the backlog is not told.
func TestBacklogIsNotTold(t *testing.T) {
	ln := listen(t)
	serveOver(t, silentSource{newPollSource()}, ln, newEcho(), engine.Options{})
	for range 3 {
		ask(t, dial(t, ln), "hello")
	}
}

// A loop to which connections come faster than it accepts them serves those that
// are open.
func TestFloodOfConnections(t *testing.T) {
	source, ln := &floodedSource{pollSource: newPollSource(), flood: make(chan struct{}, 1)}, listen(t)
	d := serveOver(t, source, ln, newEcho(), engine.Options{Loops: 1})
	c := dial(t, ln)
	ask(t, c, "before")
	source.isFlooded.Store(true)
	late := dial(t, ln)
	<-source.flood
	for range 10 {
		ask(t, c, "meanwhile")
	}
	source.isFlooded.Store(false)
	ask(t, late, "after")
	if err := d.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if source.most != acceptsInARow {
		t.Errorf("%d connections were accepted in a row, want %d", source.most, acceptsInARow)
	}
}
