package supervise

import "time"

// command applies an order of the user to the fleet.
func (f *fleet) command(e event) {
	isRunning := !f.isEnding()
	switch {
	case e.kind == evFailed:
		f.fail(e.err)
	case e.kind == evKill:
		f.killAll()
	case e.kind == evQuit:
		f.quit()
	case e.kind == evStop && isRunning && f.mode == modeRunning && f.config.StopDelay > 0:
		f.announceStop()
		f.cancelRolling()
		f.stopsAt = f.now.Add(f.config.StopDelay)
		f.logf("stopping in %v", f.config.StopDelay)
	case e.kind == evStop && f.mode < modeStopping:
		f.stop(nil)
	case e.kind == evStop:
		f.hasten()
	case !isRunning:
		f.logf("the fleet is stopping: command ignored")
		if e.kind == evRestart || e.kind == evRefused {
			f.answer(ErrStopping, e.number)
		}
		if e.version != nil {
			f.release(e.version.binary)
		}
	case e.kind == evRestart:
		f.restart(e.number, e.version)
	case e.kind == evRefused:
		f.logf("reload failed, nothing changes: %v", e.err)
		f.restartFailed(e.err)
		f.answer(e.err, e.number)
	case e.kind == evScale:
		f.scale(e.number)
	case e.kind == evScaleBy:
		f.scale(f.wanted + e.number)
	case e.kind == evPause:
		f.pause()
	case e.kind == evReopen:
		f.reopen()
	}
}

// isEnding reports whether the fleet was told to end.
func (f *fleet) isEnding() bool { return f.mode >= modeStopping || !f.stopsAt.IsZero() }

// announceStop reports that the fleet will end, the first time.
func (f *fleet) announceStop() {
	if !f.isEnding() {
		f.do(action{kind: actStopping})
	}
}

// stop begins an ordered stop. Run will return result.
func (f *fleet) stop(result error) {
	if f.mode >= modeStopping {
		return
	}
	f.announceStop()
	f.mode, f.result = modeStopping, result
	f.cancelRolling()
	f.logf("stopping: workers have %v", f.config.GracePeriod)
	f.leaveAll(f.config.GracePeriod)
}

// leaveAll tells every worker to exit. A worker that drains already gets no more time
// than the others, and is told the new time and that it has no successor any more.
func (f *fleet) leaveAll(grace time.Duration) {
	for _, s := range f.slots {
		s.adopter = nil
	}
	f.each(func(s *slot, w *worker) {
		if w.phase != PhaseDraining && w.phase != PhaseHung && w.phase != PhaseKilled {
			f.leave(s, w, endOrdered, grace)
			return
		}
		f.remove(s, w)
		s.leaving = append(s.leaving, w)
		w.ending = max(w.ending, endOrdered)
		if w.phase == PhaseDraining && w.attached {
			f.late = append(f.late, action{kind: actDrain, worker: w.key})
		}
	})
	f.shorten(grace + killSlack)
}

// shorten bounds the time that draining workers have left.
func (f *fleet) shorten(left time.Duration) {
	end := f.now.Add(left)
	f.each(func(_ *slot, w *worker) {
		if (w.phase == PhaseDraining || w.phase == PhaseHung) && w.due.After(end) {
			w.due = end
		}
	})
}

// hasten handles a second SIGTERM.
func (f *fleet) hasten() {
	if f.mode == modeStopping {
		f.logf("stopping at once: workers have %v", secondGrace)
		f.shorten(secondGrace)
	}
}

// fail kills all workers; Run returns err.
func (f *fleet) fail(err error) {
	if f.result == nil {
		f.result = err
	}
	f.killAll()
}

// killAll sends SIGKILL to all workers.
func (f *fleet) killAll() {
	f.announceStop()
	f.mode = modeKilling
	f.cancelRolling()
	f.leaveAll(0)
	f.late = nil
	f.each(func(_ *slot, w *worker) {
		if w.phase != PhaseKilled {
			f.kill(w)
		}
	})
}

// quit has every process print its stacks and then exit.
func (f *fleet) quit() {
	if f.mode == modeKilling {
		return
	}
	f.announceStop()
	f.logf("SIGQUIT: stacks of all processes follow")
	f.do(action{kind: actDumpSelf})
	f.mode, f.result = modeKilling, ErrQuit
	f.cancelRolling()
	f.leaveAll(0)
	f.late = nil
	f.each(func(_ *slot, w *worker) {
		if w.phase != PhaseHung {
			w.due = f.now.Add(dumpTime)
		}
		if w.pid == 0 {
			f.kill(w)
		}
	})
}

// dumpNext has the next worker print its stacks when the one before has exited: the
// runtime prints in small pieces, which would mix.
func (f *fleet) dumpNext() {
	var next *worker
	isDumping := false
	f.each(func(_ *slot, w *worker) {
		// One that hung may not react to SIGQUIT, so the others do not wait for it.
		isDumping = isDumping || w.isDumping && w.phase != PhaseHung
		if next == nil && w.phase == PhaseDraining && w.pid != 0 {
			next = w
		}
	})
	if next != nil && !isDumping {
		next.isDumping = true
		f.do(action{kind: actDump, worker: next.key})
	}
}

// scale sets the number of workers, within its bounds.
func (f *fleet) scale(workers int) {
	bounded := min(max(workers, f.config.MinWorkers), f.config.MaxWorkers)
	if bounded != workers {
		f.logf("%d workers are out of bounds, so %d", workers, bounded)
	}
	if bounded == f.wanted {
		return
	}
	f.logf("%d workers instead of %d", bounded, f.wanted)
	f.wanted = bounded
	f.grow()
}

// pause ends the workers and keeps the sockets, with the connections that wait in
// them.
func (f *fleet) pause() {
	if f.mode == modePaused {
		return
	}
	f.mode = modePaused
	f.cancelRolling()
	f.logf("paused: workers end, sockets stay open; SIGHUP starts the workers again")
	f.leaveAll(f.config.DrainTimeout)
	for _, s := range f.slots {
		s.respawnAt, s.unready, s.lastDead = time.Time{}, 0, 0
	}
}

// reopen has all processes reopen their log files.
func (f *fleet) reopen() {
	f.do(action{kind: actReopened})
	f.each(func(_ *slot, w *worker) {
		if w.attached && w.phase != PhaseKilled {
			f.do(action{kind: actReopen, worker: w.key})
		}
	})
}
