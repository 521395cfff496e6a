// Package supervise runs a fleet of worker processes: it starts them, watches
// them, replaces them and stops them. It does not depend on the protocol that the
// workers serve.
//
// A Master owns the listening sockets, one set for each slot. It does not close
// them before the fleet stops. If a worker dies, the connections in its queue are
// therefore not lost: a sibling accepts from the socket until a successor is
// ready. The same program, started as a worker, calls Attach to find its sockets
// and a channel with the master's orders.
//
// A slot may also have an inbox, through which workers pass open connections to
// each other: to a successor, or to a sibling with less load.
//
// All decisions of the master are made by a pure function of its state, an event
// and the time (machine.go). The rest of the package passes events to it and
// performs its actions.
package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// MaxConfiguration is the largest Configuration, in bytes.
const MaxConfiguration = 32 << 10

// What Run returns.
var (
	// ErrOverRecovery: workers died more often than RecoverThreshold allows.
	ErrOverRecovery = errors.New("exceeding the value of RecoverThreshold")
	// ErrQuit: SIGQUIT ended the master, after the stack dumps. By convention
	// the process then exits with status 131.
	ErrQuit = errors.New("sluice: ended by SIGQUIT")
	// ErrNotStarted: Config.Start returned a command that it had not started.
	ErrNotStarted = errors.New("sluice: the worker's command was not started")
	// ErrStopping: the workers are ending, so they are not replaced.
	ErrStopping = errors.New("sluice: the fleet is stopping")
	// ErrConfigurationSize: the configuration is longer than MaxConfiguration.
	ErrConfigurationSize = fmt.Errorf("sluice: the workers' configuration is longer than %d bytes", MaxConfiguration)
	// ErrRunning: Run was called a second time.
	ErrRunning = errors.New("sluice: the master has run already")
)

// A BootError says why the first start of the fleet failed: a worker reported
// by Worker.Fatal that it cannot serve.
type BootError struct {
	// Slot is the number of the worker's slot.
	Slot int
	// Class is the error's class, for programs: "config", "listen", ….
	Class string
	// Text is the worker's message.
	Text string
}

// Error returns the worker's message.
func (e *BootError) Error() string {
	return fmt.Sprintf("sluice: worker %d cannot start: %s: %s", e.Slot, e.Class, e.Text)
}

// A RestartError says why a rolling restart failed: a successor did not become
// ready, or died or hung within Config.Soak. All slots have the version from before
// again.
type RestartError struct {
	// Slot is the number of the successor's slot.
	Slot int
	// Err is the reason: a *BootError if the successor reported it.
	Err error
}

// Error returns the slot and the reason.
func (e *RestartError) Error() string {
	return fmt.Sprintf("sluice: rolling restart failed in slot %d: %v", e.Slot, e.Err)
}

// Unwrap returns Err.
func (e *RestartError) Unwrap() error { return e.Err }

// Logger receives the lines of a log. *log.Logger implements it.
type Logger interface {
	// Printf logs one line, formatted as by fmt.Printf.
	Printf(format string, args ...any)
}

// OverRecovery says what the master does after too many deaths of workers.
type OverRecovery uint8

const (
	// OverRecoveryExit drains the remaining workers and ends Run with
	// ErrOverRecovery.
	OverRecoveryExit OverRecovery = iota
	// OverRecoveryDegrade keeps the healthy workers and starts the others after a pause
	// that doubles with each death beyond the threshold, from RecoverInterval (at least
	// 100 ms) to 30 seconds, or to 1 second after the death of the last worker that
	// served. Before all workers were ready for the first time, it does the same as
	// OverRecoveryExit.
	OverRecoveryDegrade
)

// A Launch describes how to start one worker process.
type Launch struct {
	// Slot is the number of the slot, from 0.
	Slot int
	// Generation counts the processes of this slot, from 1.
	Generation int
	// Files become the process's ExtraFiles, in this order: the slot's listeners
	// first, then the control socket, the lifeline, the shared files, the inboxes and
	// the sockets of Packets. The master owns them: a Start function must not close
	// them, and must not retain them after it has returned.
	Files []*os.File
	// Env is the complete environment.
	Env []string
}

// Config describes a fleet. Workers is needed; the zero value of everything
// else is usable. The durations' defaults are for zero values; negative ones
// are not allowed.
type Config struct {
	// Workers is the number of processes at the start, at least 1.
	Workers int
	// MinWorkers and MaxWorkers bound Scale, SIGTTIN and SIGTTOU. 0: 1, and
	// the larger of Workers and 4 × the number of CPUs.
	MinWorkers, MaxWorkers int

	// Sockets makes the listening sockets of a slot, at most 64. It is called once
	// for each slot: by New for the first Workers slots, and before the first spawn
	// for a later slot. The master owns the files. nil: the workers get no sockets
	// and open their own.
	//
	// The files must come from (*net.TCPListener).File or a similar method. The
	// listener itself must be closed, because otherwise every connection wakes the
	// master.
	Sockets func(slot int) ([]*os.File, error)
	// SharedSockets: all slots share the same sockets, instead of separate ones
	// with SO_REUSEPORT. Sockets is then called for slot 0 only, and the queue of a
	// dead worker needs no adopter.
	SharedSockets bool
	// SocketsClosed is called when the master has closed the sockets because the
	// fleet stops. The caller should then close its own copies of them. Sockets is
	// not called any more. SocketsClosed must not block. nil: nothing is called.
	SocketsClosed func()
	// Packets makes the UDP sockets with an index, one for each group of sockets that
	// share a port, at most 64 groups. Each process has sockets of its own, unlike those of
	// a slot: those of an index that no other process has. Packets is called for 0, 1, …
	// when a process is started and all existing sockets are in use. The master owns the
	// files, and closes them when Run returns. A process does not start if Packets fails,
	// or after 256 calls. nil: there are none.
	Packets func(index int) ([]*os.File, error)
	// PacketSecret is passed to the workers, with the sockets of Packets. A Holder keeps
	// it: that of the Master before is Held.PacketSecret.
	PacketSecret []byte
	// Steer is called when other processes than before are ready, or finish: with the
	// indices of their sockets of Packets, in order, of which there is at least one, and
	// the sockets of index 0. It is called before the workers are told. It must not block,
	// and not close the sockets. If the first call fails, all workers are killed, and Run
	// returns the error; later ones are logged. Needed with Packets.
	Steer func(sockets []*os.File, ready, leaving []int) error
	// SharedFiles are passed to every worker, for example a memory segment. The
	// caller owns them, and must keep them open while Run runs.
	SharedFiles []*os.File

	// Holder keeps what must outlive the Master; see NewFrom. nil: nothing does. Start must
	// be nil then.
	Holder Holder
	// Manages is the id of the binary that this process runs, as the Holder has told it: the
	// name of its entry without BinaryPrefix. Empty: that of this program.
	Manages string

	// Inboxes gives each slot an inbox: a socket through which workers pass open
	// connections to each other; see Worker.Post and Worker.Receive. The inbox
	// belongs to the slot, not to a process. Connections in the inbox of a worker
	// that died are therefore received by its successor, or by the sibling that
	// serves the slot until then. Linux only; elsewhere it has no effect.
	Inboxes bool

	// Configuration is passed to the workers, which read it with
	// Worker.Configuration; at most MaxConfiguration bytes. The result of OnReload
	// replaces it, unless the restart fails: all workers then get the configuration of
	// the last restart that succeeded.
	Configuration []byte

	// Args are the arguments of a worker, the program's name first. nil: those
	// of this process.
	Args []string
	// Env is added to the environment of workers, for example the variable that
	// marks a worker, or GOMAXPROCS=1. Variables through which systemd talks to the
	// master are removed.
	Env []string
	// Start replaces the built-in way to start a worker, which runs this program's
	// binary, as it was when the master started, with inherited stdout and stderr.
	// Start runs on the thread that starts all workers. It must call Cmd.Start
	// itself and not on another goroutine; otherwise the parent-death signal may
	// come too early. It may pass on all of the files, some or none. A worker that
	// attaches counts as ready when it calls Ready. One that does not attach counts
	// as ready after two seconds, unless another worker of the fleet has attached
	// before; SIGTERM stops it.
	Start func(Launch) (*exec.Cmd, error)
	// SysProcAttr is the base of the processes' attributes, for example
	// credentials. Not used with Start.
	SysProcAttr *syscall.SysProcAttr
	// NoNewPrivileges: neither the workers nor what they start can gain privileges by
	// executing a file (PR_SET_NO_NEW_PRIVS). Linux only.
	NoNewPrivileges bool
	// Affinity returns the CPUs on which a slot's worker may run; nothing
	// means all. nil: workers are not pinned. Linux only.
	Affinity func(slot int) []int

	// BootTimeout bounds the time from start to Ready. A worker that needs longer
	// is killed, which counts as a death unless its predecessor serves. 0:
	// 30 seconds.
	BootTimeout time.Duration
	// Soak is how long all workers must serve with the version of a restart before the
	// restart is over. If one of them dies or hangs before, all slots get the version
	// from before back. That is a failed restart and no crash. 0: a restart is over
	// when all workers are ready.
	Soak time.Duration
	// GracePeriod is the time that workers have to finish when the fleet stops.
	// 0: 5 seconds.
	GracePeriod time.Duration
	// DrainTimeout is the time that a worker has to finish when it is replaced.
	// 0: GracePeriod.
	DrainTimeout time.Duration
	// StopDelay is the time between the order to stop (SIGTERM, Stop) and the moment
	// when workers are told to finish. Meanwhile they serve as before, OnStopping was
	// called and the Status says Stopping, so that a load balancer can send new
	// connections elsewhere. A second order ends it. 0: there is none.
	StopDelay time.Duration
	// OrphanGrace is the time that workers have to finish when the master has died.
	// After it, the worker's process ends. 0: GracePeriod.
	OrphanGrace time.Duration

	// HangTimeout is how long a ready worker may leave the master's probes
	// unanswered, or connections in its queue, before it counts as hanging. Another
	// worker then takes its slot at once. The hanging worker gets SIGQUIT, to print
	// its stacks, and is killed two seconds later. That is a crash for
	// RecoverThreshold. The master handles one hanging worker at a time, unless all
	// workers hang. If the master itself did not run, for example on a suspended
	// machine, the time of all workers starts again. Workers that do not attach
	// never count as hanging. 0: the master does not check.
	HangTimeout time.Duration
	// Progress returns a number that changes whenever the worker accepts a
	// connection; ok is false if it is unknown. A worker also counts as hanging if
	// connections wait in the queue of its TCP sockets and the number does not
	// change. Progress is called by the goroutine that runs the fleet, so it must
	// not block. If it is nil, and with SharedSockets, queues are not checked. Linux
	// only.
	Progress func(slot, pid int) (number uint64, ok bool)
	// OnHung is called when a worker counts as hanging, before its sockets are another
	// worker's. It must not block. nil: nothing is called.
	OnHung func(slot, pid int)
	// OnReaped is called for every process that ended, after its parent has waited
	// for it and before the machine gets the event, so before a worker replaces a
	// dead one. Only a hanging worker is replaced earlier. OnReaped may be called
	// concurrently and should return soon. It has returned before Run returns. nil:
	// nothing is called.
	OnReaped func(slot, pid int)

	// RecoverThreshold is how many unexpected exits are tolerated within
	// RecoverWindow. 0 tolerates none.
	RecoverThreshold int
	// RecoverWindow is the time over which exits are counted. 0: since the
	// master's start.
	RecoverWindow time.Duration
	// RecoverInterval is the pause, ±20 %, before the respawn of a worker that
	// lived for less than ten seconds. It doubles, up to 30 seconds, with each
	// consecutive worker that died before it was ready. There is no pause after the
	// death of the last serving worker, within the threshold. 0: no pause.
	RecoverInterval time.Duration
	// OverRecovery says what happens beyond the threshold.
	OverRecovery OverRecovery

	// Hooks are called on events of the fleet.
	Hooks Hooks
	// Logger receives the log through a Journal, so a Logger that blocks delays
	// only the log. nil: nothing is logged.
	Logger Logger
	// NoSignals: Run does not handle the process's signals.
	NoSignals bool

	binary *executable // of the first version
}

// Hooks are called one at a time, in the order of their events, on a separate
// goroutine. They may block, and may call the Master's methods except Restart.
type Hooks struct {
	// OnSpawn is called when a worker was started. An error kills all workers, and
	// Run returns it.
	OnSpawn func(slot, pid int) error
	// OnRecover is called after OnSpawn if the new process replaces one that
	// died.
	OnRecover func(slot, oldPid, newPid int)
	// OnStarted is called once, when all workers of the first start were started.
	// They may not be ready. An error kills all workers, and Run returns it.
	OnStarted func(pids []int) error
	// OnFleetReady is called once, when all workers are ready.
	OnFleetReady func()
	// OnReload is called before a rolling restart by SIGHUP or Restart. Its result
	// becomes the new Configuration. An error is logged and refuses the restart;
	// Restart returns it.
	OnReload func() ([]byte, error)
	// OnReopen is called on SIGUSR1 in the master; workers get an order.
	OnReopen func()
	// OnStopping is called once, when the fleet begins to stop.
	OnStopping func()
}

// withDefaults checks c and applies the defaults.
func (c Config) withDefaults() (Config, error) {
	for name, d := range map[string]time.Duration{
		"BootTimeout": c.BootTimeout, "GracePeriod": c.GracePeriod, "DrainTimeout": c.DrainTimeout,
		"StopDelay": c.StopDelay, "OrphanGrace": c.OrphanGrace, "HangTimeout": c.HangTimeout, "RecoverWindow": c.RecoverWindow, "RecoverInterval": c.RecoverInterval,
		"Soak": c.Soak,
	} {
		if d < 0 {
			return c, fmt.Errorf("sluice: %s is negative: %v", name, d)
		}
	}
	if len(c.Configuration) > MaxConfiguration {
		return c, ErrConfigurationSize
	}
	if c.Workers < 1 {
		return c, fmt.Errorf("sluice: %d workers", c.Workers)
	}
	c.MinWorkers = max(c.MinWorkers, 1)
	if c.MaxWorkers == 0 {
		c.MaxWorkers = max(c.Workers, 4*cpus())
	}
	if c.Workers < c.MinWorkers || c.Workers > c.MaxWorkers {
		return c, fmt.Errorf("sluice: %d workers are not within %d and %d", c.Workers, c.MinWorkers, c.MaxWorkers)
	}
	c.Inboxes = c.Inboxes && hasInboxes
	c.BootTimeout = orElse(c.BootTimeout, 30*time.Second)
	c.GracePeriod = orElse(c.GracePeriod, 5*time.Second)
	c.DrainTimeout = orElse(c.DrainTimeout, c.GracePeriod)
	c.OrphanGrace = orElse(c.OrphanGrace, c.GracePeriod)
	if c.Args == nil {
		c.Args = os.Args
	}
	if c.Logger == nil {
		c.Logger = noLogger{}
	}
	return c, nil
}

// mostFiles returns the approximate maximum of files that a worker inherits.
func (c Config) mostFiles() int {
	const others = 16 // standard files, control socket, lifeline, …
	n := maxDescriptors + len(c.SharedFiles) + others
	if c.Packets != nil {
		n += maxDescriptors
	}
	if c.Inboxes {
		n += c.MaxWorkers
	}
	return n
}

// orElse returns d, or other if d is zero.
func orElse(d, other time.Duration) time.Duration {
	if d == 0 {
		return other
	}
	return d
}

// noLogger drops everything.
type noLogger struct{}

// Printf does nothing.
func (noLogger) Printf(string, ...any) {}
