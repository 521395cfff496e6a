package prefork

import (
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/supervise"
)

// state is what a Prefork is doing.
type state struct {
	master *supervise.Master // nil in a worker
	addrs  []net.Addr
	slot   int // -1: master, or a worker without control
}

// Status is a snapshot of the workers, as the master knows them.
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
	// Restarts counts the rolling restarts that are complete.
	Restarts int `json:"restarts"`
	// Workers are the living processes, by their slots. A slot has two while
	// one is being replaced: the one that serves comes first.
	Workers []WorkerStatus `json:"workers"`
}

// WorkerStatus is a worker process.
type WorkerStatus struct {
	// Slot is its place, from 0.
	Slot int `json:"slot"`
	// Generation counts the processes of the slot, from 1.
	Generation int `json:"generation"`
	// PID is the process's number.
	PID int `json:"pid"`
	// Phase is "spawned", "ready", "draining", "killed".
	Phase string `json:"phase"`
	// Started is when it was started.
	Started time.Time `json:"started"`
}

// Status returns a snapshot. In a worker, and while ListenAndServe does not run,
// it is empty.
func (p *Prefork) Status() Status {
	m := p.master()
	if m == nil {
		return Status{}
	}
	from := m.Status()
	s := Status{
		Wanted: from.Wanted, Ready: from.Ready, Rolling: from.Rolling, Degraded: from.Degraded,
		Paused: from.Paused, Stopping: from.Stopping, Crashes: from.Crashes, Restarts: from.Restarts,
	}
	for _, slot := range from.Slots {
		for _, w := range slot.Workers {
			s.Workers = append(s.Workers, WorkerStatus{
				Slot: slot.Slot, Generation: w.Generation, PID: w.PID, Phase: w.Phase.String(), Started: w.Started,
			})
		}
	}
	return s
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

// Stop ends the master as SIGTERM does, and does not wait. Like the other
// commands it does nothing in a worker, or while ListenAndServe does not run.
func (p *Prefork) Stop() {
	if m := p.master(); m != nil {
		m.Stop()
	}
}

// Restart replaces the workers one by one, as SIGHUP does, and does not wait.
func (p *Prefork) Restart() {
	if m := p.master(); m != nil {
		m.Restart()
	}
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
