package supervise

import (
	"errors"
	"fmt"
	"time"
)

// spawn starts a worker of v in s.
func (f *fleet) spawn(s *slot, v *version) *worker {
	s.generation++
	w := &worker{key: key{s.id, s.generation}, version: v, started: f.now}
	s.respawnAt = time.Time{}
	f.do(action{kind: actSpawn, worker: w.key, version: v})
	return w
}

// spawned: the fork returned.
func (f *fleet) spawned(s *slot, w *worker, pid int, ready bool) {
	w.pid, w.started = pid, f.now
	s.opened = true
	s.starts++
	f.logWorker(w, "started")
	f.do(action{kind: actSpawned, worker: w.key, pid: pid})
	if w.recovers != 0 {
		f.do(action{kind: actRecover, worker: w.key, oldPID: w.recovers, pid: pid})
	}
	if f.stage == stageStarting {
		f.firstPIDs = append(f.firstPIDs, pid)
	}
	switch {
	case w.phase == PhaseKilled:
		f.do(action{kind: actKill, worker: w.key})
	case w.phase == PhaseDraining:
		f.late = append(f.late, action{kind: actDrain, worker: w.key})
	case ready:
		f.ready(s, w)
	default:
		w.due = f.now.Add(f.config.BootTimeout)
		if f.mayLackControl() {
			w.due = f.now.Add(min(helloPatience, f.config.BootTimeout))
		}
	}
}

// mayLackControl reports whether workers may be unable to send messages: a Start function
// need not pass the control socket on, and no worker has answered yet.
func (f *fleet) mayLackControl() bool { return f.config.Start != nil && !f.isAnyAttached }

// bootExpired: w was not ready in time. If w may be unable to report READY, it is
// taken for ready; otherwise it gets the rest of BootTimeout.
func (f *fleet) bootExpired(s *slot, w *worker) {
	end := w.started.Add(f.config.BootTimeout)
	switch {
	case !w.attached && f.mayLackControl():
		f.ready(s, w)
	case f.now.Before(end):
		w.due = end
	default:
		f.logWorker(w, "not ready after %v (BootTimeout): killed", f.config.BootTimeout)
		w.ending = max(w.ending, endLate)
		f.kill(w)
	}
}

// whyFailed returns the reason why w, which has ended, failed.
func (f *fleet) whyFailed(w *worker, how string) error {
	switch {
	case w.failure != nil:
		return w.failure
	case w.ending == endLate:
		return fmt.Errorf("not ready after %v", f.config.BootTimeout)
	case !w.readyAt.IsZero():
		return fmt.Errorf("%s, %v after it was ready", how, f.now.Sub(w.readyAt).Round(time.Millisecond))
	}
	return errors.New(how)
}

// spawnFailed: there is no process. This never counts as a crash: a system without
// memory or descriptors is not the worker's fault.
func (f *fleet) spawnFailed(s *slot, w *worker, err error) {
	f.remove(s, w)
	f.logf("worker %v: cannot be started: %v", w.key, err)
	switch {
	case w.ending >= endOrdered:
	case f.stage == stageStarting:
		f.fail(err)
	default:
		if w.recovers != 0 {
			s.lastDead = w.recovers
		}
		f.rollBack(w, err)
		f.backOff(s, max(f.config.RecoverInterval, spawnBackoff))
	}
}

// attached: w has sent a message. If it was told to drain by a signal only, the order
// is repeated as a message.
func (f *fleet) attached(w *worker) {
	if w.attached {
		return
	}
	w.attached, f.isAnyAttached = true, true
	w.vitals.reset(f.now)
	if w.phase == PhaseDraining {
		f.late = append(f.late, action{kind: actDrain, worker: w.key})
	}
}

// ready: w serves. If it is a successor, its predecessor is told to exit.
func (f *fleet) ready(s *slot, w *worker) {
	if w.phase != PhaseSpawned {
		return
	}
	w.phase, w.due, w.readyAt = PhaseReady, time.Time{}, f.now
	s.unready = 0
	w.vitals.reset(f.now)
	f.logWorker(w, "ready after %v", f.now.Sub(w.started).Round(time.Millisecond))
	if s.version != w.version {
		cause := w.version.cause
		if s.version != nil && w.version.number < s.version.number {
			cause = CauseRollback
		}
		s.version, s.since, s.cause = w.version, f.now, cause
	}
	if s.successor != w {
		return
	}
	old := s.serving
	s.serving, s.successor = w, nil
	if old != nil {
		f.leave(s, old, endReplaced, f.config.DrainTimeout)
	}
}

// recycle: w asked to be replaced. If it is draining already, the order did not reach
// it and is repeated.
func (f *fleet) recycle(w *worker, reason string) {
	f.attached(w)
	if w.phase == PhaseDraining {
		f.late = append(f.late, action{kind: actDrain, worker: w.key})
		return
	}
	if w.phase == PhaseHung {
		return
	}
	if w.ending < endWanted {
		f.logWorker(w, "wants to be replaced: %s", reason)
		w.ending = endWanted
	}
}

// leave tells w to exit within grace and moves it to the slot's leaving workers.
func (f *fleet) leave(s *slot, w *worker, why ending, grace time.Duration) {
	f.remove(s, w)
	s.leaving = append(s.leaving, w)
	w.ending = max(w.ending, why)
	w.due = f.now.Add(grace + killSlack)
	if w.phase == PhaseKilled {
		return
	}
	w.phase = PhaseDraining
	f.late = append(f.late, action{kind: actDrain, worker: w.key})
}

// remove takes w out of its slot.
func (f *fleet) remove(s *slot, w *worker) {
	if s.serving == w {
		s.serving = nil
	}
	if s.successor == w {
		s.successor = nil
	}
	for i, other := range s.leaving {
		if other == w {
			s.leaving = append(s.leaving[:i:i], s.leaving[i+1:]...)
			return
		}
	}
}

// kill sends SIGKILL. The worker stays in its slot until its exit is reported.
func (f *fleet) kill(w *worker) {
	w.phase, w.due = PhaseKilled, time.Time{}
	if w.pid != 0 {
		f.do(action{kind: actKill, worker: w.key})
	}
}

// exited: the process has ended.
func (f *fleet) exited(s *slot, w *worker, how string) {
	wasServing, wasSuccessor := s.serving == w, s.successor == w
	f.remove(s, w)
	switch {
	case w.ending >= endOrdered:
		f.logWorker(w, "%s", how)
	case w.ending == endWanted:
		// It exited before its successor was ready. This is no crash, but its
		// replacement waits, so that this cannot loop fast.
		f.logWorker(w, "%s, before its successor was ready", how)
		f.vacated(s, w, wasServing)
	case wasSuccessor:
		// The predecessor goes on serving, so this is a failed restart and no crash.
		f.logWorker(w, "%s, before it was ready", how)
		f.rollBack(w, f.whyFailed(w, how))
		f.backOff(s, max(f.config.RecoverInterval, spawnBackoff))
	case w.version != f.good:
		f.failed(s, w, how)
	default:
		f.crashed(s, w, "died: "+how)
	}
}

// crashed: a worker that should serve has died or hangs.
func (f *fleet) crashed(s *slot, w *worker, how string) {
	f.crashesTotal++
	s.crashes++
	s.crash, s.crashedAt = clip(how), f.now
	if w.failure != nil {
		s.crash = clip("cannot serve: " + w.failure.Class + ": " + w.failure.Text)
	}
	f.crashes = append(f.crashes, f.now)
	f.forget()
	if w.failure != nil && f.stage != stageReady {
		f.logWorker(w, "%s", how)
		f.fail(w.failure)
		return
	}
	f.logWorker(w, "%s (%d of %d deaths allowed)", how, len(f.crashes), f.config.RecoverThreshold)
	s.lastDead = w.pid
	f.vacated(s, w, true)
	if len(f.crashes) <= f.config.RecoverThreshold {
		return
	}
	if f.config.OverRecovery == OverRecoveryExit || f.stage != stageReady {
		f.logf("too many workers died: stopping")
		f.placeSockets() // siblings adopt what waits in its sockets; workers that drain adopt nothing
		f.stop(ErrOverRecovery)
		return
	}
	if !f.degraded {
		f.logf("too many workers died: serving with the remaining workers")
	}
	f.degraded = true
	most := longestBackoff
	if f.wasLast(w) {
		most = lastBackoff
	}
	base := max(f.config.RecoverInterval, spawnBackoff)
	pause := min(doubled(base, len(f.crashes)-f.config.RecoverThreshold-1), most)
	if next := f.now.Add(f.vary(pause)); s.serving == nil && next.After(s.respawnAt) {
		s.respawnAt = next
	}
}

// wasLast reports whether w, which has ended, was the last worker that served.
func (f *fleet) wasLast(w *worker) bool { return !w.readyAt.IsZero() && !f.isAnyServed() }

// vacated: w, which occupied s, has ended. A successor that boots takes its place;
// otherwise a new worker is scheduled.
func (f *fleet) vacated(s *slot, w *worker, wasServing bool) {
	if wasServing && s.successor != nil {
		s.serving, s.successor = s.successor, nil
		if s.lastDead != 0 {
			s.serving.recovers, s.lastDead = s.lastDead, 0
			if s.serving.pid != 0 {
				f.do(action{kind: actRecover, worker: s.serving.key, oldPID: s.serving.recovers, pid: s.serving.pid})
			}
		}
		return
	}
	switch {
	case w.readyAt.IsZero():
		f.backOff(s, f.config.RecoverInterval)
	case f.now.Sub(w.started) >= steadyUptime || f.wasLast(w):
		s.respawnAt = time.Time{}
	default:
		s.respawnAt = f.now.Add(f.vary(f.config.RecoverInterval))
	}
}

// backOff schedules the next worker of s after one that was never ready. The pause
// doubles each time in a row.
func (f *fleet) backOff(s *slot, base time.Duration) {
	s.respawnAt = f.now.Add(f.vary(doubled(base, s.unready)))
	s.unready++
}

// doubled returns base, doubled so many times, and at most longestBackoff.
func doubled(base time.Duration, times int) time.Duration {
	switch {
	case base == 0:
		return 0
	case times < 32 && base < longestBackoff>>times:
		return base << times
	}
	return longestBackoff
}

// vary returns pause ± 20 %, so that slots do not restart at the same moment.
func (f *fleet) vary(pause time.Duration) time.Duration {
	return pause + time.Duration(float64(pause)*(0.4*f.random.Float64()-0.2))
}

// forget drops the crashes that are older than the window.
func (f *fleet) forget() {
	if f.config.RecoverWindow == 0 {
		return
	}
	edge := f.now.Add(-f.config.RecoverWindow)
	for len(f.crashes) > 0 && !f.crashes[0].After(edge) {
		f.crashes = f.crashes[1:]
	}
}
