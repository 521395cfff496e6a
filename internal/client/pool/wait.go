package pool

import (
	"container/list"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// A waiter waits for a G: a connection, or the permission to open one. The waiting call
// owns it. The pool's lock guards place, and got until ready is closed.
type waiter[G any] struct {
	ready    chan struct{} // closed when the waiter is served, with got
	got      G
	isFresh  bool          // of a Pool: it accepts only the permission
	patience time.Duration // of a Shared; see its Wait
	place    *list.Element // in the queue; nil: removed from it
}

// leave removes w from queue. It returns false if w was served. Called with the pool's
// lock.
func (w *waiter[G]) leave(queue *list.List) bool {
	if w.place == nil {
		return false
	}
	queue.Remove(w.place)
	w.place = nil
	return true
}

// serve ends the waiting of w, which has left the queue. Called with the pool's lock.
func (w *waiter[G]) serve(got G) {
	w.got = got
	close(w.ready)
}

// Wait waits for what Take takes. It returns false if the call has ended, or waited for
// limit; 0 is no limit.
func (p *Pool[T]) Wait(s Settings[T], isFresh bool, call *clock.Bounds, limit time.Duration) (got Idle[T], ok bool) {
	w := &waiter[Idle[T]]{ready: make(chan struct{}), isFresh: isFresh}
	if got, ok = p.enqueue(s, w); ok {
		return got, true
	}
	var expired <-chan time.Time
	if left := call.Left(limit); left > 0 {
		timer := clock.AcquireTimer(left)
		defer clock.ReleaseTimer(timer)
		expired = timer.C
	}
	select {
	case <-w.ready:
		return w.got, true
	case <-call.Done():
	case <-expired:
	}
	if p.abandon(w) {
		return got, false
	}
	<-w.ready // it was served just now
	if w.got.Conn != nil {
		p.Release(s, w.got.Conn)
	} else {
		p.Closed(s)
	}
	return got, false
}

// enqueue makes w wait, unless a connection or a permission has become
// available.
func (p *Pool[T]) enqueue(s Settings[T], w *waiter[Idle[T]]) (got Idle[T], ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if got, ok = p.takeLocked(s, w.isFresh); !ok {
		w.place = p.waiting.PushBack(w)
	}
	return got, ok
}

// abandon removes w from the queue. It returns false if w was served.
func (p *Pool[T]) abandon(w *waiter[Idle[T]]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return w.leave(&p.waiting)
}

// nextWaiterLocked returns the waiter that is served next, or nil. Called with the
// lock.
func (p *Pool[T]) nextWaiterLocked(s Settings[T]) *waiter[Idle[T]] {
	next := p.waiting.Front()
	if s.IsLIFO {
		next = p.waiting.Back()
	}
	if next == nil {
		return nil
	}
	return next.Value.(*waiter[Idle[T]])
}

// serveLocked ends the waiting of w. Called with the lock.
func (p *Pool[T]) serveLocked(w *waiter[Idle[T]], got Idle[T]) {
	w.leave(&p.waiting)
	w.serve(got)
}

// Waiting returns the number of waiters.
func (p *Pool[T]) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting.Len()
}
