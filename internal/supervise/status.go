package supervise

import (
	"runtime"
	"time"
)

// Phase is where a worker process is in its life.
type Phase uint8

const (
	// PhaseSpawned: started, not ready yet. Its PID is 0 until the process is
	// there.
	PhaseSpawned Phase = iota
	// PhaseReady: serving.
	PhaseReady
	// PhaseSuspect is reserved.
	PhaseSuspect
	// PhaseHung: it was found hanging, lost its place and is to print its stacks.
	PhaseHung
	// PhaseDraining: told to finish and exit.
	PhaseDraining
	// PhaseKilled: SIGKILL was sent.
	PhaseKilled
	// PhaseExited: gone, as expected.
	PhaseExited
	// PhaseCrashed: gone, unexpectedly.
	PhaseCrashed
)

// String returns the phase in lower case.
func (p Phase) String() string {
	names := [...]string{"spawned", "ready", "suspect", "hung", "draining", "killed", "exited", "crashed"}
	if int(p) < len(names) {
		return names[p]
	}
	return "unknown"
}

// Status is a snapshot of a fleet.
type Status struct {
	// Wanted is the number of workers that should run.
	Wanted int
	// Ready tells that all of them are ready.
	Ready bool
	// Rolling tells that a rolling restart is under way.
	Rolling bool
	// Degraded tells that too many workers died (OverRecoveryDegrade).
	Degraded bool
	// Paused tells that SIGWINCH put the workers away.
	Paused bool
	// Stopping tells that the fleet is on its way out.
	Stopping bool
	// Crashes counts the unexpected exits of the master's life.
	Crashes int
	// Restarts counts the finished rolling restarts.
	Restarts int
	// RestartsFailed counts those that failed, or were refused by OnReload.
	RestartsFailed int
	// RestartError says why the last one did; empty if it did not.
	RestartError string
	// LogDropped counts the lines of the master's log that were dropped because
	// nobody read them.
	LogDropped int
	// Slots are in the order of their numbers.
	Slots []SlotStatus
}

// SlotStatus is one slot of a Status.
type SlotStatus struct {
	// Slot is its number.
	Slot int
	// Retired tells that the slot has no worker because the fleet is smaller.
	Retired bool
	// RespawnAt is when a new worker will be started; zero if none is due.
	RespawnAt time.Time
	// Adopter is the slot whose worker serves this one's sockets meanwhile, or
	// -1.
	Adopter int
	// Generation is that of the youngest process.
	Generation int
	// Restarts counts the processes that were started beyond the first.
	Restarts int
	// Crashes counts the unexpected exits, and the workers that hung.
	Crashes int
	// Hangs counts the workers that hung.
	Hangs int
	// Queue is the number of connections that wait to be accepted in the slot's
	// TCP sockets, at the time of the call. Sockets that all slots share count
	// for slot 0. 0 on systems that do not tell.
	Queue int
	// Workers are its living processes, the one that serves first.
	Workers []WorkerStatus
}

// WorkerStatus is one process of a SlotStatus.
type WorkerStatus struct {
	// Generation counts the slot's processes from 1.
	Generation int
	// PID is the process's number.
	PID int
	// Phase is where it is in its life.
	Phase Phase
	// Attached tells that it talks to the master.
	Attached bool
	// Started is when it was started.
	Started time.Time
}

// cpus is the number of CPUs that this process may use.
func cpus() int { return runtime.NumCPU() }
