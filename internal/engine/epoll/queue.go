//go:build linux && (amd64 || arm64)

package epoll

import (
	"runtime"
	"sync"
	"time"
)

// A runQueue holds the claimed connections of a loop that wait for a worker, and
// the workers that wait for a connection.
//
// A handler may block, which cannot be known beforehand. While connections are
// queued, a worker must therefore be runnable: a worker that takes a connection
// and leaves others makes one spare worker runnable, unless there is one already.
// If nothing blocks, one goroutine serves all connections, and the spare finds the
// queue empty: one wake-up in a pass. If a handler blocks, the spare serves the
// rest.
type runQueue struct {
	mu      sync.Mutex
	ready   ring
	idle    *worker // a stack: the last one to stop has a warm stack and cache
	parked  int     // length of idle
	workers int     // goroutines, parked ones included
	isSpare bool    // a runnable worker has not looked at the queue yet
	closed  bool

	limit   int // of workers; 0: none
	absent  int // workers that do not count against limit
	start   func(*worker)
	keep    int           // parked workers that are never dismissed
	maxIdle time.Duration // how long the others are kept
	low     int           // least length of idle since the last sweep
	timer   *time.Timer   // of the sweep; nil: none is due
}

// ring is a queue of descriptors.
type ring struct {
	items []int32 // length is a power of two
	head  int
	count int
}

func (r *ring) push(fd int32) {
	if r.count == len(r.items) {
		grown := make([]int32, max(2*len(r.items), 64))
		n := copy(grown, r.items[r.head:])
		copy(grown[n:], r.items[:r.head])
		r.items, r.head = grown, 0
	}
	r.items[(r.head+r.count)&(len(r.items)-1)] = fd
	r.count++
}

func (r *ring) pop() int32 {
	fd := r.items[r.head]
	r.head = (r.head + 1) & (len(r.items) - 1)
	if r.count--; r.count == 0 && len(r.items) > chunkSize {
		*r = ring{} // free the memory after a burst
	}
	return fd
}

func (q *runQueue) init(limit int, maxIdle time.Duration, start func(*worker)) {
	q.limit, q.maxIdle, q.start = limit, maxIdle, start
	q.keep = 2 * runtime.GOMAXPROCS(0)
}

// push queues claimed connections.
func (q *runQueue) push(fds ...int32) {
	if len(fds) == 0 {
		return
	}
	q.mu.Lock()
	for _, fd := range fds {
		q.ready.push(fd)
	}
	w, isNew := q.spare()
	q.mu.Unlock()
	q.wake(w, isNew)
}

// spare returns a worker to make runnable, if one is needed and available.
func (q *runQueue) spare() (w *worker, isNew bool) {
	if q.isSpare || q.ready.count == 0 {
		return nil, false
	}
	if w = q.idle; w != nil {
		q.idle, w.below = w.below, nil
		q.parked--
		q.low = min(q.low, q.parked)
		q.isSpare, w.isSpare = true, true
		return w, false
	}
	if q.limit > 0 && q.workers-q.absent >= q.limit {
		return nil, false // the next worker that is free takes the connection
	}
	q.workers++
	q.isSpare = true
	return &worker{isSpare: true, more: make(chan struct{}, 1)}, true
}

func (q *runQueue) wake(w *worker, isNew bool) {
	switch {
	case w == nil:
	case isNew:
		q.start(w)
	default:
		w.more <- struct{}{}
	}
}

// next waits for the next connection for w and returns it. It returns false if w is
// no longer needed.
func (q *runQueue) next(w *worker) (fd int, ok bool) {
	q.mu.Lock()
	for {
		if w.isSpare {
			q.isSpare, w.isSpare = false, false
		}
		if q.limit > 0 && q.workers-q.absent > q.limit {
			return 0, q.leave() // w was excused, and its place was taken
		}
		if q.ready.count > 0 {
			fd := q.ready.pop()
			spare, isNew := q.spare()
			q.mu.Unlock()
			q.wake(spare, isNew)
			return int(fd), true
		}
		if q.closed || w.isDismissed {
			return 0, q.leave()
		}
		q.park(w)
		q.mu.Unlock()
		w.pause()
		<-w.more
		q.mu.Lock()
	}
}

// leave removes a worker from the count, and unlocks mu. It makes no other worker
// runnable, because each has looked at the queue or will do so.
func (q *runQueue) leave() (stays bool) {
	q.workers--
	q.mu.Unlock()
	return false
}

// park puts w among the idle workers; mu is held.
func (q *runQueue) park(w *worker) {
	w.below, q.idle = q.idle, w
	q.parked++
	if q.parked > q.keep && q.timer == nil {
		q.low = q.parked
		q.timer = time.AfterFunc(q.maxIdle, q.sweep)
	}
}

// excuse exempts that many more workers from the limit, because they wait for
// peers, not for handlers.
func (q *runQueue) excuse(workers int) {
	if q.limit == 0 {
		return
	}
	q.mu.Lock()
	q.absent += workers
	w, isNew := q.spare()
	q.mu.Unlock()
	q.wake(w, isNew)
}

// lost removes a worker from the count whose goroutine a handler has ended. It is
// not the spare, because it has looked at the queue.
func (q *runQueue) lost() {
	q.mu.Lock()
	q.workers--
	spare, isNew := q.spare() // the limit may now allow another worker
	q.mu.Unlock()
	q.wake(spare, isNew)
}

// sweep dismisses the workers that were not needed since the last sweep.
func (q *runQueue) sweep() {
	q.mu.Lock()
	defer q.mu.Unlock()
	surplus := min(q.low, q.parked) - q.keep
	q.dismiss(q.parked - max(surplus, 0))
	q.low = q.parked
	q.timer = nil
	if q.parked > q.keep && !q.closed {
		q.timer = time.AfterFunc(q.maxIdle, q.sweep)
	}
}

// dismiss ends all idle workers but the kept most recently used; mu is held.
func (q *runQueue) dismiss(kept int) {
	at := &q.idle
	for range kept {
		at = &(*at).below
	}
	old := *at
	*at = nil
	q.parked = kept
	for old != nil {
		next := old.below
		old.below, old.isDismissed = nil, true
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
	q.dismiss(0)
}
