package prefork

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"sync"

	"github.com/sluicehttp/sluice/internal/supervise"
	"github.com/sluicehttp/sluice/shared"
)

// ticketKeys is the name of the TLS ticket keys in the segment.
const ticketKeys = "prefork.tickets"

// A segment is the master's side of package shared: it passes the memory on,
// rotates the keys in it and takes back what dead workers held.
type segment struct {
	*shared.Segment

	mu   sync.Mutex
	pids map[int]struct{} // of workers that may be attached
}

// share passes the segment to workers.
func share(c *supervise.Config) *segment {
	s := &segment{Segment: shared.Default(), pids: make(map[int]struct{})}
	f := s.File()
	if f == nil {
		return s
	}
	c.SharedFiles = []*os.File{f}
	then := c.Hooks.OnSpawn
	c.Hooks.OnSpawn = func(slot, pid int) error {
		s.spawned(pid)
		if then == nil {
			return nil
		}
		return then(slot, pid)
	}
	return s
}

// spawned notes a worker, and buries those that are gone.
func (s *segment) spawned(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for old := range s.pids {
		if !processExists(old) {
			s.Reap(old)
			delete(s.pids, old)
		}
	}
	s.pids[pid] = struct{}{}
}

// rotate changes the ticket keys now and then, until ctx ends.
func (s *segment) rotate(ctx context.Context) {
	if keys, err := s.TicketKeys(ticketKeys); err == nil {
		keys.RotateEvery(ctx, shared.TicketRotation)
	}
}

// adoptSegment makes the master's segment the worker's.
func (w *worker) adoptSegment() error {
	files := w.link.Shared()
	if len(files) == 0 {
		return nil
	}
	_, err := shared.Adopt(files[0])
	files[0].Close()
	if errors.Is(err, shared.ErrLate) {
		w.logf("%v", err)
		return nil
	}
	return err
}

// shareTickets has the server's TLS resume the sessions of every worker.
func (w *worker) shareTickets() {
	s := w.prefork.server
	if s == nil || !w.isTLS {
		return
	}
	keys, err := shared.Default().TicketKeys(ticketKeys)
	if err != nil {
		w.logf("each worker has ticket keys of its own: %v", err)
		return
	}
	config := &tls.Config{}
	if s.TLSConfig != nil {
		config = s.TLSConfig.Clone() // it may be used for other servers
	}
	if keys.Install(config) {
		s.TLSConfig = config
	}
}
