// Package supervise runs a fleet of worker processes: it starts them, watches
// them, replaces them and stops them. It knows no HTTP; what a worker serves is
// its own affair.
//
// A Master owns the listening sockets, one set for each slot, and never closes
// them while it runs, so that connections which wait in a dead worker's queue
// are not lost: a sibling takes the socket over until a successor is ready. The
// same program, started as a worker, calls Attach to find its sockets and a
// channel with the master's orders.
//
// Beside its sockets a slot may have an inbox, through which workers pass open
// connections to each other: to a successor, to a sibling that has less to do.
//
// Everything the master decides is decided by a pure function of its state, an
// event and the time (machine.go); the rest of the package carries events to
// it and its actions out.
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
	// ErrStopping: the workers go, so they are not replaced.
	ErrStopping = errors.New("sluice: the fleet is stopping")
	// ErrConfigurationSize: it is longer than MaxConfiguration.
	ErrConfigurationSize = fmt.Errorf("sluice: the workers' configuration is longer than %d bytes", MaxConfiguration)
	// ErrRunning: Run was called a second time.
	ErrRunning = errors.New("sluice: the master has run already")
)

// A BootError says why the first start of the fleet failed: a worker reported
// by Worker.Fatal that it cannot serve.
type BootError struct {
	// Slot is the worker's.
	Slot int
	// Class is a word for programs: "config", "bind", ….
	Class string
	// Text is the worker's message.
	Text string
}

// Error returns the worker's message.
func (e *BootError) Error() string {
	return fmt.Sprintf("sluice: worker %d cannot start: %s: %s", e.Slot, e.Class, e.Text)
}

// A RestartError says why a rolling restart failed: a successor did not become
// ready. The workers that were not replaced serve on.
type RestartError struct {
	// Slot is the successor's.
	Slot int
	// Err is what was wrong with it: a *BootError if it said so itself.
	Err error
}

// Error returns the slot and the reason.
func (e *RestartError) Error() string {
	return fmt.Sprintf("sluice: rolling restart failed in slot %d: %v", e.Slot, e.Err)
}

// Unwrap returns Err.
func (e *RestartError) Unwrap() error { return e.Err }

// Logger takes the lines of a log. *log.Logger is one.
type Logger interface {
	// Printf logs one line, formatted as by fmt.Printf.
	Printf(format string, args ...any)
}

// OverRecovery says what follows too many deaths of workers.
type OverRecovery uint8

const (
	// OverRecoveryExit drains what is left and ends Run with ErrOverRecovery.
	OverRecoveryExit OverRecovery = iota
	// OverRecoveryDegrade keeps the healthy workers and tries the others again
	// every 30 seconds. Before all workers were ready for the first time it is
	// OverRecoveryExit.
	OverRecoveryDegrade
)

// A Launch is what one worker process is started with.
type Launch struct {
	// Slot is the place in the fleet, from 0.
	Slot int
	// Generation counts the processes of this slot, from 1.
	Generation int
	// Files are to be the process's ExtraFiles, in this order: the slot's
	// listeners first, then the control socket, the lifeline, the shared files
	// and the inboxes. They are the master's: a Start function must not close them, and
	// must not keep them after it returned.
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

	// Sockets makes the listening sockets of a slot. It is called once for
	// each slot, by New for the first Workers slots and before the first spawn
	// of a later one; at most 64 for a slot. The files become the master's. nil: the workers get no
	// sockets and open their own.
	//
	// The files must come from (*net.TCPListener).File or the like, and the
	// listener itself must be closed, or the master is woken by every
	// connection.
	Sockets func(slot int) ([]*os.File, error)
	// SharedSockets: all slots have the same sockets (not one each with
	// SO_REUSEPORT), so Sockets is called for slot 0 only and a dead worker's
	// queue needs no rescue.
	SharedSockets bool
	// SocketsClosed is called when the master has closed the sockets because the
	// fleet stops: what the caller has of them is to be closed, too, and Sockets is
	// not called any more. It must not block. nil: nothing.
	SocketsClosed func()
	// SharedFiles are given to every worker besides, for example a memory
	// segment. They stay the caller's and must stay open while Run runs.
	SharedFiles []*os.File

	// Inboxes gives each slot an inbox: a socket by which workers pass open
	// connections to each other, see Worker.Post and Worker.Receive. It is the
	// slot's and not a process's, so what waits in the inbox of a worker that
	// died is received by its successor, or by the sibling that serves the slot
	// meanwhile. Linux only; elsewhere nothing happens.
	Inboxes bool

	// Configuration is given to the workers, which get it from
	// Worker.Configuration; at most MaxConfiguration bytes. What OnReload returns
	// takes its place, unless the restart fails: a worker that replaces one that
	// died later gets what the last restart brought that did not.
	Configuration []byte

	// Args are the arguments of a worker, the program's name first. nil: those
	// of this process.
	Args []string
	// Env is added to the environment of workers: the variable by which the
	// program knows that it is a worker, GOMAXPROCS=1, …. Variables by which
	// systemd talks to the master are removed.
	Env []string
	// Start starts a worker in place of the built-in way (this program's
	// binary, as it was when the master started, with stdout and stderr
	// inherited). It runs on the thread that starts all workers; to keep the
	// parent-death signal sound it must call Cmd.Start itself, not in another
	// goroutine. It may pass on all of the files, some or none. A worker that
	// attaches counts as ready when it says so, as any other. One that does not
	// counts as ready after two seconds, unless another one of the fleet has
	// attached before, and SIGTERM stops it.
	Start func(Launch) (*exec.Cmd, error)
	// SysProcAttr is the base of the processes' attributes, for example
	// credentials. Not used with Start.
	SysProcAttr *syscall.SysProcAttr
	// Affinity returns the CPUs on which a slot's worker may run; nothing
	// means all. nil: workers are not pinned. Linux only.
	Affinity func(slot int) []int

	// BootTimeout bounds the time from start to Ready. A worker that needs longer is
	// killed, which counts as a death unless its predecessor serves. 0: 30 seconds.
	BootTimeout time.Duration
	// GracePeriod is what workers get to finish their work when the fleet
	// stops. 0: 5 seconds.
	GracePeriod time.Duration
	// DrainTimeout is what a replaced worker gets. 0: GracePeriod.
	DrainTimeout time.Duration
	// OrphanGrace is what workers get when the master is gone. After it the
	// worker's process is ended. 0: GracePeriod.
	OrphanGrace time.Duration

	// HangTimeout is for how long a ready worker may leave the master's probes
	// without an answer, or connections in its queue, before it counts as
	// hanging: its place is given to others at once, it is told to print its
	// stacks (SIGQUIT) and is killed two seconds later. That is a crash for
	// RecoverThreshold. One worker is treated so at a time, unless all of them
	// hang. When the master itself was held up, as in a suspended machine, all
	// workers start anew. Workers that do not attach are never found hanging. 0:
	// nobody looks.
	HangTimeout time.Duration
	// Progress returns a number that changes whenever the worker accepts a
	// connection; ok false: it is not known. A slot's worker hangs, too, if
	// connections wait in the queue of its TCP sockets and the number stays the
	// same. It is called by the goroutine that runs the fleet and must not block.
	// nil, and with SharedSockets: queues are not looked at. Linux only.
	Progress func(slot, pid int) (number uint64, ok bool)
	// OnReaped is called for every process that ended, once its parent has
	// waited for it and before the machine hears of it, so before a worker takes
	// the place of one that died. Only the place of a hanging one is given away
	// before. It may be called by several goroutines at once, should not take
	// long, and is never running when Run has returned. nil: nothing.
	OnReaped func(slot, pid int)

	// RecoverThreshold is the number of unexpected exits within RecoverWindow
	// that is still borne: 0 means none.
	RecoverThreshold int
	// RecoverWindow is the time over which exits are counted. 0: the master's
	// life.
	RecoverWindow time.Duration
	// RecoverInterval is the pause, ±20 %, before the respawn of a worker that
	// lived for less than ten seconds. It doubles, up to 30 seconds, with each
	// worker in a row that died before it was ready. There is none after the death
	// of the only worker that served. 0: no pause.
	RecoverInterval time.Duration
	// OverRecovery says what happens beyond the threshold.
	OverRecovery OverRecovery

	// Hooks are called when something happened.
	Hooks Hooks
	// Logger takes the log, through a Journal: one that blocks stops nothing but
	// the log. nil: nothing is logged.
	Logger Logger
	// NoSignals: Run leaves the process's signals alone.
	NoSignals bool
}

// Hooks are called one at a time, in the order of their events, on a goroutine
// of their own: they may block and may call the Master's methods.
type Hooks struct {
	// OnSpawn is called when a worker was started. An error kills all workers
	// and becomes Run's.
	OnSpawn func(slot, pid int) error
	// OnRecover is called after OnSpawn if the new process replaces one that
	// died.
	OnRecover func(slot, oldPid, newPid int)
	// OnStarted is called once, when all workers of the first start were
	// started (not yet: are ready). An error kills all workers and becomes
	// Run's.
	OnStarted func(pids []int) error
	// OnFleetReady is called once, when all workers are ready.
	OnFleetReady func()
	// OnReload is called before a rolling restart by SIGHUP or Restart. An
	// error is logged, keeps everything as it is, and is Restart's. What it returns
	// is the new Configuration.
	OnReload func() ([]byte, error)
	// OnReopen is called on SIGUSR1 in the master; workers get an order.
	OnReopen func()
	// OnStopping is called once, when the fleet begins to stop.
	OnStopping func()
}

// withDefaults checks c and fills what is zero.
func (c Config) withDefaults() (Config, error) {
	for name, d := range map[string]time.Duration{
		"BootTimeout": c.BootTimeout, "GracePeriod": c.GracePeriod, "DrainTimeout": c.DrainTimeout,
		"OrphanGrace": c.OrphanGrace, "HangTimeout": c.HangTimeout, "RecoverWindow": c.RecoverWindow, "RecoverInterval": c.RecoverInterval,
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

// mostFiles is about the number of files that a worker inherits at most.
func (c Config) mostFiles() int {
	const others = 16 // standard files, control socket, lifeline, …
	n := maxDescriptors + len(c.SharedFiles) + others
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
