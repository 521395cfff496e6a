package supervise

import "time"

// settle returns the actions that bring the fleet closer to what is wanted. It runs
// after every event.
func (f *fleet) settle() {
	f.expire()
	if !f.stopsAt.IsZero() && !f.now.Before(f.stopsAt) {
		f.stop(nil)
	}
	if f.mode == modeRunning {
		f.retire()
		f.fill()
		f.roll()
	}
	if f.mode == modeKilling && f.result == ErrQuit {
		f.dumpNext()
	}
	f.mark()
	f.placeSockets()
	f.sendDrains()
	f.dumpHung()
	f.isWatching = f.isWatching && len(f.watched()) > 0
	f.replaceMaster()
	f.closeSockets()
	if f.mode >= modeStopping && f.isEmpty() {
		f.mode = modeFinished
		f.logf("stopped")
		f.do(action{kind: actFinish, err: f.result})
	}
}

// expire acts on workers whose deadline has passed.
func (f *fleet) expire() {
	f.each(func(s *slot, w *worker) {
		if w.pid == 0 || w.due.IsZero() || f.now.Before(w.due) {
			return
		}
		switch w.phase {
		case PhaseSpawned:
			f.bootExpired(s, w)
			return
		case PhaseHung:
			f.logWorker(w, "still runs %v after SIGQUIT: killed", dumpTime)
		default:
			f.logWorker(w, "did not end in time: killed")
		}
		f.kill(w)
	})
}

// retire ends the workers of slots that are no longer wanted, once another slot is
// served. It resets slots that are wanted again.
func (f *fleet) retire() {
	for _, s := range f.slots {
		isRetired := s.id >= f.wanted
		if isRetired == s.retired || isRetired && s.served() && !f.isAnyServed() {
			continue
		}
		s.retired = isRetired
		s.respawnAt, s.unready, s.lastDead = time.Time{}, 0, 0
		if !isRetired {
			continue
		}
		for _, w := range []*worker{s.serving, s.successor} {
			if w != nil {
				f.leave(s, w, endOrdered, f.config.DrainTimeout)
			}
		}
	}
}

// isAnyServed reports whether any active slot is served.
func (f *fleet) isAnyServed() bool {
	for _, s := range f.active() {
		if s.served() {
			return true
		}
	}
	return false
}

// fill starts a worker in every slot that has none and whose pause is over.
func (f *fleet) fill() {
	for _, s := range f.active() {
		if s.serving != nil || f.now.Before(s.respawnAt) {
			continue
		}
		s.serving = f.spawn(s, f.versionFor())
		s.serving.recovers, s.lastDead = s.lastDead, 0
	}
}

// wantsSpawn reports whether s needs a new process.
func (f *fleet) wantsSpawn(s *slot) bool {
	return s.serving == nil || s.successor == nil && f.isOutdated(s.serving)
}

// isOutdated reports whether w is to be replaced.
func (f *fleet) isOutdated(w *worker) bool {
	return w.phase == PhaseReady && (w.ending == endWanted || w.version != f.target && !f.isEnding())
}

// roll starts the next successor, one at a time in the whole fleet. It does not wait
// for predecessors that drain, unless there are as many of them as workers. So there
// are never more than twice as many processes as workers, plus one.
func (f *fleet) roll() {
	f.proceed()
	booting, draining := 0, 0
	f.each(func(s *slot, w *worker) {
		if s.successor == w {
			booting++
		}
		if w.ending == endReplaced {
			draining++
		}
	})
	if booting > 0 || draining >= f.wanted {
		return
	}
	if s := f.longestOutdated(); s != nil {
		s.successor = f.spawn(s, f.target)
	}
}

// longestOutdated returns the slot whose worker is replaced next, or nil. It is the
// one that has served longest, so a worker that asks for replacement again and again
// does not delay the others.
func (f *fleet) longestOutdated() *slot {
	var next *slot
	for _, s := range f.active() {
		if s.serving == nil || !f.isOutdated(s.serving) || f.now.Before(s.respawnAt) {
			continue
		}
		if next == nil || s.serving.started.Before(next.serving.started) {
			next = s
		}
	}
	return next
}

// adoptsSockets reports whether each slot has its own sockets.
func (f *fleet) adoptsSockets() bool { return f.listening == listeningOpen && !f.config.SharedSockets }

// placeSockets makes sure that the sockets and the inbox of every slot are served. If
// a slot has no ready worker, a worker of another slot adopts them; it gives them
// back later.
func (f *fleet) placeSockets() {
	if !f.adoptsSockets() && !f.config.Inboxes || f.mode != modeRunning {
		return
	}
	for _, s := range f.slots {
		if s.adopter != nil && !f.canServe(s.adopter) {
			s.adopter = nil
		}
	}
	for _, s := range f.slots {
		switch {
		case !s.opened:
		case s.served():
			if s.adopter != nil {
				f.do(action{kind: actRelease, worker: s.adopter.key, slot: s.id})
				s.adopter = nil
			}
		case s.adopter == nil && (f.stage == stageReady || s.generation > 1):
			if s.adopter = f.leastLoaded(); s.adopter != nil {
				f.do(action{kind: actAdopt, worker: s.adopter.key, slot: s.id})
				what := "serves the queue"
				if !f.adoptsSockets() {
					what = "reads the inbox"
				}
				f.logWorker(s.adopter, "%s of slot %d meanwhile", what, s.id)
			}
		}
	}
	f.spreadSockets()
}

// spreadSockets moves sockets without a worker of their own from workers that adopted
// many to those that adopted few. Otherwise a worker that adopted those of retired
// slots would serve them for ever, and get as many more connections.
func (f *fleet) spreadSockets() {
	if !f.adoptsSockets() || !f.isReady() {
		return // adopted sockets are about to be given back
	}
	for {
		to := f.leastLoaded()
		if to == nil {
			return
		}
		if symptom, _ := f.symptom(to); symptom != "" {
			return
		}
		var from *slot
		most := f.adoptions(to) + 1
		for _, s := range f.slots {
			if s.adopter == nil {
				continue
			}
			if n := f.adoptions(s.adopter); n > most {
				from, most = s, n
			}
		}
		if from == nil {
			return
		}
		f.do(action{kind: actRelease, worker: from.adopter.key, slot: from.id})
		f.do(action{kind: actAdopt, worker: to.key, slot: from.id})
		from.adopter = to
		f.logWorker(to, "serves the queue of slot %d from now on", from.id)
	}
}

// canServe reports whether w lives and takes orders.
func (f *fleet) canServe(w *worker) bool {
	_, alive := f.find(w.key)
	return alive != nil && w.takesOrders()
}

// leastLoaded returns the worker that has adopted the fewest sockets, or nil. A
// worker that may hang is chosen last.
func (f *fleet) leastLoaded() *worker {
	var best *worker
	fewest := 0
	for _, s := range f.slots {
		if s.serving == nil || !s.serving.takesOrders() {
			continue
		}
		n := f.adoptions(s.serving)
		if symptom, _ := f.symptom(s.serving); symptom != "" {
			n += len(f.slots)
		}
		if best == nil || n < fewest {
			best, fewest = s.serving, n
		}
	}
	return best
}

// adoptions counts the slots whose sockets w has adopted.
func (f *fleet) adoptions(w *worker) int {
	n := 0
	for _, s := range f.slots {
		if s.adopter == w {
			n++
		}
	}
	return n
}

// sendDrains emits the drains of this step. It runs after placeSockets, so a worker
// that drains knows whether its sockets are served. A worker that has sent no message
// gets SIGTERM instead.
func (f *fleet) sendDrains() {
	for _, a := range f.late {
		s, w := f.find(a.worker)
		if w == nil || w.phase != PhaseDraining || w.pid == 0 {
			continue
		}
		if !w.attached {
			f.do(action{kind: actTerm, worker: w.key})
			continue
		}
		w.knowsSuccessor = f.mode == modeRunning && (f.hasSuccessor(s) || w.knowsSuccessor && f.getsWorkerBefore(w.due))
		f.do(action{kind: actDrain, worker: w.key, grace: max(w.due.Sub(f.now)-killSlack, 0), hasSuccessor: w.knowsSuccessor})
	}
}

// hasSuccessor reports whether another worker serves the sockets of a worker of s that drains.
func (f *fleet) hasSuccessor(s *slot) bool {
	return s.adopter != nil && f.adoptsSockets() || s.served() || f.config.SharedSockets
}

// getsWorkerBefore reports whether a worker boots, or is about to before due. It will read the
// inboxes that no worker reads.
func (f *fleet) getsWorkerBefore(due time.Time) bool {
	for _, s := range f.active() {
		if s.serving != nil || s.respawnAt.Before(due) {
			return true
		}
	}
	return false
}

// closeSockets closes the master's listening sockets once all remaining workers have
// been told to end. The port is then free as soon as the last worker closes its
// socket, and new connections are refused instead of left in a queue.
func (f *fleet) closeSockets() {
	if f.mode < modeStopping || f.listening != listeningOpen {
		return
	}
	isForking := false
	f.each(func(_ *slot, w *worker) { isForking = isForking || w.pid == 0 })
	if !isForking {
		f.listening = listeningClosed
		f.do(action{kind: actCloseSockets})
	}
}

// mark records and reports what is true for the first time.
func (f *fleet) mark() {
	if f.mode != modeRunning {
		return
	}
	if f.stage == stageStarting && len(f.firstPIDs) >= min(f.config.Workers, f.wanted) {
		f.stage = stageStarted
		f.do(action{kind: actStarted, pids: f.firstPIDs})
		f.firstPIDs = nil
	}
	if f.stage != stageReady && f.isReady() {
		f.stage = stageReady
		f.logf("all %d workers are ready", f.wanted)
		f.do(action{kind: actAllReady})
	}
	if f.degraded {
		f.forget()
		if len(f.crashes) <= f.config.RecoverThreshold && f.isReady() {
			f.degraded = false
			f.logf("all %d workers are ready again", f.wanted)
		}
	}
}

// isReady reports whether every active slot is served.
func (f *fleet) isReady() bool {
	for _, s := range f.active() {
		if !s.served() {
			return false
		}
	}
	return true
}

// isEmpty reports whether no process is left.
func (f *fleet) isEmpty() bool {
	isEmpty := true
	f.each(func(*slot, *worker) { isEmpty = false })
	return isEmpty
}
