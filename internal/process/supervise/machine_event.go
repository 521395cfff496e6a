package supervise

import "time"

// eventKind says what happened.
type eventKind uint8

const (
	evStart       eventKind = iota // Run was called
	evResume                       // Run was called, and another master has left its state; children
	evTick                         // time has passed
	evSpawned                      // worker, pid; ready: it cannot report READY itself
	evSpawnFailed                  // worker, err; ready: the slot's sockets exist
	evAttached                     // worker sent its first message
	evReady                        // worker
	evDrained                      // worker, text
	evFatal                        // worker, failure
	evPong                         // worker answered a PING
	evQueue                        // worker; number: connections that wait; progress; ready: progress is known
	evRecycle                      // worker, text
	evExited                       // worker, text
	evStop                         // ordered stop
	evKill                         // every worker is killed
	evQuit                         // stacks are dumped, then every worker is killed
	evRestart                      // rolling restart, validated; version; number: a ticket, or 0
	evRefused                      // a rolling restart was refused: err; number: a ticket, or 0
	evScale                        // number
	evScaleBy                      // number
	evPause                        // workers exit, sockets are kept
	evReopen                       // log files
	evProbe                        // number: the ticket of a caller that asks whether the machine runs
	evReplaced                     // another master is ready to take over, or err
	evFailed                       // err of a hook: every worker is killed
)

// An event is one thing that happened. Its kind says which fields it uses.
type event struct {
	kind     eventKind
	worker   key
	pid      int
	number   int
	progress uint64
	ready    bool
	text     string
	err      error
	failure  *BootError

	version  *version
	children map[key]int // pids
}

// actionKind says what to do.
type actionKind uint8

const (
	actLog          actionKind = iota // text
	actSpawn                          // worker, version
	actAdopt                          // worker serves slot too
	actRelease                        // worker no longer serves slot
	actDrain                          // worker ends within grace
	actReopen                         // worker reopens its logs
	actTerm                           // SIGTERM to worker
	actKill                           // SIGKILL to worker
	actHung                           // worker, pid: it hangs
	actDump                           // SIGQUIT to worker
	actDumpSelf                       // the master prints its own stacks
	actPing                           // worker must answer
	actResume                         // worker must say again what it is
	actLook                           // worker, pid: read the length of its queue
	actForget                         // close binary
	actCloseSockets                   // no worker will inherit them any more
	actReplace                        // binary: it should run the master
	actDismiss                        // the master that is ready is not needed
	actHandOver                       // it takes over: Run returns
	// Hooks.
	actSpawned   // worker, pid
	actRecover   // worker, oldPID, pid
	actStarted   // pids
	actAllReady  // all are ready
	actReopened  // the master reopens its own logs
	actStopping  // the stop begins
	actRestarted // tickets, err: the result of their rolling restart
	actFinish    // err: Run returns
)

// An action is one thing to do. Its kind says which fields it uses.
type action struct {
	kind         actionKind
	worker       key
	slot         int
	pid, oldPID  int
	pids         []int
	tickets      []int
	version      *version
	binary       *executable
	grace        time.Duration
	hasSuccessor bool
	text         string
	err          error
}

// step applies an event that happened at now and returns what is to be done,
// in order.
func (f *fleet) step(e event, now time.Time) []action {
	f.now, f.actions, f.late = now, nil, nil
	if f.mode == modeFinished {
		return nil
	}
	f.take(e)
	f.settle()
	return f.actions
}

// take applies e to the state.
func (f *fleet) take(e event) {
	switch e.kind {
	case evStart:
	case evResume:
		f.resume(e.children)
	case evReplaced:
		f.replaced(e.err)
	case evProbe:
		f.answer(nil, e.number)
	case evTick:
		f.watch()
	case evStop, evKill, evQuit, evRestart, evRefused, evScale, evScaleBy, evPause, evReopen, evFailed:
		f.command(e)
	default:
		if s, w := f.find(e.worker); w != nil {
			f.news(e, s, w)
		}
	}
}

// news applies what happened to one worker.
func (f *fleet) news(e event, s *slot, w *worker) {
	switch e.kind {
	case evSpawned:
		f.spawned(s, w, e.pid, e.ready)
	case evSpawnFailed:
		s.opened = s.opened || e.ready
		f.spawnFailed(s, w, e.err)
	case evAttached:
		f.attached(w)
	case evReady:
		f.attached(w)
		f.ready(s, w)
	case evPong:
		f.answered(w)
	case evQueue:
		f.looked(w, e.number, e.progress, e.ready)
	case evDrained:
		f.logWorker(w, "drained: %s", e.text)
	case evFatal:
		w.failure = e.failure
		f.logWorker(w, "cannot serve: %s: %s", e.failure.Class, e.failure.Text)
	case evRecycle:
		f.recycle(w, e.text)
	case evExited:
		f.exited(s, w, e.text)
	}
}

// next returns the latest time at which step must be called again, or zero
// if only an event can change anything.
func (f *fleet) next() time.Time {
	var soonest time.Time
	consider := func(t time.Time) {
		// What is due by now was acted on, or waits for an event.
		if t.After(f.now) && (soonest.IsZero() || t.Before(soonest)) {
			soonest = t
		}
	}
	f.each(func(_ *slot, w *worker) {
		if w.pid != 0 {
			consider(w.due)
		}
	})
	consider(f.stopsAt)
	if f.replacing == replacingNone {
		consider(f.replaceAt)
	}
	if f.mode == modeRunning {
		for _, s := range f.active() {
			if f.wantsSpawn(s) {
				consider(s.respawnAt)
			}
		}
	}
	if f.rolling == rollingSoak {
		consider(f.soakEnd)
	}
	if probe := f.nextWatch(consider); !probe.IsZero() {
		// Only a tick probes, so this counts even if it is due already.
		if soonest.IsZero() || probe.Before(soonest) {
			soonest = probe
		}
	}
	if f.degraded && len(f.crashes) > 0 && f.config.RecoverWindow > 0 {
		consider(f.crashes[0].Add(f.config.RecoverWindow))
	}
	return soonest
}
