package prefork

import (
	"log"
	"net"
	"os"
	"sync"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/process/supervise"
	"github.com/sluicehttp/sluice/shared"
)

// A Source is what StatusHandler, HealthHandler and contrib/metrics show: a Prefork, or a
// Single for a server without worker processes.
type Source interface {
	// Status returns a snapshot.
	Status() Status
}

var (
	_ Source = (*Prefork)(nil)
	_ Source = (*Single)(nil)
)

// singleSize is the size of a Single's segment: most of it is the histogram's.
const singleSize = 64 << 10

// A Single has the status of a Server that serves in one process. It looks like that of a
// fleet without a master, and with one worker, which is this process: what reads the one
// understands the other.
type Single struct {
	// Profiles is that of Prefork, for this process. Set it before the server serves.
	Profiles sluice.RequestHandler

	server  *sluice.Server
	segment *shared.Segment
	board   *board
	started time.Time

	mu         sync.Mutex
	writer     *pageWriter
	phase      supervise.Phase // PhaseSpawned, then PhaseReady, then PhaseDraining
	isStopping bool            // Stopping was called
}

// NewSingle returns the Single of s, which counts from then on. Call it once for a Server,
// before it serves, and not for the Server of a Prefork: it sets ServerControl.Meter.
//
// A Single has no goroutine: what a worker reports four times a second is read by Status.
func NewSingle(s *sluice.Server) *Single {
	segment := shared.Must(shared.New(shared.Options{Size: singleSize, Processes: 1, Local: true})) // the sizes are known to be good
	b := newBoard(segment, WorkerInfo{Generation: 1})
	m := newMeter(segment, &b.slow)
	s.Control().Meter = m
	return &Single{
		server: s, segment: segment, board: b,
		started: time.Now(), writer: newPageWriter(segment, segment.Page(), m),
	}
}

// Status returns a snapshot. The worker is ready while the server accepts connections, and
// drains when it no longer does.
func (s *Single) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch isServing := s.server.Control().IsServing(); {
	case isServing:
		s.phase = supervise.PhaseReady
		s.board.enter(shared.Ready)
	case s.phase == supervise.PhaseReady:
		s.phase = supervise.PhaseDraining
		s.board.enter(shared.Draining)
	}
	s.writer.write(0)
	s.board.slow.publish(s.segment, 0, time.Now())
	s.board.page.Set(shared.Lag, 0) // nobody measures it
	n := notice{
		Wanted: 1, Ready: s.phase == supervise.PhaseReady, Stopping: s.isStopping || s.phase == supervise.PhaseDraining, Started: s.phase >= supervise.PhaseReady,
		Slots:   []SlotStatus{{Generation: 1, Adopter: -1}},
		Workers: []noticeWorker{{Generation: 1, PID: os.Getpid(), Phase: s.phase, Started: s.started}},
	}
	status := n.merge(s.segment)
	status.Profiles = s.Profiles != nil
	return status
}

// Stopping makes Status say that the end has begun, and HealthHandler that the server is not
// ready, while it goes on accepting connections. A load balancer can then send new ones
// elsewhere before Shutdown.
func (s *Single) Stopping() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isStopping = true
}

// ServeAdmin serves handler on another address of the form of Prefork.Admin, with a server
// of its own, whose bounds are meant for operators; what a nil AdminHandler of Prefork stands
// for if handler is nil. It returns the address when it listens. stop ends it, and gives requests
// in progress one second.
func (s *Single) ServeAdmin(addr string, handler sluice.RequestHandler) (at net.Addr, stop func(), err error) {
	if handler == nil {
		handler = defaultAdmin(s)
	}
	a, err := openAdmin(addr, handler, s.logTo(), nil)
	if err != nil {
		return nil, nil, err
	}
	go a.serve()
	return a.addr(), a.close, nil
}

// logTo returns the Logger that receives the log.
func (s *Single) logTo() Logger {
	if s.server.Logger != nil {
		return s.server.Logger
	}
	return log.Default()
}
