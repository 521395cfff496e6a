package prefork

import (
	"context"
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/supervise"
	"github.com/sluicehttp/sluice/shared"
)

// state is what a Prefork is doing.
type state struct {
	master *supervise.Master // nil in a worker
	addrs  []net.Addr
	admin  net.Addr
	slot   int // -1: master, or a worker without control
}

// Status is a snapshot of the workers. Its parts are read one after the other
// while they go on.
//
// As JSON it has the names that the fields' tags say. Durations, whose names end
// in _ns, are nanoseconds; times are RFC 3339. Names stay as they are, further
// ones may be added.
type Status struct {
	// Wanted is the number of workers that should run.
	Wanted int `json:"wanted"`
	// Ready tells that all of them serve.
	Ready bool `json:"ready"`
	// Rolling tells that workers are being replaced one by one.
	Rolling bool `json:"rolling"`
	// Degraded tells that too many died (OverRecoveryDegrade).
	Degraded bool `json:"degraded"`
	// Paused tells that SIGWINCH put the workers away.
	Paused bool `json:"paused"`
	// Stopping tells that the master is about to end.
	Stopping bool `json:"stopping"`
	// Crashes counts the unexpected exits of workers.
	Crashes int `json:"crashes"`
	// Hangs counts the workers that were replaced because they hung.
	Hangs int `json:"hangs"`
	// Restarts counts the rolling restarts that are complete.
	Restarts int `json:"restarts"`
	// RestartsFailed counts those that failed, or that OnReload refused.
	RestartsFailed int `json:"restarts_failed"`
	// RestartError says why the last one did; empty if it did not.
	RestartError string `json:"restart_error"`
	// LogDropped counts the lines of the master's log that were dropped because
	// nobody read them.
	LogDropped int `json:"log_dropped"`
	// Master is the master's process.
	Master ProcessStatus `json:"master"`
	// Total is what all workers have done, those that are gone too, and what the
	// living ones have to do.
	Total Load `json:"total"`
	// Slots are the workers' places.
	Slots []SlotStatus `json:"slots"`
	// Workers are the living processes, by their slots. A slot has two while
	// one is being replaced: the one that serves comes first.
	Workers []WorkerStatus `json:"workers"`
}

// SlotStatus is a worker's place, which a process fills after the other.
type SlotStatus struct {
	// Slot is its number, from 0.
	Slot int `json:"slot"`
	// Generation is that of its youngest process; see WorkerStatus.
	Generation int `json:"generation"`
	// Queue is the number of connections that wait in the slot's sockets for a
	// worker to accept them. Linux and TCP only.
	Queue int `json:"queue"`
	// Restarts counts the processes after the first.
	Restarts int `json:"restarts"`
	// Crashes counts their unexpected exits.
	Crashes int `json:"crashes"`
	// Hangs counts those that were replaced because they hung.
	Hangs int `json:"hangs"`
	// Adopter is the slot whose worker serves this one's sockets while it has
	// none; -1 if nobody does.
	Adopter int `json:"adopter"`
	// Retired tells that the slot has no worker because fewer are wanted.
	Retired bool `json:"retired"`
}

// WorkerStatus is a worker process.
type WorkerStatus struct {
	// Slot is its place, from 0.
	Slot int `json:"slot"`
	// Generation counts the processes of the slot, from 1.
	Generation int `json:"generation"`
	// Phase is "spawned" (starting), "ready", "hung", "draining", "killed".
	Phase string `json:"phase"`
	ProcessStatus
	Load
}

// ProcessStatus is what a process says of itself, four times a second; the
// master every second. What a system does not tell is zero.
type ProcessStatus struct {
	// PID is the process's number.
	PID int `json:"pid"`
	// Started is when it was started.
	Started time.Time `json:"started"`
	// HeartbeatAge is how long ago it last said so.
	HeartbeatAge time.Duration `json:"heartbeat_age_ns"`
	// Lag is how much later than it wanted: more than some milliseconds means
	// that it lacks CPU time.
	Lag time.Duration `json:"lag_ns"`
	// ResidentBytes is the memory that it has in use, shared memory included.
	// Linux only.
	ResidentBytes uint64 `json:"resident_bytes"`
	// CPUTime is the processor time that it has used.
	CPUTime time.Duration `json:"cpu_ns"`
	// Goroutines is how many it has.
	Goroutines uint64 `json:"goroutines"`
	// GarbageCollections counts the collector's cycles.
	GarbageCollections uint64 `json:"garbage_collections"`
}

// Load is what a worker, or all of them, have done and have to do. Only servers
// that New was given count; with another ServeFunc it is zero.
type Load struct {
	// Accepted counts connections. One that is handed over from worker to worker
	// is accepted again.
	Accepted uint64 `json:"accepted"`
	// Done counts those that were closed or handed over.
	Done uint64 `json:"done"`
	// Cut counts those of them that were still open when their worker's time to
	// end was over. It is zero in living workers.
	Cut uint64 `json:"cut"`
	// Active is the number of open connections.
	Active uint64 `json:"active"`
	// Idle is how many of them have no request in hand.
	Idle uint64 `json:"idle"`
	// InFlight is the number of requests in hand.
	InFlight uint64 `json:"in_flight"`
	// OldestRequest is the time since the oldest of them began.
	OldestRequest time.Duration `json:"oldest_request_ns"`
	// Requests counts requests: the sum of Responses.
	Requests uint64 `json:"requests"`
	// Responses counts responses by the class of their status, 1xx first.
	Responses [5]uint64 `json:"responses"`
	// BytesRead and BytesWritten count what went over connections.
	BytesRead    uint64 `json:"bytes_read"`
	BytesWritten uint64 `json:"bytes_written"`
}

// Status returns a snapshot. Master and workers have the same one: what only the
// master knows, it tells the workers when it changes, but at most a second later.
// While ListenAndServe does not run nothing is set; where memory cannot be shared
// (Windows) it has what the process itself knows.
func (p *Prefork) Status() Status {
	st := p.state.Load()
	if st == nil {
		return Status{Slots: []SlotStatus{}, Workers: []WorkerStatus{}}
	}
	segment := shared.Default()
	if st.master != nil {
		n := newNotice(st.master.Status())
		return n.merge(segment)
	}
	n := readNotice(segment)
	return n.merge(segment)
}

// Addrs returns the addresses that are listened on, with the ports that the
// system chose; nil before ListenAndServe has got them, and in a master whose
// workers make their own sockets.
func (p *Prefork) Addrs() []net.Addr {
	if s := p.state.Load(); s != nil {
		return s.addrs
	}
	return nil
}

// AdminAddr returns the address on which the master serves AdminHandler, with the
// port that the system chose; nil in workers, without Admin, and while
// ListenAndServe does not run.
func (p *Prefork) AdminAddr() net.Addr {
	if s := p.state.Load(); s != nil {
		return s.admin
	}
	return nil
}

// Stop ends the master as SIGTERM does, and does not wait. Like the other
// commands it does nothing in a worker, or while ListenAndServe does not run.
func (p *Prefork) Stop() {
	if m := p.master(); m != nil {
		m.Stop()
	}
}

// Restart replaces the workers one by one, as SIGHUP does, and returns nil when all
// of the new ones serve; the old ones may have requests in hand still. Otherwise
// nothing was replaced, or not all workers: it returns OnReload's error, a
// *RestartError if a new worker did not serve, ErrStopping if the fleet ends, or
// ctx's error, which does not stop the restart. In a worker, and while
// ListenAndServe does not run, it returns ErrNotMaster. Who asks during a restart
// waits for the one that follows. It must not be called by a hook of the master
// other than AdminHandler: restarts wait for those.
func (p *Prefork) Restart(ctx context.Context) error {
	m := p.master()
	if m == nil {
		return ErrNotMaster
	}
	return publicError(m.Restart(ctx))
}

// Scale sets the number of workers, between 1 and MaxWorkers, and does not wait.
func (p *Prefork) Scale(workers int) {
	if m := p.master(); m != nil {
		m.Scale(workers)
	}
}

// Reopen has log files reopened, as SIGUSR1 does, and does not wait.
func (p *Prefork) Reopen() {
	if m := p.master(); m != nil {
		m.Reopen()
	}
}

// master returns the running master, nil if there is none.
func (p *Prefork) master() *supervise.Master {
	if s := p.state.Load(); s != nil {
		return s.master
	}
	return nil
}
