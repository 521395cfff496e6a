package supervise

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// The machine is the master's mind: a function of its state, an event and the
// time that changes the state and returns what is to be done. It starts no
// process, reads no clock and waits for nothing, so that tests can lead it
// through any history.
//
// Events say what happened and change as little as they must; after each one
// settle looks at the whole fleet and brings it closer to what is wanted. So
// no order of events is special: a crash in the middle of a rolling restart
// needs no code of its own.

// steadyUptime is the age from which a worker that died is replaced at once.
const steadyUptime = 10 * time.Second

const (
	longestBackoff = 30 * time.Second
	// spawnBackoff is the pause after a failed fork where RecoverInterval is
	// shorter.
	spawnBackoff = 100 * time.Millisecond
	// degradedBackoff is the pause between attempts beyond the threshold.
	degradedBackoff = 30 * time.Second
	// killSlack is what a worker gets beyond the grace that it was told, to
	// report and to exit.
	killSlack = 400 * time.Millisecond
	// hurry is what a second SIGTERM leaves.
	hurry = time.Second
	// helloPatience is how long a Start function's worker may leave HELLO unanswered
	// before it counts as one that never will, and so as ready.
	helloPatience = 2 * time.Second
	// dumpTime is what workers get to print their stacks.
	dumpTime = 2 * time.Second
)

// A key names one worker process, now and later: pids come back, keys don't.
type key struct{ slot, generation int }

// String returns "slot.generation", as logs have it.
func (k key) String() string { return fmt.Sprintf("%d.%d", k.slot, k.generation) }

// worker is one process.
type worker struct {
	key
	pid      int // 0 until the fork returned
	phase    Phase
	attached bool // it has spoken
	rollout  int  // the rolling restart that it belongs to
	started  time.Time
	readyAt  time.Time // zero: it never served
	// due is when waiting ends: for READY in PhaseSpawned, for the exit in
	// PhaseDraining.
	due time.Time
	// expected: its exit was asked for, so it is no crash.
	expected bool
	// recycling: it asked to be replaced.
	recycling bool
	// replaced: it leaves because its successor is ready.
	replaced bool
	// dumping: it was told to print its stacks.
	dumping bool
	vitals  vitals
	// hungAt is when it was found hanging.
	hungAt time.Time
	// recovers is the pid of the dead worker whose place it takes.
	recovers int
	// failure is what it reported by FATAL.
	failure *BootError
	isLate  bool // it was killed because it did not become ready in time
}

// takesOrders tells whether w serves and can be told to serve more.
func (w *worker) takesOrders() bool {
	return w.phase == PhaseReady && w.attached && !w.expected
}

// slot is one place in the fleet: a set of sockets, and the processes that
// serve it.
type slot struct {
	id         int
	generation int       // of the youngest process
	serving    *worker   // serves, or boots where nobody serves
	successor  *worker   // boots beside serving
	leaving    []*worker // on their way out
	opened     bool      // its sockets exist
	retired    bool
	adopter    *worker // another slot's worker that serves the sockets
	// respawnAt is the earliest time of the next spawn.
	respawnAt time.Time
	// unready counts the deaths in a row of workers that had not served yet.
	unready int
	// lastDead is the pid of the worker that crashed and has no replacement.
	lastDead int
	// hungAt is when a worker of the slot was last found hanging.
	hungAt time.Time
	// For the status.
	starts, crashes, hangs int
}

// served tells whether a ready worker of its own serves the slot.
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

// mode is what the fleet as a whole does.
type mode uint8

const (
	modeRunning  mode = iota
	modePaused        // workers were put away, sockets are kept
	modeStopping      // workers finish, then Run ends
	modeKilling       // the same, workers are killed
	modeFinished
)

// fleet is the machine's state.
type fleet struct {
	config     Config
	hasSockets bool
	slots      []*slot
	wanted     int
	mode       mode
	result     error // of Run

	firstPIDs  []int // of the first start, until all are there
	isStarted  bool  // all workers of the first start were started
	fleetReady bool  // all were ready once
	speaks     bool  // a worker has answered HELLO: all others are to

	rollout  int // number of the latest rolling restart
	rolling  bool
	again    bool // another one is to follow the one that is under way
	restarts int
	// waiting are the tickets of those who wait for the end of the rolling restart,
	// and following of those who wait for the end of the next.
	waiting, following []int
	// Workers are started with target: what the restart that is under way brings,
	// or else good, what the last one that did not fail has brought. pending is
	// what the next restart brings.
	good, target, pending []byte
	failures              int    // restarts that failed or were refused
	failure               string // why the last one did; "": it did not

	crashes      []time.Time // within the window
	crashesTotal int
	degraded     bool

	probed        time.Time // when the workers were probed last
	isWatching    bool      // there were some
	socketsClosed bool

	random *rand.Rand // of the back-off

	now     time.Time
	actions []action
	late    []action // what must follow the hand-over of sockets
}

// newFleet returns the state before the first event. The sockets of the first
// slots exist.
func newFleet(c Config, seed uint64) *fleet {
	f := &fleet{
		config:     c,
		hasSockets: c.Sockets != nil,
		wanted:     c.Workers,
		good:       c.Configuration,
		target:     c.Configuration,
		random:     rand.New(rand.NewPCG(seed, 1)),
	}
	f.grow()
	for _, s := range f.slots {
		s.opened = true
	}
	return f
}

// grow makes the slots that are wanted and not there.
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

// logWorker adds a line that says which worker it is about.
func (f *fleet) logWorker(w *worker, format string, args ...any) {
	f.logf("worker %v (pid %d): %s", w.key, w.pid, fmt.Sprintf(format, args...))
}
