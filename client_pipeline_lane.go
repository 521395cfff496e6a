package sluice

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// A pipelineLane has at most one connection, and the queue for it. One
// goroutine runs the lane while there are requests to send or a connection is
// open: it dials and writes. A second goroutine reads from the connection.
type pipelineLane struct {
	c          *PipelineClient
	limit      int64         // maximum of waiting, and of unanswered
	waiting    atomic.Int64  // number of requests in arrived and queued
	unanswered atomic.Int64  // number of requests in sent; changed under the lock
	blocked    atomic.Int32  // number of calls that wait for room in the queue
	room       chan struct{} // gets a token when there is room and a call waits
	alone      uint          // writes since the last one with several requests; only the lane's goroutine uses it
	state      atomic.Int32  // one of the states below
	wake       chan struct{} // gets a token from the goroutine that ends laneAsleep

	// arrived holds the submitted requests that are not in queued yet, the last
	// first. It is lock-free, because many goroutines would contend for the lock.
	arrived atomic.Pointer[pipelineWork]

	mu        sync.Mutex
	queued    workList      // not sent yet
	sent      workList      // sent on link and not answered
	link      *pipelineLink // nil: not connected
	isDialing bool
	failures  int   // consecutive failed dials
	retryAt   int64 // clock.Nanos; no dial before
}

// The states of a lane's goroutine.
const (
	laneStopped int32 = iota // there is no goroutine
	laneRunning              // it will check arrived again
	laneAsleep               // it waits for wake
)

// pending returns the number of requests that are queued or not answered.
func (l *pipelineLane) pending() int64 { return l.waiting.Load() + l.unanswered.Load() }

// load returns how busy the lane is; 0 if it would send a request at once.
func (l *pipelineLane) load() int64 {
	n := l.pending() * 2
	if n == 0 && l.state.Load() == laneStopped {
		return 1 // a new connection is better than a busy one
	}
	return n
}

// submit queues w. If the queue is full, a call with a time limit or a context
// waits for room, and another call displaces the oldest request in the queue.
func (l *pipelineLane) submit(w *pipelineWork, call *clientCall) error {
	switch {
	case l.reserve():
	case call.isBound():
		if err := l.awaitRoom(call); err != nil {
			return err
		}
	case !l.displace():
		return ErrPipelineOverflow
	}
	l.enqueue(w)
	return nil
}

// reserve takes a place in the queue. It returns false if the queue is full.
func (l *pipelineLane) reserve() bool {
	for n := l.waiting.Load(); n < l.limit; n = l.waiting.Load() {
		if l.waiting.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// vacate returns n places in the queue.
func (l *pipelineLane) vacate(n int) {
	l.waiting.Add(-int64(n))
	l.offerRoom()
}

// offerRoom wakes one of the calls that wait for room.
func (l *pipelineLane) offerRoom() {
	if l.blocked.Load() == 0 {
		return
	}
	select {
	case l.room <- struct{}{}:
	default: // a call is being woken, and it will wake the next one
	}
}

// awaitRoom waits until it has reserved a place or the call has ended.
func (l *pipelineLane) awaitRoom(call *clientCall) error {
	call.phase = PhaseWait
	l.blocked.Add(1)
	defer l.blocked.Add(-1)
	var expired <-chan time.Time
	if call.deadline != 0 {
		timer := AcquireTimer(call.left(0))
		defer ReleaseTimer(timer)
		expired = timer.C
	}
	for !l.reserve() {
		select {
		case <-l.room:
			continue
		case <-call.done():
		case <-expired:
		}
		if err := call.err(); err != nil {
			return err
		}
		return ErrTimeout
	}
	if l.waiting.Load() < l.limit {
		l.offerRoom()
	}
	return nil
}

// displace ends the oldest request in the queue; the caller takes over its
// place. It returns false if the queue is empty.
func (l *pipelineLane) displace() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hasQueued()
	w := l.queued.pop()
	if w != nil {
		l.finish(w, ErrPipelineOverflow)
	}
	return w != nil
}

// enqueue queues w, for which a place is reserved.
func (l *pipelineLane) enqueue(w *pipelineWork) {
	w.state = workQueued
	for {
		last := l.arrived.Load()
		w.next = last
		if l.arrived.CompareAndSwap(last, w) {
			break
		}
	}
	if l.state.Load() == laneStopped && l.state.CompareAndSwap(laneStopped, laneRunning) {
		go l.run()
	} else {
		l.rouse()
	}
}

// rouse wakes the lane's goroutine if it sleeps.
func (l *pipelineLane) rouse() {
	if l.state.Load() == laneAsleep && l.state.CompareAndSwap(laneAsleep, laneRunning) {
		l.wake <- struct{}{}
	}
}

// sleep waits for rouse, unless there already is a reason to continue: a
// request has arrived, the connection is over, or the lane was full and is not
// full now.
func (l *pipelineLane) sleep(isOver *atomic.Bool, wasFull bool) {
	l.state.Store(laneAsleep)
	if (l.arrived.Load() != nil || isOver.Load() || wasFull && !l.isFull()) && l.state.CompareAndSwap(laneAsleep, laneRunning) {
		return
	}
	<-l.wake
}

// isFull reports whether the maximum number of requests is unanswered.
func (l *pipelineLane) isFull() bool { return l.unanswered.Load() >= l.limit }

// hasQueued moves arrived to queued, and reports whether there is a request to
// send. Called with the lock.
func (l *pipelineLane) hasQueued() bool {
	last := l.arrived.Swap(nil)
	if last == nil {
		return l.queued.first != nil
	}
	// arrived is in reverse order.
	var first *pipelineWork
	for w := last; w != nil; {
		next := w.next
		w.next = first
		if first != nil {
			first.prev = w
		}
		first, w = w, next
	}
	first.prev = nil
	arrived := workList{first, last}
	arrived.prepend(&l.queued)
	l.queued = arrived
	return true
}

// await waits until w is done. If it returns an error, the call has ended and
// the caller no longer owns w.
func (l *pipelineLane) await(w *pipelineWork, call *clientCall) error {
	ended := call.done()
	if ended == nil && call.deadline == 0 {
		<-w.done
		return nil
	}
	var expired <-chan time.Time
	if call.deadline != 0 {
		timer := AcquireTimer(call.left(0))
		defer ReleaseTimer(timer)
		expired = timer.C
	}
	select {
	case <-w.done:
		return nil
	case <-ended:
	case <-expired:
	}
	phase, isDone := l.abandon(w)
	if isDone {
		<-w.done // it was answered just now
		return nil
	}
	call.phase = phase
	if err := call.err(); err != nil {
		return err
	}
	return ErrTimeout
}

// abandon gives up w, unless w is done. A queued w is released; the lane owns a
// w that was sent.
func (l *pipelineLane) abandon(w *pipelineWork) (phase Phase, isDone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch w.state {
	case workQueued:
		phase = PhaseWait
		if l.isDialing {
			phase = PhaseDial
		}
		l.hasQueued() // w may still be in arrived
		l.queued.remove(w)
		l.vacate(1)
		l.c.works.release(w)
	case workSent:
		phase = PhaseRead
		if l.link != nil && l.link.written.Load() <= w.at {
			phase = PhaseWrite
		}
		w.state = workAbandoned
	default:
		return 0, true
	}
	return phase, false
}

// finish completes w, which is in no list and not counted any more. Called with
// the lock.
func (l *pipelineLane) finish(w *pipelineWork, err error) {
	if w.state == workAbandoned {
		l.c.works.release(w)
		return
	}
	w.err = err
	w.state = workDone
	w.done <- struct{}{}
}

// run connects and sends until there is neither a request to send nor a
// connection.
func (l *pipelineLane) run() {
	for l.goesOn() {
		link, err := l.connect()
		if err != nil {
			l.failQueued(err)
			continue
		}
		if link == nil {
			continue // all calls have been given up
		}
		link.serve()
		l.settle(link)
	}
}

// goesOn reports whether there is a request to send. If it returns false, run
// ends.
func (l *pipelineLane) goesOn() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hasQueued() {
		return true
	}
	l.state.Store(laneStopped)
	return l.arrived.Load() != nil && l.state.CompareAndSwap(laneStopped, laneRunning)
}

const (
	firstRedialDelay = 10 * time.Millisecond
	maxRedialDelay   = 500 * time.Millisecond
)

// failed records a failed dial: the next one is delayed. Called with the lock.
func (l *pipelineLane) failed() {
	delay := min(firstRedialDelay<<min(l.failures, 10), maxRedialDelay)
	l.failures++
	l.retryAt = clock.Nanos() + int64(delay)
}

// connect opens a connection, after the delay for failed dials. It returns nil
// if no request is queued any more.
func (l *pipelineLane) connect() (*pipelineLink, error) {
	l.mu.Lock()
	wait := time.Duration(0)
	if l.failures > 0 {
		wait = time.Duration(l.retryAt - clock.Nanos())
	}
	l.mu.Unlock()
	if wait > 0 {
		time.Sleep(wait)
	}
	l.mu.Lock()
	l.isDialing = l.hasQueued()
	dials := l.isDialing
	l.mu.Unlock()
	if !dials {
		return nil, nil
	}
	link, err := l.dial()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isDialing = false
	if err != nil {
		l.failed()
		return nil, err
	}
	l.link, l.failures = link, 0
	return link, nil
}

// dial connects to the next address that can be reached.
func (l *pipelineLane) dial() (*pipelineLink, error) {
	h := &l.c.host
	addrs := h.prepared().addrs
	var err error = errNoAddr
	for range addrs {
		addr := addrs[(h.nextAddr.Add(1)-1)%uint32(len(addrs))]
		var call clientCall
		nc, dialErr := h.dial(&call, addr)
		if dialErr == nil {
			return newPipelineLink(l, nc), nil
		}
		err = dialErr
	}
	return nil, err
}

// failQueued completes all requests that were not sent with err.
func (l *pipelineLane) failQueued(err error) {
	l.logError(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hasQueued()
	for w := l.queued.pop(); w != nil; w = l.queued.pop() {
		l.vacate(1)
		l.finish(w, err)
	}
}

// settle completes or queues again the requests that were sent on a connection
// that has ended. Nothing uses the connection any more.
func (l *pipelineLane) settle(k *pipelineLink) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.link = nil
	k.tick.Stop()
	err := k.outcome()
	if k.answers == 0 && err != errPipelineIdle {
		l.countAttempt(err)
	}
	written := k.written.Load()
	isTimeout := isDeadline(err)
	// A server that closes a new connection without any answer would probably do
	// so again.
	isSilent := k.answers == 0 && !k.isAnswering && err != errNoAnswer
	var again workList
	for w := l.sent.pop(); w != nil; w = l.sent.pop() {
		w.attempts++
		repeats := w.at >= written || w.isRepeatable && !isSilent && !isTimeout && !k.isAnswering
		if w.state == workAbandoned || !repeats || w.attempts >= DefaultMaxIdemponentCallAttempts {
			l.unanswered.Add(-1)
			l.finish(w, callerError(err))
		} else {
			w.state = workQueued
			l.waiting.Add(1)
			l.unanswered.Add(-1)
			again.push(w)
		}
		if k.isAnswering && !isTimeout {
			// The defect of an answer concerns only the request of that answer. For
			// the other requests, the connection has ended.
			err = errConnectionOver
		}
		k.isAnswering = false
	}
	l.queued.prepend(&again)
}

// countAttempt counts an attempt for all queued requests, because a connection
// ended without any answer. A request therefore fails after a limited number of
// connections. Called with the lock.
func (l *pipelineLane) countAttempt(err error) {
	var kept workList
	l.hasQueued()
	for w := l.queued.pop(); w != nil; w = l.queued.pop() {
		w.attempts++
		if w.attempts >= DefaultMaxIdemponentCallAttempts {
			l.vacate(1)
			l.finish(w, callerError(err))
		} else {
			kept.push(w)
		}
	}
	l.queued = kept
}

// closeIdle closes the connection if nothing is pending.
func (l *pipelineLane) closeIdle() {
	l.mu.Lock()
	k := l.link
	if k == nil || l.pending() > 0 {
		l.mu.Unlock()
		return
	}
	k.isClosing = true // nothing more is sent on it
	l.mu.Unlock()
	k.fail(errPipelineIdle)
}

func (l *pipelineLane) logError(err error) {
	if logger := l.c.Logger; logger != nil {
		logger.Printf("sluice: PipelineClient for %q: %v", l.c.Addr, err)
	}
}

const (
	// companyLasts is the number of consecutive writes of a single request after
	// which a write yields no longer, unless several requests are pending.
	companyLasts = 32
	// aloneLasts is then the number of writes from one yield to the next.
	aloneLasts = 64
)

// gather lets other goroutines queue requests, so that they are written
// together. A request that passes from goroutine to goroutine, through client
// and server, can keep runnable goroutines from running: the scheduler runs a
// goroutine that was just woken first. Yielding gives them their turn. It is
// useless if there are none, which the number of requests in earlier writes
// shows.
func (l *pipelineLane) gather() {
	l.alone++
	switch delay := l.c.MaxBatchDelay; {
	case delay > 0:
		time.Sleep(delay)
	case l.alone <= companyLasts, l.alone%aloneLasts == 0, l.pending() > 1:
		runtime.Gosched()
	}
}

// workList is an ordered list of works. The zero value is empty.
type workList struct{ first, last *pipelineWork }

func (l *workList) push(w *pipelineWork) {
	w.prev, w.next = l.last, nil
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
}

// pop removes and returns the first work, or nil if the list is empty.
func (l *workList) pop() *pipelineWork {
	w := l.first
	if w != nil {
		l.remove(w)
	}
	return w
}

func (l *workList) remove(w *pipelineWork) {
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
}

// prepend moves all works of other to the front and empties other.
func (l *workList) prepend(other *workList) {
	if other.first == nil {
		return
	}
	if l.first == nil {
		*l = *other
	} else {
		other.last.next, l.first.prev = l.first, other.last
		l.first = other.first
	}
	*other = workList{}
}
