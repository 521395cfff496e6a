package supervise

import (
	"runtime"
	"time"
)

// Phase is the phase in the life of a worker process.
type Phase uint8

const (
	// PhaseSpawned: started, not ready yet. Its PID is 0 until the process exists.
	PhaseSpawned Phase = iota
	// PhaseReady: serving.
	PhaseReady
	// PhaseSuspect is reserved; no worker has it.
	PhaseSuspect
	// PhaseHung: it was found hanging, has lost its slot and was told to print its
	// stacks.
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
	// MaxWorkers is the upper limit of Wanted.
	MaxWorkers int
	// Ready tells that all of them are ready.
	Ready bool
	// Rolling tells that workers are replaced by those of another version.
	Rolling bool
	// Soaking tells that all workers have the version of a restart, which must run for
	// Config.Soak before the restart is over.
	Soaking bool
	// Version is the number of the version that all workers are to have. The first one
	// is 1, and each restart makes another.
	Version int
	// GoodVersion is the version that workers get back if Version fails. It is Version
	// itself unless a restart is under way.
	GoodVersion int
	// Degraded tells that too many workers died (OverRecoveryDegrade).
	Degraded bool
	// Paused tells that SIGWINCH has ended the workers.
	Paused bool
	// Stopping tells that the fleet is ending, or was told to (StopDelay).
	Stopping bool
	// Started tells that all of them have been ready once.
	Started bool
	// Crashes counts the unexpected exits since the master's start.
	Crashes int
	// Restarts counts the complete rolling restarts.
	Restarts int
	// RestartsFailed counts the restarts that failed, or that OnReload refused.
	RestartsFailed int
	// RestartError says why the last restart failed; empty if it did not fail.
	RestartError string
	// LogDropped counts the lines of the master's log that were dropped because
	// Logger did not accept them in time.
	LogDropped int
	// Slots are in the order of their numbers.
	Slots []SlotStatus
}

// SlotStatus is one slot of a Status.
type SlotStatus struct {
	// Slot is its number.
	Slot int
	// Version is the version of the last worker that was ready, 0 if there was none;
	// Since is when the slot got it, and Cause why.
	Version int
	Since   time.Time
	Cause   Cause
	// Crash is why a worker has crashed last, "" if none has. Crashed is when.
	Crash   string
	Crashed time.Time
	// Retired tells that the slot has no worker because fewer are wanted.
	Retired bool
	// RespawnAt is when a new worker will be started; zero if none is due.
	RespawnAt time.Time
	// Adopter is the slot whose worker serves this slot's sockets while this slot
	// has no worker; -1 if there is none.
	Adopter int
	// Generation is the generation of the newest process.
	Generation int
	// Restarts counts the processes that were started beyond the first.
	Restarts int
	// Crashes counts the unexpected exits, and the workers that hung.
	Crashes int
	// Hangs counts the workers that hung.
	Hangs int
	// Queue is the number of connections that wait to be accepted in the slot's
	// TCP sockets, at the time of the call. Sockets that all slots share count
	// for slot 0. It is 0 on systems that do not provide it.
	Queue int
	// Workers are its living processes, the one that serves first.
	Workers []WorkerStatus
}

// WorkerStatus is one process of a SlotStatus.
type WorkerStatus struct {
	// Generation counts the slot's processes from 1.
	Generation int
	// PID is the process id.
	PID int
	// Phase is its phase.
	Phase Phase
	// Attached tells that it has attached to the master.
	Attached bool
	// Started is when it was started.
	Started time.Time
	// Version is what it runs: see Status.Version.
	Version int
}

// cpus is the number of CPUs that this process may use.
func cpus() int { return runtime.NumCPU() }
