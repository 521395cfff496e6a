//go:build linux && (amd64 || arm64)

package core

import (
	"runtime"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// A runQueue holds the claimed connections of a loop that wait for a worker, and
// the workers that wait for a connection.
//
// A handler may block, which cannot be known beforehand. While connections are
// queued, a worker must therefore be runnable: a worker that takes a connection
// and leaves others makes one spare worker runnable, unless there is one already.
// If nothing blocks, one goroutine serves all connections, and the spare finds the
// queue empty: one wake-up in a pass. If a handler blocks, the spare serves the
// rest, and sends what waits in batches.
//
// The tasks that a connection begins are ahead of the other connections, and so is the
// connection when the tasks have output for it. If the input of all connections were
// read first, thousands of requests would wait, and none would be in the processor's
// cache when its turn comes: 10 to 30 % of the time of a request over HTTP/2.
type runQueue struct {
	mu      sync.Mutex
	ahead   ring[int32]       // as ready, and before it
	ready   ring[int32]       // connections, and taskTurn for each of tasks
	tasks   ring[engine.Task] // first come, first served; perhaps fewer than turns
	delayed ring[int32]       // of ready: what the reserve has left for the others
	later   int               // turns of tasks in ready and delayed
	inARow  int               // items of ahead since the last one of the others
	running int               // tasks that a worker has begun
	begun   int               // tasks, since sinceLast
	idle    *worker           // a stack: the last one to stop has a warm stack and cache
	parked  int               // length of idle
	workers int               // goroutines, parked ones included
	isSpare bool              // a runnable worker has not looked at the queue yet
	closed  bool
	byLoop  bool // no worker is woken: the loop's goroutine takes the items after its turn

	limit int // of workers; 0: none
	// At the limit, one more worker, the reserve, serves the connections whose
	// protocols never block: all the others may be waiting for these.
	neverBlocks func(fd int32) bool
	quick       int    // such connections in ready; counted with a limit only
	hasReserve  bool   // the reserve is running
	isOver      bool   // tasks are lost from now on
	emptied     func() // called when the last task has ended; must not use the queue
	absent      int    // workers that do not count against limit
	start       func(*worker)
	keep        int           // parked workers that are never dismissed
	maxIdle     time.Duration // how long the others are kept
	low         int           // least length of idle since the last sweep
	timer       *time.Timer   // of the sweep; nil: none is due

	settled     int      // items ahead, the first ones: see outputWaitsLocked
	alone       int      // connections ahead that do not wait, from now on
	hasOneP     bool     // of the scheduler
	isGathering bool     // a runnable worker sends the batches, or looks for work again
	plainly     int      // connections whose output does not wait, from now on
	batches     []*batch // what workers fill; none: they send themselves. It never changes while there are workers
}

// ring is a queue.
type ring[T any] struct {
	items []T // length is a power of two
	head  int
	count int
}

func (r *ring[T]) push(item T) {
	if r.count == len(r.items) {
		r.grow()
	}
	r.items[(r.head+r.count)&(len(r.items)-1)] = item
	r.count++
}

func (r *ring[T]) pushAll(items []T) {
	for len(r.items)-r.count < len(items) {
		r.grow()
	}
	n := copy(r.items[(r.head+r.count)&(len(r.items)-1):], items)
	copy(r.items, items[n:])
	r.count += len(items)
}

func (r *ring[T]) grow() {
	grown := make([]T, max(2*len(r.items), 64))
	n := copy(grown, r.items[r.head:])
	copy(grown[n:], r.items[:r.head])
	r.items, r.head = grown, 0
}

func (r *ring[T]) pop() T {
	item := r.items[r.head]
	var none T
	r.items[r.head] = none
	r.head = (r.head + 1) & (len(r.items) - 1)
	if r.count--; r.count == 0 && len(r.items) > chunkSize {
		*r = ring[T]{} // free the memory after a burst
	}
	return item
}

// The items of runQueue.ready are descriptors and these.
const (
	taskTurn int32 = -1 // the first of tasks; nothing if there is none
	// quickBase - fd stands for a connection that is counted in quick.
	quickBase int32 = -2
)

// maxAhead bounds the items that are ahead, and how many of them are taken in a row while
// others wait. Most connections of HTTP/2 have fewer streams.
const maxAhead = 256

func (q *runQueue) init(limit int, maxIdle time.Duration, start func(*worker)) {
	q.limit, q.maxIdle, q.start = limit, maxIdle, start
	q.neverBlocks, q.emptied = func(int32) bool { return false }, func() {}
	procs := runtime.GOMAXPROCS(0)
	q.keep, q.hasOneP = 2*procs, procs == 1
}

// push queues claimed connections.
func (q *runQueue) push(fds ...int32) {
	if len(fds) == 0 {
		return
	}
	q.mu.Lock()
	q.pushLocked(fds)
	w, isNew := q.spareLocked()
	q.mu.Unlock()
	q.wake(w, isNew)
}

func (q *runQueue) pushLocked(fds []int32) {
	if q.limit == 0 && len(fds) > 0 {
		q.ready.pushAll(fds)
		return
	}
	for _, fd := range fds {
		if q.neverBlocks(fd) {
			q.quick++
			fd = quickBase - fd
		}
		q.ready.push(fd)
	}
}

// pushAhead queues a connection that was claimed because a task has something to send.
func (q *runQueue) pushAhead(fd int32) {
	q.mu.Lock()
	if !q.hasRoomAheadLocked() {
		q.mu.Unlock()
		q.push(fd)
		return
	}
	q.ahead.push(fd)
	w, isNew := q.spareLocked()
	q.mu.Unlock()
	q.wake(w, isNew)
}

// hasRoomAheadLocked reports whether the next item may go ahead. Tasks stay in order, and the
// connection comes after its tasks. The reserve does not look there.
func (q *runQueue) hasRoomAheadLocked() bool {
	return q.limit == 0 && q.later == 0 && q.ahead.count < maxAhead
}

// spareLocked returns a worker to make runnable, if one is needed and available.
func (q *runQueue) spareLocked() (w *worker, isNew bool) {
	if q.byLoop || q.isSpare || q.isGathering || q.queuedLocked() == 0 {
		return nil, false
	}
	if q.idle != nil {
		return q.reviveLocked(), false
	}
	if q.limit > 0 && q.workers-q.absent >= q.limit {
		if q.quick == 0 || q.hasReserve {
			return nil, false // the next worker that is free takes the connection
		}
		q.hasReserve = true
		return &worker{role: roleReserve}, true
	}
	q.workers++
	q.isSpare = true
	w = &worker{role: roleSpare, more: make(chan struct{}, 1)}
	if n := len(q.batches); n > 0 {
		w.batch = q.batches[q.workers%n]
	}
	return w, true
}

// reviveLocked makes an idle worker the spare.
func (q *runQueue) reviveLocked() *worker {
	w := q.idle
	q.idle, w.below = w.below, nil
	q.parked--
	q.low = min(q.low, q.parked)
	q.isSpare, w.role = true, roleSpare
	return w
}

// sinceLast reports whether nothing is queued, and some handlers have not returned, and how many
// tasks workers have begun since the last call. The caller is not a worker; if there is one P, these
// handlers wait or were just woken.
func (q *runQueue) sinceLast() (handlersWait bool, tasks int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	tasks, q.begun = q.begun, 0
	return q.busyLocked() > 0 && q.queuedLocked() == 0, tasks
}

// busyLocked returns the number of workers that are neither idle nor the spare.
func (q *runQueue) busyLocked() int {
	busy := q.workers - q.parked
	if q.isSpare {
		busy--
	}
	return busy
}

// queuedLocked returns the number of items.
func (q *runQueue) queuedLocked() int { return q.ahead.count + q.ready.count + q.delayed.count }

func (q *runQueue) wake(w *worker, isNew bool) {
	switch {
	case w == nil:
	case isNew:
		q.start(w)
	default:
		w.more <- struct{}{}
	}
}

// next waits for work for w: a connection, which it returns, or a task, which it sets
// as w's. The task that w had before has ended. It returns false if w is no longer
// needed.
func (q *runQueue) next(w *worker) (fd int, ok bool) {
	q.mu.Lock()
	q.endTaskLocked(w)
	for hasSent, hasGathered := false, false; ; {
		switch w.role {
		case roleSpare:
			q.isSpare, w.role = false, roleRegular
		case roleReserve:
			return q.nextQuickLocked()
		}
		if q.limit > 0 && q.workers-q.absent > q.limit {
			return 0, q.leaveLocked() // w was exempt, and its place was taken
		}
		fd, ok := q.popUsualLocked()
		if !ok && q.queuedLocked() > 0 {
			if !q.outputWaitsLocked() {
				fd, ok = q.popLocked(w)
			} else if !q.isGathering {
				q.gatherOutputLocked()
				continue // w looks again
			}
		}
		if ok {
			var spare *worker
			isNew := false
			if !q.isSpare { // mostly there is one; spareLocked would say so
				if spare, isNew = q.spareLocked(); spare == nil && q.sparesSendersLocked() {
					spare = q.reviveLocked()
				}
			}
			w.mayHold = q.mayHoldLocked()
			q.mu.Unlock()
			q.wake(spare, isNew)
			return fd, true
		}
		if q.closed || w.isLast || w.role == roleDismissed {
			return 0, q.leaveLocked()
		}
		if !hasSent && q.hasUnsent() && (!q.isGathering || q.isDueLocked()) {
			if !hasGathered && !q.isGathering && q.othersRunLocked() {
				hasGathered = true
				q.gatherLocked()
				continue // w looks again
			}
			hasSent = true // or other workers do it
			q.mu.Unlock()
			claimed := w.sendBatches()
			q.mu.Lock()
			q.pushLocked(claimed)
			continue
		}
		q.parkLocked(w)
		q.mu.Unlock()
		w.pause()
		<-w.more
		hasSent, hasGathered = false, false
		q.mu.Lock()
	}
}

// popUsualLocked is popLocked for the usual case, in fewer instructions: the next item is
// a connection, and not the last item.
func (q *runQueue) popUsualLocked() (fd int, ok bool) {
	r := &q.ready
	if r.count < 2 || q.ahead.count|q.delayed.count != 0 || r.items[r.head] < 0 {
		return 0, false
	}
	fd = int(r.items[r.head])
	r.head = (r.head + 1) & (len(r.items) - 1)
	r.count--
	q.inARow = 0
	return fd, true
}

// outputWaitsLocked reports whether the next item is a connection that a task has output for, and
// which waits for others: handlers that were woken together share packets if they have run.
func (q *runQueue) outputWaitsLocked() bool {
	if q.ahead.count == 0 || q.settled > 0 || q.ahead.items[q.ahead.head] < 0 || !q.hasOneP || !q.othersRunLocked() {
		return false
	}
	if q.alone > 0 {
		q.alone--
		return false
	}
	return true
}

// gatherOutputLocked lets the handlers run that have been woken. mu is not held meanwhile. If none of
// them ends, or they take long, the next ones are not waited for.
func (q *runQueue) gatherOutputLocked() {
	running, began := q.running, clock.Nanos()
	q.isGathering = true
	q.mu.Unlock()
	runtime.Gosched()
	q.mu.Lock()
	q.isGathering = false
	q.settled = q.ahead.count
	if q.running >= running || clock.Nanos()-began > outputPatience {
		q.alone = sentPlainly
	}
}

// outputPatience is how long output waits for handlers that do not block. Nanoseconds.
const outputPatience = 1_000_000

// popLocked takes the next item; mu is held. False: there is none.
func (q *runQueue) popLocked(w *worker) (fd int, ok bool) {
	for q.queuedLocked() > 0 {
		item, isAhead := q.popItemLocked()
		switch {
		case item >= 0:
			return int(item), true
		case item <= quickBase:
			q.quick--
			return int(quickBase - item), true
		case !isAhead:
			q.later--
		}
		if q.tasks.count > 0 {
			w.task = q.tasks.pop()
			q.running++
			q.begun++
			return 0, true
		}
	}
	return 0, false
}

// popItemLocked takes the next item of a queue that is not empty.
func (q *runQueue) popItemLocked() (item int32, isAhead bool) {
	q.inARow++
	switch others := q.delayed.count + q.ready.count; {
	case q.ahead.count > 0 && (q.inARow <= maxAhead || others == 0):
		q.settled = max(q.settled-1, 0)
		return q.ahead.pop(), true
	case q.delayed.count > 0: // it is older
		item = q.delayed.pop()
	default:
		item = q.ready.pop()
	}
	q.inARow = 0
	return item, false
}

// nextQuickLocked is next for the reserve. It ends when there is nothing for it, and
// unlocks mu.
func (q *runQueue) nextQuickLocked() (fd int, ok bool) {
	defer q.mu.Unlock()
	for q.quick > 0 {
		item := q.ready.pop()
		if item <= quickBase {
			q.quick--
			return int(quickBase - item), true
		}
		q.delayed.push(item)
	}
	q.hasReserve = false
	return 0, false
}

// leaveLocked removes a worker from the count, and unlocks mu. If the worker was the spare, what
// it was woken for is still queued, and another one must be woken.
func (q *runQueue) leaveLocked() (stays bool) {
	q.workers--
	w, isNew := q.spareLocked()
	q.mu.Unlock()
	q.wake(w, isNew)
	return false
}

// parkLocked puts w among the idle workers; mu is held.
func (q *runQueue) parkLocked(w *worker) {
	w.below, q.idle = q.idle, w
	q.parked++
	if q.parked > q.keep && q.timer == nil {
		q.low = q.parked
		q.timer = time.AfterFunc(q.maxIdle, q.sweep)
	}
}

// Exempt implements engine.Workers. TLS handshakes use it, too: they wait for peers,
// not for handlers.
func (q *runQueue) Exempt(n int) {
	if q.limit == 0 {
		return
	}
	q.mu.Lock()
	q.absent += n
	w, isNew := q.spareLocked()
	q.mu.Unlock()
	q.wake(w, isNew)
}

// lost removes a worker from the count whose goroutine a handler has ended. It is
// not the spare, because it has looked at the queue.
func (q *runQueue) lost(w *worker) {
	q.mu.Lock()
	q.endTaskLocked(w)
	if w.role == roleReserve {
		q.hasReserve = false
	} else {
		q.workers--
	}
	spare, isNew := q.spareLocked() // the limit may now allow another worker
	q.mu.Unlock()
	q.wake(spare, isNew)
}

// sweep dismisses the workers that were not needed since the last sweep.
func (q *runQueue) sweep() {
	q.mu.Lock()
	defer q.mu.Unlock()
	surplus := min(q.low, q.parked) - q.keep
	q.dismissLocked(q.parked - max(surplus, 0))
	q.low = q.parked
	q.timer = nil
	if q.parked > q.keep && !q.closed {
		q.timer = time.AfterFunc(q.maxIdle, q.sweep)
	}
}

// dismissLocked ends all idle workers but the kept most recently used; mu is held.
func (q *runQueue) dismissLocked(kept int) {
	at := &q.idle
	for range kept {
		at = &(*at).below
	}
	old := *at
	*at = nil
	q.parked = kept
	for old != nil {
		next := old.below
		old.below, old.role = nil, roleDismissed
		old.more <- struct{}{}
		old = next
	}
}

// close ends the workers when the queue is empty.
func (q *runQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	if q.timer != nil {
		q.timer.Stop()
	}
	q.dismissLocked(0)
}
