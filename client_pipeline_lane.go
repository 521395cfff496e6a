package sluice

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// A pipelineLane is a place for one connection, with the queue for it. While
// there is something to do or a connection is open, one goroutine runs it: it
// dials and writes. The connection has another one, which reads.
type pipelineLane struct {
	c          *PipelineClient
	limit      int64         // of waiting, and of unanswered
	waiting    atomic.Int64  // requests in arrived and queued
	unanswered atomic.Int64  // requests in sent; changed under the lock
	blocked    atomic.Int32  // calls that wait for room in the queue
	room       chan struct{} // gets a token when there is room and a call waits for it
	alone      uint          // writes since the last of several requests; the lane's goroutine's
	state      atomic.Int32  // a laneState
	wake       chan struct{} // gets a token when somebody ends laneAsleep

	// arrived has what was submitted and is not in queued yet, the last first.
	// Many goroutines at one lock would keep each other waiting.
	arrived atomic.Pointer[pipelineWork]

	mu        sync.Mutex
	queued    workList      // not sent
	sent      workList      // not answered; the connection's
	link      *pipelineLink // nil: not connected
	isDialing bool
	failures  int   // dials in a row that failed
	retryAt   int64 // clock.Nanos; nothing is dialed before
}

// What the goroutine of a lane is at.
const (
	laneStopped int32 = iota // there is none
	laneRunning              // it will look at arrived once more
	laneAsleep               // it waits for wake
)

// pending is the number of requests that are queued or not answered.
func (l *pipelineLane) pending() int64 { return l.waiting.Load() + l.unanswered.Load() }

// load says how busy the lane is: 0 where a request is sent at once.
func (l *pipelineLane) load() int64 {
	n := l.pending() * 2
	if n == 0 && l.state.Load() == laneStopped {
		return 1 // better than waiting behind others
	}
	return n
}

// submit queues w. Where the queue is full, a call that has a bound waits for
// room, and another one takes the place of the oldest request in the queue.
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

// reserve takes a place in the queue. False: it is full.
func (l *pipelineLane) reserve() bool {
	for n := l.waiting.Load(); n < l.limit; n = l.waiting.Load() {
		if l.waiting.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// vacate gives back n places in the queue.
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
	default: // one is being woken, and will wake the next
	}
}

// awaitRoom waits until it has reserved a place, or the call's bound is reached.
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

// displace ends the oldest request in the queue, whose place is the caller's
// then. False: there is none.
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

// enqueue queues w, which has a place.
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

// rouse makes the goroutine look at what there is to do, if it sleeps.
func (l *pipelineLane) rouse() {
	if l.state.Load() == laneAsleep && l.state.CompareAndSwap(laneAsleep, laneRunning) {
		l.wake <- struct{}{}
	}
}

// sleep waits for rouse, unless there is a reason to go on by now: something has
// arrived, the connection is over, or was full and is no more.
func (l *pipelineLane) sleep(isOver *atomic.Bool, wasFull bool) {
	l.state.Store(laneAsleep)
	if (l.arrived.Load() != nil || isOver.Load() || wasFull && !l.isFull()) && l.state.CompareAndSwap(laneAsleep, laneRunning) {
		return
	}
	<-l.wake
}

// isFull tells whether as many requests as may be are not answered.
func (l *pipelineLane) isFull() bool { return l.unanswered.Load() >= l.limit }

// hasQueued tells whether there is something to send. Called with the lock.
func (l *pipelineLane) hasQueued() bool {
	last := l.arrived.Swap(nil)
	if last == nil {
		return l.queued.first != nil
	}
	// What arrived is in the reverse order.
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

// await waits until w is done. An error tells that the caller may not wait any
// longer, and that w is no longer his.
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

// abandon gives up w, which is the lane's then, or nobody's.
func (l *pipelineLane) abandon(w *pipelineWork) (phase Phase, isDone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch w.state {
	case workQueued:
		phase = PhaseWait
		if l.isDialing {
			phase = PhaseDial
		}
		l.hasQueued() // w may have arrived only
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

// finish ends w, which is in no list any more and not counted. Called with the
// lock.
func (l *pipelineLane) finish(w *pipelineWork, err error) {
	if w.state == workAbandoned {
		l.c.works.release(w)
		return
	}
	w.err = err
	w.state = workDone
	w.done <- struct{}{}
}

// run connects and sends, until there is nothing to send and no connection.
func (l *pipelineLane) run() {
	for l.goesOn() {
		link, err := l.connect()
		if err != nil {
			l.failQueued(err)
			continue
		}
		if link == nil {
			continue // nobody waits any more
		}
		link.serve()
		l.settle(link)
	}
}

// goesOn tells whether there is something to send. If not, run ends.
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

// failed notes that dialing failed: it is not tried again at once. Called with the
// lock.
func (l *pipelineLane) failed() {
	delay := min(firstRedialDelay<<min(l.failures, 10), maxRedialDelay)
	l.failures++
	l.retryAt = clock.Nanos() + int64(delay)
}

// connect opens a connection, when it is time for that. It returns nil if nobody
// waits for it any more.
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

// dial makes a connection to the next of the addresses that can be reached.
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

// failQueued ends all that is not sent.
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

// settle decides about what a connection that has ended leaves behind. Nothing
// uses it any more.
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
	// A server that closes a new connection without a word would do so again.
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
			// What is wrong with an answer concerns the request that it was for; for
			// the others it is the end of the connection.
			err = errConnectionOver
		}
		k.isAnswering = false
	}
	l.queued.prepend(&again)
}

// countAttempt notes for all that is queued that a connection was of no use, so
// that they don't wait for a good one for ever. Called with the lock.
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

// closeIdle ends a connection on which nothing is pending.
func (l *pipelineLane) closeIdle() {
	l.mu.Lock()
	k := l.link
	if k == nil || l.pending() > 0 {
		l.mu.Unlock()
		return
	}
	k.isClosing = true // nothing is sent on it any more
	l.mu.Unlock()
	k.fail(errPipelineIdle)
}

func (l *pipelineLane) logError(err error) {
	if logger := l.c.Logger; logger != nil {
		logger.Printf("sluice: PipelineClient for %q: %v", l.c.Addr, err)
	}
}

const (
	// companyLasts is how many times in a row a request must have been written
	// alone for it not to be waited for others any more.
	companyLasts = 32
	// aloneLasts is how many are then written before it is tried once more.
	aloneLasts = 64
)

// gather lets others queue what they are about to, so that it is written
// together. Goroutines that could run may be kept from it by a request that goes
// from one goroutine to the next, through client and server: the scheduler runs
// first what was just woken. Yielding lets them have their turn, which is in vain
// where there are none; what was written before tells.
func (l *pipelineLane) gather() {
	l.alone++
	switch delay := l.c.MaxBatchDelay; {
	case delay > 0:
		time.Sleep(delay)
	case l.alone <= companyLasts, l.alone%aloneLasts == 0, l.pending() > 1:
		runtime.Gosched()
	}
}

// workList is a list of works, in their order. The zero value is empty.
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

// pop removes the first; nil: there is none.
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

// prepend puts all of other, which is empty then, in front.
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
