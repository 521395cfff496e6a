//go:build linux && (amd64 || arm64)

package core

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/invariants"
)

// direct is how a loop serves connections itself, without workers, where there are several Ps and
// little to do. For each connection that comes alone, Go's scheduler would otherwise wake a second
// thread, which finds nothing to do.
//
// A handler may block. A guard looks every guardPeriod, and if the same connection is still being
// served, it runs the loop from then on. Its timer is why a thread waits in Go's poller meanwhile,
// so it does not matter what the handler does with its P.
type direct struct {
	isAllowed bool          // there are several Ps, and no limit of workers
	gap       int64         // directGap
	slow      int64         // directSlow
	calm      int           // passes with little to do, about
	resumes   int64         // workers serve until then, in clock.Nanos; see takeOver
	rest      time.Duration // for how long they did
	yielded   int64         // when the loop's goroutine has let others run, in clock.Nanos
	turns     atomic.Uint64 // odd: a connection is being served, or a task runs
	guard     *guard        // nil: there is none
}

// A guard looks whether the loop's goroutine is stuck in a handler. One that has taken the loop over
// is no guard any more, so what still belongs to the goroutine in the handler does not wake the next one.
type guard struct {
	isAwake atomic.Bool   // it looks
	wake    chan struct{} // makes it look; buffered. Closed: it ends
}

const (
	guardPeriod  = time.Millisecond
	directEvents = 8         // most events of a pass with little to do
	directTasks  = 4         // the same of tasks
	directGap    = 500_000   // most time between two of them; nanoseconds
	directCalm   = 16        // after so many, the loop serves
	mostCalm     = 1024      // passes that count
	directLapse  = 8         // passes that do not count any more after one with more to do
	directSlow   = 100_000   // the handlers of a pass take longer; nanoseconds
	directPause  = 256       // passes that do not count any more then, or with more tasks, or if a worker runs
	directSpell  = 1_000_000 // other goroutines have become runnable on this P, perhaps; nanoseconds

	leastRest, mostRest = 100 * time.Millisecond, time.Minute // after a handler has blocked
	restShare           = 64
)

// run runs the poller until it is closed, or another goroutine runs it.
func (l *loop) run() {
	w := &worker{loop: l, role: roleLoop}
	turn := uint64(0)
	defer w.end()
	defer func() {
		switch {
		case turn == 0: // the poller is closed
			l.probes.end()
			if g := l.direct.guard; g != nil {
				close(g.wake)
			}
		case l.direct.turns.CompareAndSwap(turn, turn+1): // a handler has ended the goroutine
			l.gone.Add(1)
			go l.takeOver()
		default:
			l.queue.countBlocked(-1)
		}
	}()
	l.poller.Run(l.pass, func(begins bool) Then { return l.serve(w, &turn, begins) })
}

// countBlocked counts goroutines that have run a loop, and are in a handler now, as workers.
func (q *runQueue) countBlocked(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.workers += n
}

// takeOver is run in place of a goroutine that is in a handler, or has ended there. Others have
// waited for up to two periods of the guard. So workers serve for a while, and the longer the more
// often that happens: at most once in a minute, or in a while that is restShare times as long as
// the last rest.
func (l *loop) takeOver() {
	d, now := &l.direct, clock.Nanos()
	if d.rest = min(2*d.rest, mostRest); now-d.resumes > restShare*int64(d.rest) {
		d.rest = leastRest
	}
	d.resumes = now + int64(d.rest)
	l.queue.leaveToWorkers()
	l.queueReady(len(l.ready))
	l.run()
}

// servesReady reports whether the loop's goroutine serves the connections that are ready. last and
// now are when the last pass began, and this one.
func (l *loop) servesReady(events int, last, now int64) bool {
	d := &l.direct
	if !d.isAllowed || now < d.resumes {
		return false
	}
	if events > directEvents || now-last > d.gap || len(l.intake.servings) > 0 || !l.queue.isAtRest() {
		if d.calm > 0 {
			d.calm = max(d.calm-directLapse, 0)
		}
		return false
	}
	d.calm = min(d.calm+1, mostCalm)
	return d.isCalm() && len(l.ready) > 0
}

// isCalm reports whether there was little to do for a while. Builds that check invariants do not wait
// for that, so that all tests run the code.
func (d *direct) isCalm() bool { return d.calm >= directCalm || invariants.Enabled && d.calm > 0 }

// isAtRest reports whether nothing is queued, and all workers are idle.
func (q *runQueue) isAtRest() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.workers == q.parked && q.queuedLocked() == 0
}

// serve serves the connections that are ready, runs the tasks that they begin, and serves the
// connections that these have output for. turn is 0 but during a connection's turn, or a task's.
func (l *loop) serve(w *worker, turn *uint64, begins bool) Then {
	d, began := &l.direct, l.passed.Load()
	if begins {
		d.yielded = began
		l.startGuard()
		d.guard.look() // even if it is awake: the thread that waited for its timer may be this one
	}
	g := d.guard // during a turn, all of d but turns may be another goroutine's
	for tasks := 0; ; {
		fd, ok := l.queue.nextOfLoop(w)
		if !ok && len(l.ready) > 0 {
			fd = int(l.ready[0])
			l.ready = l.ready[:copy(l.ready, l.ready[1:])]
		} else if !ok {
			break
		}
		*turn = d.turns.Load() + 1
		d.turns.Store(*turn)
		if !g.isAwake.Load() {
			g.look()
		}
		if w.task != nil {
			tasks++
			engine.RunTask(w.task)
			l.queue.endTask(w)
		} else {
			w.attend(fd).serve()
			w.conn = nil
			w.dropWide()
		}
		if !d.turns.CompareAndSwap(*turn, *turn+1) {
			return Lost
		}
		*turn = 0
		now := clock.Nanos()
		if now-began > d.slow || tasks > directTasks {
			d.calm -= directPause
			break
		}
		if now-d.yielded > directSpell {
			d.yielded = now
			runtime.Gosched()
		}
	}
	w.pause()
	l.queue.leaveToWorkers()
	if len(l.ready) == 0 && !l.queue.isAtRest() {
		d.calm -= directPause // a worker has been made runnable, perhaps on this P
		return Park
	}
	if len(l.ready) > 0 || !d.isCalm() {
		l.queueReady(len(l.ready))
		return Park
	}
	return Serve
}

// nextOfLoop is next for the loop's goroutine. It does not wait, and no worker is woken until
// leaveToWorkers.
func (q *runQueue) nextOfLoop(w *worker) (fd int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.byLoop = true
	return q.popLocked(w)
}

// leaveToWorkers wakes a worker for what is queued.
func (q *runQueue) leaveToWorkers() {
	q.mu.Lock()
	q.byLoop = false
	w, isNew := q.spareLocked()
	q.mu.Unlock()
	q.wake(w, isNew)
}

// startGuard starts the guard, unless there is one.
func (l *loop) startGuard() {
	if l.direct.guard == nil {
		l.direct.guard = &guard{wake: make(chan struct{}, 1)}
		l.gone.Add(1)
		go l.watch(l.direct.guard)
	}
}

// look makes the guard look.
func (g *guard) look() {
	g.isAwake.Store(true)
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// watch is what the guard runs. If the loop's goroutine is stuck in a handler, it takes its place.
func (l *loop) watch(g *guard) {
	d := &l.direct
	timer := time.NewTimer(guardPeriod)
	last, still := uint64(0), 0
	for {
		select {
		case _, ok := <-g.wake:
			if !ok {
				timer.Stop()
				l.gone.Done()
				return
			}
			still = 0
		case <-timer.C:
			turn := d.turns.Load()
			if turn != last {
				last, still = turn, 0
				break
			}
			if turn&1 == 1 {
				l.queue.countBlocked(1)
				if d.turns.CompareAndSwap(turn, turn+1) {
					d.guard = nil
					l.takeOver()
					return
				}
				l.queue.countBlocked(-1)
				break
			}
			if still++; still < 3 {
				break
			}
			if g.isAwake.Store(false); d.turns.Load() == turn {
				continue // without a timer
			}
			g.isAwake.Store(true)
		}
		timer.Reset(guardPeriod)
	}
}
