package pipeline

import (
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// A lane has at most one connection, and the queue for it. One
// goroutine runs the lane while there are requests to send or a connection is
// open: it dials and writes. A second goroutine reads from the connection.
type lane struct {
	cfg        *Config
	waiting    atomic.Int64  // number of requests in arrived and queued
	unanswered atomic.Int64  // number of requests in sent; changed under the lock
	blocked    atomic.Int32  // number of calls that wait for room in the queue
	room       chan struct{} // gets a token when there is room and a call waits
	alone      uint          // writes since the last one with several requests; only the lane's goroutine uses it
	state      atomic.Int32  // one of the states below
	wake       chan struct{} // gets a token from the goroutine that ends laneAsleep

	// arrived holds the submitted requests that are not in queued yet, the last
	// first. It is lock-free, because many goroutines would contend for the lock.
	arrived atomic.Pointer[Work]

	mu        sync.Mutex
	queued    workList // not sent yet
	sent      workList // sent on conn and not answered
	conn      *conn    // nil: not connected
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

func (l *lane) init(cfg *Config) {
	l.cfg, l.wake, l.room = cfg, make(chan struct{}, 1), make(chan struct{}, 1)
}

// pending returns the number of requests that are queued or not answered.
func (l *lane) pending() int64 { return l.waiting.Load() + l.unanswered.Load() }

// load returns how busy the lane is; 0 if it would send a request at once.
func (l *lane) load() int64 {
	n := l.pending() * 2
	if n == 0 && l.state.Load() == laneStopped {
		return 1 // a new connection is better than a busy one
	}
	return n
}

// reserve takes a place in the queue. It returns false if the queue is full.
func (l *lane) reserve() bool {
	for n := l.waiting.Load(); n < int64(l.cfg.Pending); n = l.waiting.Load() {
		if l.waiting.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// vacate returns n places in the queue.
func (l *lane) vacate(n int) {
	l.waiting.Add(-int64(n))
	l.offerRoom()
}

// offerRoom wakes one of the calls that wait for room.
func (l *lane) offerRoom() {
	if l.blocked.Load() == 0 {
		return
	}
	select {
	case l.room <- struct{}{}:
	default: // a call is being woken, and it will wake the next one
	}
}

// awaitRoom waits until it has reserved a place. It returns false if done or
// expired ended the wait.
func (l *lane) awaitRoom(done <-chan struct{}, expired <-chan time.Time) bool {
	l.blocked.Add(1)
	defer l.blocked.Add(-1)
	for !l.reserve() {
		select {
		case <-l.room:
		case <-done:
			return false
		case <-expired:
			return false
		}
	}
	if l.waiting.Load() < int64(l.cfg.Pending) {
		l.offerRoom()
	}
	return true
}

// displace ends the oldest request in the queue; the caller takes over its
// place. It returns false if the queue is empty.
func (l *lane) displace() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hasQueuedLocked()
	w := l.queued.pop()
	if w != nil {
		l.finishLocked(w, ErrOverflow)
	}
	return w != nil
}

// enqueue queues w, for which a place is reserved.
func (l *lane) enqueue(w *Work) {
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
func (l *lane) rouse() {
	if l.state.Load() == laneAsleep && l.state.CompareAndSwap(laneAsleep, laneRunning) {
		l.wake <- struct{}{}
	}
}

// sleep waits for rouse, unless there already is a reason to continue: a
// request has arrived, the connection is over, or the lane was full and is not
// full now.
func (l *lane) sleep(k *conn, wasFull bool) {
	l.state.Store(laneAsleep)
	if (l.arrived.Load() != nil || k.isOver() || wasFull && !l.isFull()) && l.state.CompareAndSwap(laneAsleep, laneRunning) {
		return
	}
	<-l.wake
}

// isFull reports whether the maximum number of requests is unanswered.
func (l *lane) isFull() bool { return l.unanswered.Load() >= int64(l.cfg.Pending) }

// hasQueuedLocked moves arrived to queued, and reports whether there is a request to
// send. Called with the lock.
func (l *lane) hasQueuedLocked() bool {
	last := l.arrived.Swap(nil)
	if last == nil {
		return l.queued.first != nil
	}
	// arrived is in reverse order.
	var first *Work
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

// abandon gives up w and returns how far it came, unless it is answered. The
// lane then owns w until it has ended.
func (l *lane) abandon(w *Work) clock.Phase {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch w.state {
	case workQueued:
		l.hasQueuedLocked() // w may still be in arrived
		l.queued.remove(w)
		l.vacate(1)
		w.answer.Release()
		if l.isDialing {
			return clock.PhaseDial
		}
		return clock.PhaseWait
	case workSent:
		w.state = workAbandoned
		if l.conn != nil && l.conn.written.Load() <= w.at {
			return clock.PhaseWrite
		}
		return clock.PhaseRead
	}
	return Answered
}

// finishLocked completes w, which is in no list and not counted any more. Called with
// the lock.
func (l *lane) finishLocked(w *Work, err error) {
	if w.state == workAbandoned {
		w.answer.Release()
		return
	}
	w.Err = err
	w.state = workDone
	w.done <- struct{}{}
}

// run connects and sends until there is neither a request to send nor a
// connection.
func (l *lane) run() {
	for l.goesOn() {
		k, err := l.connect()
		switch {
		case err != nil:
			l.failQueued(err)
		case k != nil: // nil: all calls have been given up
			k.serve()
			l.settle(k)
		}
	}
}

// explain returns the error of works whose connection ended with err.
func (l *lane) explain(err error) error {
	if err == io.EOF || err == errLast || err == errIdle {
		err = ErrEnded
	}
	return l.cfg.Explain(err)
}

// goesOn reports whether there is a request to send. If it returns false, run
// ends.
func (l *lane) goesOn() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hasQueuedLocked() {
		return true
	}
	l.state.Store(laneStopped)
	return l.arrived.Load() != nil && l.state.CompareAndSwap(laneStopped, laneRunning)
}

const (
	firstRedialDelay = 10 * time.Millisecond
	maxRedialDelay   = 500 * time.Millisecond
)

// failedLocked records a failed dial: the next one is delayed. Called with the lock.
func (l *lane) failedLocked() {
	delay := min(firstRedialDelay<<min(l.failures, 10), maxRedialDelay)
	l.failures++
	l.retryAt = clock.Nanos() + int64(delay)
}

// connect opens a connection, after the delay for failed dials. It returns nil
// if no request is queued any more.
func (l *lane) connect() (*conn, error) {
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
	l.isDialing = l.hasQueuedLocked()
	dials := l.isDialing
	l.mu.Unlock()
	if !dials {
		return nil, nil
	}
	nc, err := l.cfg.Dial()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isDialing = false
	if err != nil {
		l.failedLocked()
		return nil, err
	}
	l.conn, l.failures = newConn(l, nc), 0
	return l.conn, nil
}

// failQueued completes all requests that were not sent with err.
func (l *lane) failQueued(err error) {
	l.cfg.Log(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failQueuedLocked(err)
}

// failQueuedLocked is failQueued with the lock, after the error was logged.
func (l *lane) failQueuedLocked(err error) {
	l.hasQueuedLocked()
	for w := l.queued.pop(); w != nil; w = l.queued.pop() {
		l.vacate(1)
		l.finishLocked(w, err)
	}
}

// settle completes or queues again the requests that were sent on a connection
// that has ended. Nothing uses the connection any more.
func (l *lane) settle(k *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = nil
	k.tick.Stop()
	err := k.outcome()
	isRefused := k.answers == 0 && l.cfg.IsRefusal(k.err)
	switch {
	case isRefused:
		err = k.err
		l.failQueuedLocked(l.explain(err))
	case k.answers == 0 && err != errIdle:
		l.countAttemptLocked(err)
	}
	written := k.written.Load()
	isTimeout := l.cfg.IsTimeout(err)
	// A server that closes a new connection without any answer would probably do
	// so again.
	isSilent := k.answers == 0 && !k.isAnswering && err != errNoAnswer
	var again workList
	for w := l.sent.pop(); w != nil; w = l.sent.pop() {
		w.attempts++
		repeats := w.at >= written || w.IsRepeatable && !isSilent && !isTimeout && !k.isAnswering
		if w.state == workAbandoned || isRefused || !repeats || w.attempts >= l.cfg.Attempts {
			l.unanswered.Add(-1)
			l.finishLocked(w, l.explain(err))
		} else {
			w.state = workQueued
			l.waiting.Add(1)
			l.unanswered.Add(-1)
			again.push(w)
		}
		if k.isAnswering && !isTimeout {
			// The defect of an answer concerns only the request of that answer. For
			// the other requests, the connection has ended.
			err = errLast
		}
		k.isAnswering = false
	}
	l.queued.prepend(&again)
}

// countAttemptLocked counts an attempt for all queued requests, because a connection
// ended without any answer. A request therefore fails after a limited number of
// connections. Called with the lock.
func (l *lane) countAttemptLocked(err error) {
	var kept workList
	l.hasQueuedLocked()
	for w := l.queued.pop(); w != nil; w = l.queued.pop() {
		w.attempts++
		if w.attempts >= l.cfg.Attempts {
			l.vacate(1)
			l.finishLocked(w, l.explain(err))
		} else {
			kept.push(w)
		}
	}
	l.queued = kept
}

// closeIdle closes the connection if nothing is pending.
func (l *lane) closeIdle() {
	l.mu.Lock()
	k := l.conn
	if k == nil || l.pending() > 0 {
		l.mu.Unlock()
		return
	}
	k.enterLocked(connClosing)
	l.mu.Unlock()
	k.fail(errIdle)
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
func (l *lane) gather() {
	l.alone++
	switch delay := l.cfg.BatchDelay; {
	case delay > 0:
		time.Sleep(delay)
	case l.alone <= companyLasts, l.alone%aloneLasts == 0, l.pending() > 1:
		runtime.Gosched()
	}
}
