package prefork

import (
	"context"
	"crypto/tls"
	"errors"
	"os"

	"github.com/sluicehttp/sluice/internal/supervise"
	"github.com/sluicehttp/sluice/shared"
)

// ticketKeys is the name of the TLS ticket keys in the segment.
const ticketKeys = "prefork.tickets"

// share passes the segment to workers, and takes back what dead ones held.
func share(c *supervise.Config) *shared.Segment {
	s := shared.Default()
	if f := s.File(); f != nil {
		c.SharedFiles = []*os.File{f}
	}
	c.OnReaped = func(_, pid int) { s.Reap(pid) }
	c.Progress = func(_, pid int) (uint64, bool) {
		p, isFound := s.Process(pid)
		return p.Accepted, isFound
	}
	return s
}

// rotateTickets changes the ticket keys now and then, until ctx ends.
func rotateTickets(ctx context.Context, s *shared.Segment) {
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
