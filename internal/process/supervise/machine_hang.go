package supervise

import (
	"fmt"
	"time"
)

// Two probes tell whether a worker hangs: it must answer PINGs, and the queue of its
// sockets must move. For each, the time of the last good sign is kept; if that is
// HangTimeout ago, it is a symptom. Only ticks check this, and the master handles all
// pending events before a tick, so an answer that has arrived is never overlooked.

const (
	// probesPerTimeout allows for an answer that is lost.
	probesPerTimeout = 3
	shortestProbe    = 50 * time.Millisecond
	longestProbe     = 5 * time.Second
)

// vitals is what is known about a worker's health.
type vitals struct {
	answered time.Time // when it last gave a sign of life
	moved    time.Time // when its queue was last seen empty or moving
	queue    int       // connections that waited at the last probe
	progress uint64    // at the last probe that found a queue
	hasQueue bool      // progress is valid
}

// reset starts both times anew.
func (v *vitals) reset(now time.Time) { *v = vitals{answered: now, moved: now} }

// probeInterval is the time between two probes of a worker.
func (f *fleet) probeInterval() time.Duration {
	return min(max(f.config.HangTimeout/probesPerTimeout, shortestProbe), longestProbe)
}

// looksAtQueues reports whether the length of a slot's queue says something about its
// worker.
func (f *fleet) looksAtQueues() bool {
	return f.listening == listeningOpen && !f.config.SharedSockets && f.config.Progress != nil
}

// watched returns the workers that are checked: those that serve and can answer.
// Others have deadlines of their own.
func (f *fleet) watched() []*worker {
	if f.config.HangTimeout == 0 || f.mode != modeRunning {
		return nil
	}
	var all []*worker
	for _, s := range f.active() {
		if s.serving != nil && s.serving.takesOrders() {
			all = append(all, s.serving)
		}
	}
	return all
}

// answered: w has answered a PING.
func (f *fleet) answered(w *worker) {
	f.attached(w)
	w.vitals.answered = f.now
}

// looked: so many connections wait in w's queue, and this is its progress.
func (f *fleet) looked(w *worker, waiting int, progress uint64, known bool) {
	v := &w.vitals
	v.queue = waiting
	if waiting == 0 || !known || !v.hasQueue || progress != v.progress {
		v.moved = f.now
	}
	v.progress, v.hasQueue = progress, waiting > 0 && known
}

// watch probes the workers and acts on those that hang.
func (f *fleet) watch() {
	if f.config.HangTimeout == 0 || f.mode != modeRunning {
		return
	}
	interval, gap := f.probeInterval(), f.now.Sub(f.probed)
	if gap > 2*interval {
		// The master itself stood still, and perhaps the whole machine.
		if f.isWatching {
			f.logf("the master stood still for %v: no worker counts as hanging for that time", gap.Round(time.Millisecond))
		}
		f.each(func(_ *slot, w *worker) { w.vitals.reset(f.now) })
	}
	f.treatHangs()
	if gap >= interval && f.mode == modeRunning {
		f.probe()
	}
}

// probe asks all workers for a sign of life.
func (f *fleet) probe() {
	f.probed, f.isWatching = f.now, true
	for _, w := range f.watched() {
		f.do(action{kind: actPing, worker: w.key})
		if f.looksAtQueues() {
			f.do(action{kind: actLook, worker: w.key, pid: w.pid})
		}
	}
}

// symptom says why w seems to hang and since when. The text is "" if it does not.
func (f *fleet) symptom(w *worker) (text string, since time.Time) {
	v, timeout := &w.vitals, f.config.HangTimeout
	switch {
	case timeout == 0 || !w.takesOrders():
		return "", time.Time{}
	case f.now.Sub(v.answered) >= timeout:
		return fmt.Sprintf("no answer to a PING for %v", f.now.Sub(v.answered).Round(time.Millisecond)), v.answered
	case v.hasQueue && f.now.Sub(v.moved) >= timeout:
		return fmt.Sprintf("%d connections wait and none was accepted for %v", v.queue, f.now.Sub(v.moved).Round(time.Millisecond)), v.moved
	}
	return "", time.Time{}
}

// treatHangs ends workers that hang: one at a time unless all of them do, so that a
// mistake does not cost the whole fleet. While the successor of one boots, no other
// is ended: the boot may make the others late on a busy machine.
func (f *fleet) treatHangs() {
	var oldest *worker
	var earliest time.Time
	isAnyWell := false
	for _, s := range f.active() {
		if !s.served() {
			continue
		}
		_, since := f.symptom(s.serving)
		switch {
		case since.IsZero():
			isAnyWell = true
		case oldest == nil || since.Before(earliest):
			oldest, earliest = s.serving, since
		}
	}
	if oldest == nil || f.isTreatingHang() {
		return
	}
	if isAnyWell {
		f.hang(f.slots[oldest.slot], oldest)
		return
	}
	for _, s := range f.active() {
		if f.mode == modeRunning && s.served() {
			f.hang(s, s.serving)
		}
	}
}

// isTreatingHang reports whether a worker that hung still exists, or has no successor
// that is ready. For each hang this is true for BootTimeout at most, so that others
// are treated at last.
func (f *fleet) isTreatingHang() bool {
	isRecent := func(hungAt time.Time) bool {
		return !hungAt.IsZero() && f.now.Before(hungAt.Add(f.config.BootTimeout))
	}
	isTreating := false
	for _, s := range f.slots {
		isTreating = isTreating || isRecent(s.hungAt) && !s.served() && !s.retired
	}
	f.each(func(_ *slot, w *worker) { isTreating = isTreating || isRecent(w.hungAt) })
	return isTreating
}

// hang takes w's place away. Once another worker has it, w is told to print its
// stacks, and killed if it does not exit in time.
func (f *fleet) hang(s *slot, w *worker) {
	symptom, _ := f.symptom(w)
	f.remove(s, w)
	s.leaving = append(s.leaving, w)
	w.phase, w.ending, w.due = PhaseHung, max(w.ending, endOrdered), f.now.Add(dumpTime)
	w.hungAt, s.hungAt = f.now, f.now
	s.hangs++
	f.do(action{kind: actHung, worker: w.key, pid: w.pid})
	if w.version != f.good {
		f.failed(s, w, "hangs: "+symptom)
		return
	}
	f.crashed(s, w, "hangs: "+symptom)
	if f.mode == modeRunning && s.serving == nil && len(f.crashes) <= f.config.RecoverThreshold {
		s.respawnAt = time.Time{} // hanging took long enough: there is no fast loop to slow down
	}
}

// dumpHung has workers that hang print their stacks.
func (f *fleet) dumpHung() {
	f.each(func(_ *slot, w *worker) {
		if w.phase == PhaseHung && !w.isDumping {
			w.isDumping = true
			f.do(action{kind: actDump, worker: w.key})
		}
	})
}

// nextWatch passes to consider when a symptom would appear, and returns when the next
// probe is due, or zero if no worker is watched.
func (f *fleet) nextWatch(consider func(time.Time)) (probe time.Time) {
	watched := f.watched()
	if len(watched) == 0 {
		return time.Time{}
	}
	for _, w := range watched {
		consider(w.vitals.answered.Add(f.config.HangTimeout))
		if w.vitals.hasQueue {
			consider(w.vitals.moved.Add(f.config.HangTimeout))
		}
	}
	return f.probed.Add(f.probeInterval())
}
