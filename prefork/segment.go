package prefork

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/sluicehttp/sluice/internal/process/supervise"
	"github.com/sluicehttp/sluice/shared"
)

// ticketKeys is the name of the TLS ticket keys in the segment.
const ticketKeys = "prefork.tickets"

// otherProcesses is the number of processes that attach to the segment besides the
// wanted workers: the master, and at least one successor.
const otherProcesses = 2

// holderProcesses is how many more there are with Upgrade: the holder, and a manager that is
// to replace the present one.
const holderProcesses = 2

// share passes the segment to workers, and reaps dead processes in it. If it makes
// the segment, there is room for a successor of every worker. If the program has
// made the segment, its size bounds the number of workers. others is the number of processes
// that are no workers, or successors.
func share(c *supervise.Config, others int) (*shared.Segment, error) {
	most := max(c.Workers, c.MaxWorkers)
	if c.MaxWorkers == 0 {
		most = max(c.Workers, 4*runtime.NumCPU())
	}
	// After an error, the default is local memory.
	_, _ = shared.Setup(shared.Options{Processes: placesFor(most, others)})
	s := shared.Default()
	if s.IsShared() {
		room := s.Processes() - others
		if c.Workers > room {
			return nil, fmt.Errorf("sluice: the shared segment has room for %d processes, and %d workers need %d: "+
				"call shared.Setup with more Options.Processes at the beginning of main", s.Processes(), c.Workers, c.Workers+others)
		}
		c.MaxWorkers = min(most, room)
	}
	if f := s.File(); f != nil {
		c.SharedFiles = []*os.File{f}
	}
	c.OnReaped = func(_, pid int) { s.Reap(pid) }
	c.OnHung = func(_, pid int) { markHung(s, pid) }
	c.Progress = func(_, pid int) (uint64, bool) {
		p, isFound := s.Process(pid)
		return p.Accepted, isFound
	}
	return s, nil
}

// placesFor returns how many processes the segment is for, with so many workers and others.
func placesFor(workers, others int) int {
	return min(max(shared.DefaultProcesses, others+2*workers), shared.MaxProcesses)
}

// rotateTickets rotates the ticket keys periodically, until ctx ends.
func rotateTickets(ctx context.Context, s *shared.Segment) {
	if keys, err := s.TicketKeys(ticketKeys); err == nil {
		keys.RotateEvery(ctx, shared.TicketRotation)
	}
}

// adoptSegment makes the master's segment the worker's default.
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
	w.hasSegment = err == nil && shared.Default().IsShared()
	return err
}

// shareTickets makes the server's TLS resume sessions that began with any worker.
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
		config = s.TLSConfig.Clone() // other servers may use it
	}
	if keys.Install(config) {
		s.TLSConfig = config
	}
}
