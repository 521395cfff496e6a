package supervise

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// The machine decides for the master. It is a function of its state, an event and the
// time: it changes the state and returns actions. It starts no process, reads no
// clock and waits for nothing, so tests can lead it through any history.
//
// An event changes as little as possible. After each event, settle compares the whole
// fleet with what is wanted and returns the next actions. So no order of events is
// special: a crash during a rolling restart needs no code of its own.

// steadyUptime is the uptime from which a worker that died is replaced without a
// pause.
const steadyUptime = 10 * time.Second

const (
	longestBackoff = 30 * time.Second
	// spawnBackoff is the least pause after a failed fork.
	spawnBackoff = 100 * time.Millisecond
	// lastBackoff is the longest pause, beyond the threshold, if no other worker serves.
	lastBackoff = time.Second
	// killSlack is the time beyond the grace period that a worker has to report and
	// to exit.
	killSlack = 400 * time.Millisecond
	// secondGrace is the time that workers have after a second SIGTERM.
	secondGrace = time.Second
	// helloPatience is how long the master waits for an answer to HELLO from a worker
	// of a Start function. After that it assumes that the worker cannot answer, and
	// that it is ready.
	helloPatience = 2 * time.Second
	// dumpTime is the time that workers have to print their stacks.
	dumpTime = 2 * time.Second
)

// A key identifies one worker process. Unlike a pid it is never used again.
type key struct{ slot, generation int }

// String returns "slot.generation".
func (k key) String() string { return fmt.Sprintf("%d.%d", k.slot, k.generation) }

// worker is one process.
type worker struct {
	key
	pid      int // 0 until the fork returns
	phase    Phase
	attached bool // it has sent a message
	version  *version
	started  time.Time
	readyAt  time.Time // zero: it was never ready
	// due is when the current wait ends: for READY in PhaseSpawned, for the exit in
	// PhaseDraining.
	due    time.Time
	ending ending
	// knowsSuccessor: it was told that it has one.
	knowsSuccessor bool
	// isDumping: it was told to print its stacks.
	isDumping bool
	vitals    vitals
	// hungAt is when it was found hanging.
	hungAt time.Time
	// recovers is the pid of the dead worker that it replaces.
	recovers int
	// failure is what it reported with FATAL.
	failure *BootError
}

// An ending is why a worker ends. A greater one replaces a smaller one.
type ending uint8

const (
	endNone     ending = iota // no command ends it: its exit is a crash
	endLate                   // it was killed because it was not ready in time
	endWanted                 // it asked to be replaced
	endOrdered                // the master told it to exit, so its exit is no crash
	endReplaced               // so, because its successor is ready
)

// takesOrders reports whether w serves and takes orders.
func (w *worker) takesOrders() bool {
	return w.phase == PhaseReady && w.attached && w.ending < endOrdered
}

// slot is one place in the fleet: a set of sockets, and the processes that serve it.
type slot struct {
	id         int
	generation int       // of the youngest process
	serving    *worker   // the worker that serves, or one that boots while none serves
	successor  *worker   // boots while serving serves
	leaving    []*worker // were told to exit
	version    *version  // of the last worker that became ready
	since      time.Time // when the first one of that version did
	cause      Cause     // why it has that version
	opened     bool      // its sockets exist
	retired    bool
	adopter    *worker // the worker of another slot that serves the sockets meanwhile
	// respawnAt is the earliest time of the next spawn.
	respawnAt time.Time
	// unready counts workers in a row that died before they were ready.
	unready int
	// lastDead is the pid of the crashed worker that has no replacement yet.
	lastDead int
	// hungAt is when a worker of the slot was last found hanging.
	hungAt time.Time
	// For the status.
	starts, crashes, hangs int
	crash                  string // why a worker has crashed last
	crashedAt              time.Time
}

// served reports whether a ready worker of its own serves the slot.
func (s *slot) served() bool { return s.serving != nil && s.serving.phase == PhaseReady }

// workers returns all processes of the slot, the one that serves first.
func (s *slot) workers() []*worker {
	var all []*worker
	if s.serving != nil {
		all = append(all, s.serving)
	}
	if s.successor != nil {
		all = append(all, s.successor)
	}
	return append(all, s.leaving...)
}

// mode is what the whole fleet does.
type mode uint8

const (
	modeRunning  mode = iota
	modePaused        // workers have exited or are about to; the sockets are kept
	modeStopping      // workers drain, then Run returns
	modeKilling       // workers are killed, then Run returns
	modeFinished
)

// stage is how far the first start has come.
type stage uint8

const (
	stageStarting stage = iota
	stageStarted        // all of the first workers were started
	stageReady          // all were ready once
)

// listening is what has become of the master's listening sockets.
type listening uint8

const (
	listeningNone   listening = iota // there are none
	listeningOpen                    // they are open
	listeningClosed                  // all workers were told to end
)

// fleet is the machine's state.
type fleet struct {
	config    Config
	listening listening
	slots     []*slot
	wanted    int
	mode      mode
	stopsAt   time.Time // when an order to stop that waits for StopDelay is carried out
	result    error     // the result of Run

	stage         stage
	firstPIDs     []int // of the first workers, until all were started
	isAnyAttached bool  // a worker has answered HELLO, so all others must

	// good is the version that is known to serve, target the one that all slots are to
	// have. pending is that of the next restart, nil if none was asked for.
	good, target, pending *version
	versions              int // the highest number of a version
	rolling               rolling
	soakEnd               time.Time // in rollingSoak
	whyBack               error     // in rollingBack: why the restart failed
	restarts              int
	failures              int    // restarts that failed or were refused
	failure               string // why the last one failed; "" if it succeeded
	// waiting holds the tickets of callers that wait for the end of the current
	// rolling restart, following those of callers that wait for the end of the next
	// one.
	waiting, following []int

	crashes      []time.Time // within the window
	crashesTotal int
	degraded     bool

	replacing       replacing
	replaceFailures int       // in a row
	replaceAt       time.Time // not before; zero: at once

	probed     time.Time // when the workers were last probed
	isWatching bool      // there were workers to probe

	random *rand.Rand // of the back-off

	now     time.Time
	actions []action
	late    []action // drains: they follow the hand-over of sockets
}

// newFleet returns the state before the first event. The sockets of the first slots
// exist already.
func newFleet(c Config, seed uint64) *fleet {
	f := &fleet{
		config:   c,
		wanted:   c.Workers,
		versions: 1,
		good:     &version{number: 1, binary: c.binary, configuration: c.Configuration},
		random:   rand.New(rand.NewPCG(seed, 1)),
	}
	f.target = f.good
	if c.Sockets != nil {
		f.listening = listeningOpen
	}
	f.grow()
	for _, s := range f.slots {
		s.opened = true
	}
	return f
}

// grow makes the slots that are missing.
func (f *fleet) grow() {
	for len(f.slots) < f.wanted {
		f.slots = append(f.slots, &slot{id: len(f.slots)})
	}
}

// find returns the worker k and its slot, or nil if it is gone.
func (f *fleet) find(k key) (*slot, *worker) {
	if k.slot < 0 || k.slot >= len(f.slots) {
		return nil, nil
	}
	s := f.slots[k.slot]
	for _, w := range s.workers() {
		if w.key == k {
			return s, w
		}
	}
	return nil, nil
}

// each calls do for every process.
func (f *fleet) each(do func(*slot, *worker)) {
	for _, s := range f.slots {
		for _, w := range s.workers() {
			do(s, w)
		}
	}
}

// active returns the slots that should have a worker.
func (f *fleet) active() []*slot { return f.slots[:f.wanted] }

// do adds an action.
func (f *fleet) do(a action) { f.actions = append(f.actions, a) }

// logf adds a line to the log.
func (f *fleet) logf(format string, args ...any) {
	f.do(action{kind: actLog, text: fmt.Sprintf(format, args...)})
}

// logWorker adds a line about w to the log.
func (f *fleet) logWorker(w *worker, format string, args ...any) {
	f.logf("worker %v (pid %d): %s", w.key, w.pid, fmt.Sprintf(format, args...))
}
