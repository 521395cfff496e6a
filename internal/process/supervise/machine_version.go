package supervise

import (
	"slices"
	"time"
)

// A version is what workers run: a binary and a configuration. The fleet has a target
// version and a good one. They differ while a restart is under way. The target becomes
// the good one when all slots were served by it for Config.Soak. If one of its workers
// fails before, the good one becomes the target again, and workers of the other version
// are replaced.
type version struct {
	number        int // from 1
	binary        *executable
	configuration []byte
	cause         Cause
}

// Cause is why a version was made, or why a slot has the version that it has.
type Cause uint8

const (
	// CauseStart: the first version, with which the master was started.
	CauseStart Cause = iota
	// CauseRestart: a restart with the same binary.
	CauseRestart
	// CauseUpgrade: a restart with the binary that the program's file had then.
	CauseUpgrade
	// CauseRollback: a restart failed, and the slot got its old version back.
	CauseRollback
)

// String returns the cause in lower case.
func (c Cause) String() string {
	names := [...]string{"start", "restart", "upgrade", "rollback"}
	if int(c) < len(names) {
		return names[c]
	}
	return "unknown"
}

// rolling is how far a rolling restart is.
type rolling uint8

const (
	rollingNone    rolling = iota
	rollingForward         // workers are replaced by those of the target
	rollingSoak            // all slots have the target, which must prove itself
	rollingBack            // the target has failed, and its workers are replaced
)

// restart begins a rolling restart to v, or brings paused workers back. If a restart
// is under way, its end is awaited and one more follows, however many were asked for
// meanwhile. Otherwise the last slots might never be restarted. The end of a failed
// one is not awaited: v may be what mends it.
func (f *fleet) restart(ticket int, v *version) {
	f.endPauses()
	if earlier := f.pending; earlier != nil {
		if v.binary == nil { // the upgrade that was asked for before is not forgotten
			v.binary, v.cause = earlier.binary, earlier.cause
		}
		f.pending = nil
		defer f.release(earlier.binary)
	}
	f.pending = v
	if f.mode == modePaused {
		f.mode = modeRunning
		f.logf("resumed: workers start again")
	}
	switch f.rolling {
	case rollingForward, rollingSoak:
		f.logf("another rolling restart follows the one that is under way")
	case rollingBack:
		f.endRolling(f.whyBack)
	default:
		f.beginRolling()
	}
	switch {
	case ticket == 0: // no caller waits
	case f.pending != nil:
		f.following = append(f.following, ticket)
	default:
		f.waiting = append(f.waiting, ticket)
	}
}

// beginRolling begins the rolling restart to pending.
func (f *fleet) beginRolling() {
	v := f.pending
	f.pending = nil
	if v.binary == nil {
		v.binary = f.good.binary
	}
	f.versions++
	v.number = f.versions
	f.rolling, f.target = rollingForward, v
	f.logf("rolling restart begins: version %d", v.number)
}

// endRolling answers those who wait for the current restart, and begins the one that
// was asked for meanwhile.
func (f *fleet) endRolling(err error) {
	f.answer(err, f.waiting...)
	f.waiting, f.following = f.following, nil
	f.rolling, f.whyBack = rollingNone, nil
	if f.pending != nil {
		f.endPauses()
		f.beginRolling()
	}
}

// cancelRolling ends a rolling restart because all workers are to exit. A version that
// was not proven is given up.
func (f *fleet) cancelRolling() {
	f.answer(ErrStopping, append(f.waiting, f.following...)...)
	dropped := []*version{f.target, f.pending}
	f.waiting, f.following, f.pending, f.whyBack = nil, nil, nil, nil
	f.rolling, f.target = rollingNone, f.good
	for _, v := range dropped {
		if v != nil {
			f.release(v.binary)
		}
	}
}

// restartFailed records that a restart failed.
func (f *fleet) restartFailed(err error) {
	f.failures++
	f.failure = clip(err.Error())
}

// answer tells the callers that hold tickets how their restart ended.
func (f *fleet) answer(err error, tickets ...int) {
	tickets = slices.DeleteFunc(tickets, func(ticket int) bool { return ticket == 0 })
	if len(tickets) > 0 {
		f.do(action{kind: actRestarted, tickets: tickets, err: err})
	}
}

// endPauses lets slots that wait start their workers at once, because something has
// changed that may help.
func (f *fleet) endPauses() {
	for _, s := range f.slots {
		s.respawnAt, s.unready = time.Time{}, 0
	}
}

// proceed takes a rolling restart to its next phase when the present one is over.
func (f *fleet) proceed() {
	switch f.rolling {
	case rollingForward:
		if f.hasOutdated() || !f.isReady() {
			return
		}
		f.rolling, f.soakEnd = rollingSoak, f.now.Add(f.config.Soak)
		if f.config.Soak > 0 {
			f.logf("all workers have version %d, which must run for %v", f.target.number, f.config.Soak)
		}
		f.proceed()
	case rollingSoak:
		if f.hasOutdated() || !f.isReady() || f.now.Before(f.soakEnd) {
			return
		}
		f.restarts++
		before := f.good
		f.failure, f.good = "", f.target
		f.release(before.binary)
		if f.good.binary != before.binary {
			f.replacing, f.replaceFailures, f.replaceAt = replacingNone, 0, time.Time{}
		}
		f.logf("rolling restart is done")
		f.endRolling(nil)
	case rollingBack:
		if f.hasOutdated() {
			return
		}
		f.logf("all workers have version %d again", f.good.number)
		f.endRolling(f.whyBack)
	}
}

// rollBack makes the good version the target again, because w, of the target, failed.
// It does nothing if that was done before.
func (f *fleet) rollBack(w *worker, cause error) {
	if w.version != f.target || f.target == f.good {
		return
	}
	f.whyBack = &RestartError{Slot: w.slot, Err: cause}
	f.restartFailed(f.whyBack)
	f.logf("rolling restart failed in slot %d: all slots get version %d back", w.slot, f.good.number)
	f.rolling, f.target = rollingBack, f.good
	f.endPauses()
	// Those that boot need not be awaited.
	f.each(func(s *slot, other *worker) {
		if other.version == w.version && other.phase == PhaseSpawned && other != w {
			f.leave(s, other, endOrdered, f.config.DrainTimeout)
		}
	})
	f.release(w.version.binary)
}

// failed handles the end of a serving worker whose version is not the good one. It is
// the restart that failed and not the service, so it does not count as a crash.
func (f *fleet) failed(s *slot, w *worker, how string) {
	f.logWorker(w, "%s (version %d)", how, w.version.number)
	s.lastDead = w.pid
	f.rollBack(w, f.whyFailed(w, how))
	f.vacated(s, w, true)
	if s.serving == nil {
		s.respawnAt = time.Time{} // another version follows
	}
}

// versionFor is the version of a new worker in a slot that has none. It is the good
// one, as long as a worker of it serves. If none does, and a restart is under way, it
// may be the one that helps.
func (f *fleet) versionFor() *version {
	if f.rolling != rollingForward && f.rolling != rollingSoak {
		return f.target
	}
	for _, s := range f.active() {
		if s.served() && s.serving.version != f.target {
			return f.good
		}
	}
	return f.target
}

// hasOutdated reports whether any active slot has a worker of another version than the
// target.
func (f *fleet) hasOutdated() bool {
	for _, s := range f.active() {
		if s.serving != nil && s.serving.version != f.target {
			return true
		}
	}
	return false
}

// release closes a binary, unless one of the versions needs it. Workers that were asked
// for before are started first.
func (f *fleet) release(binary *executable) {
	for _, v := range []*version{f.good, f.target, f.pending} {
		if v != nil && v.binary == binary {
			return
		}
	}
	if binary != nil {
		f.do(action{kind: actForget, binary: binary})
	}
}

const (
	// After a master could not be replaced, it is tried again so often, after pauses that double.
	replaceRetries    = 6
	firstReplacePause = 10 * time.Second
)

// replacing is how far the replacement of the master itself is.
type replacing uint8

const (
	replacingNone replacing = iota
	replacingBoot           // the new one was asked for
	replacingOver           // it takes over, or is not to be tried again
)

// replaceMaster asks for a master with the good binary, once an upgrade has proven it.
func (f *fleet) replaceMaster() {
	if f.config.Holder == nil || f.replacing != replacingNone || f.now.Before(f.replaceAt) || !f.isCalm() || f.good.binary.id == f.config.Manages {
		return
	}
	f.replacing = replacingBoot
	f.do(action{kind: actReplace, binary: f.good.binary})
}

// replaced: a new master is ready, or cannot be.
func (f *fleet) replaced(err error) {
	switch {
	case err != nil && f.replaceFailures < replaceRetries:
		pause := firstReplacePause << f.replaceFailures
		f.replaceFailures++
		f.replacing, f.replaceAt = replacingNone, f.now.Add(pause)
		f.logf("the master goes on with its own binary, and tries again in %v: %v", pause, err)
	case err != nil:
		f.replacing = replacingOver
		f.logf("the master goes on with its own binary: %v", err)
	case !f.isCalm(): // it knows an older state; another one is asked for later
		f.replacing = replacingNone
		f.do(action{kind: actDismiss})
	default:
		f.replacing = replacingOver
		f.do(action{kind: actHandOver})
	}
}

// isCalm reports whether all workers serve, and nothing else was asked for.
func (f *fleet) isCalm() bool {
	return f.mode == modeRunning && !f.isEnding() && f.rolling == rollingNone && f.pending == nil && f.stage == stageReady
}
