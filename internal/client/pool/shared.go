package pool

import (
	"container/list"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// SharedSettings configures a Shared pool. All calls of a pool must pass the same
// settings.
type SharedSettings[T any] struct {
	MaxConns int           // open connections that get new streams
	MaxIdle  time.Duration // how long a connection may be without streams; > 0
	MaxAge   time.Duration // how long a connection gets new streams; 0: no limit
	Close    func(T)       // closes a connection without streams, on a goroutine of its own
	Look     func(T)       // handles what the peer of a connection without streams has sent
}

// lookEvery is how often idle connections are looked at: nobody reads from them, but the
// peer may end them or want a PING answered.
const lookEvery = 500 * time.Millisecond

// A Shared pool holds the connections to a host that carry several streams at once.
// The zero value is an empty pool. A Shared must not be copied after the first use.
// Its methods may be called concurrently.
//
// A new stream goes to the connection with the most streams that has room for another
// one, so that connections that are not needed become idle. If none has room, one
// caller gets the permission to open a connection, and the others wait in the order of
// their arrival. There is no other permission until the connection has a limit of
// streams from its peer: only then is known how many it carries.
type Shared[T any] struct {
	mu        sync.Mutex
	members   []*Member[T] // those that get new streams
	isOpening bool         // a permission is in use, or unsettled is not nil
	unsettled *Member[T]   // opened with the permission; SetLimit has not been called for it
	draining  int          // connections that get no new streams, or are opened for one stream
	waiting   list.List    // of *waiter[Grant[T]], in the order of arrival
	impatient int          // how many of them do not wait for room
	janitor   *time.Timer  // looks at idle members and closes them; nil: never armed
	isArmed   bool         // the janitor will run
}

// A Member is a connection of a Shared pool. The pool's lock guards the fields other
// than Conn.
type Member[T any] struct {
	Conn       T
	created    int64 // clock.Nanos
	idle       int64 // clock.Nanos since which it has no streams
	streams    int
	limit      int
	isDraining bool // it gets no new streams, and is closed after the last one
}

// NewMember returns a member that is not in a pool yet. limit is how many streams conn
// is assumed to carry until SetLimit is called.
func NewMember[T any](conn T, limit int) *Member[T] { return &Member[T]{Conn: conn, limit: limit} }

// A Grant is what a caller gets from a Shared pool: a stream on Member, which it gives
// back with Release; the permission to open a connection, after which it calls Opened,
// Failed or Abandon; or an error.
type Grant[T any] struct {
	Member  *Member[T]
	MayOpen bool
	Err     error
}

// ErrFull is the error for a caller that does not wait for room.
var ErrFull = errors.New("sluice: all connections are full")

// Take reserves a stream, or takes the permission to open a connection. ok is false if
// the caller must wait for either.
func (p *Shared[T]) Take(s SharedSettings[T]) (got Grant[T], ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takeLocked(s)
}

// takeLocked is Take with the lock.
func (p *Shared[T]) takeLocked(s SharedSettings[T]) (got Grant[T], ok bool) {
	if m := p.fullestLocked(s); m != nil {
		m.streams++
		return Grant[T]{Member: m}, true
	}
	if p.isOpening || len(p.members) >= s.MaxConns {
		return got, false
	}
	p.isOpening = true
	return Grant[T]{MayOpen: true}, true
}

// TakeOpen is Take without the permission: it reserves a stream if there is room.
func (p *Shared[T]) TakeOpen(s SharedSettings[T]) *Member[T] {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.fullestLocked(s)
	if m != nil {
		m.streams++
	}
	return m
}

// fullestLocked returns the member with the most streams that has room, or nil. It drains
// those that are too old. Called with the lock.
func (p *Shared[T]) fullestLocked(s SharedSettings[T]) (best *Member[T]) {
	for i := len(p.members) - 1; i >= 0; i-- {
		m := p.members[i]
		switch {
		case m.isSpent(s):
			p.setDrainingLocked(s, m)
		case m.streams < m.limit && (best == nil || m.streams > best.streams):
			best = m
		}
	}
	return best
}

// isSpent reports whether m is too old, or was idle for too long, to be used.
func (m *Member[T]) isSpent(s SharedSettings[T]) bool {
	if m.streams > 0 && s.MaxAge <= 0 {
		return false
	}
	now := clock.Nanos()
	return m.streams == 0 && now-m.idle >= int64(s.MaxIdle) || s.MaxAge > 0 && now-m.created > int64(s.MaxAge)
}

// TakeSingle takes the permission to open a connection for one stream, after which the
// caller calls OpenedSingle or FailedSingle. If the pool is full, an idle connection is
// closed for it; if none is idle, TakeSingle returns false.
func (p *Shared[T]) TakeSingle(s SharedSettings[T]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if open := p.openLocked(); open >= s.MaxConns {
		i := slices.IndexFunc(p.members, func(m *Member[T]) bool { return m.streams == 0 })
		if i < 0 || open > s.MaxConns {
			return false
		}
		p.setDrainingLocked(s, p.members[i])
	}
	p.draining++
	return true
}

// OpenedSingle makes m, which was opened with the permission of TakeSingle, a connection
// with one stream that gets no others.
func (p *Shared[T]) OpenedSingle(m *Member[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.streams, m.isDraining = 1, true
}

// FailedSingle gives the permission of TakeSingle back.
func (p *Shared[T]) FailedSingle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining--
}

// openLocked returns the number of connections. Called with the lock.
func (p *Shared[T]) openLocked() int {
	open := len(p.members) + p.draining
	if p.isOpening && p.unsettled == nil {
		open++
	}
	return open
}

// Opened adds a connection that was opened with the permission, and reserves a stream
// on it for the caller.
func (p *Shared[T]) Opened(s SharedSettings[T], m *Member[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unsettled = m
	p.addLocked(s, m)
}

// Admit adds a connection that was opened without the permission, and reserves a stream
// on it for the caller.
func (p *Shared[T]) Admit(s SharedSettings[T], m *Member[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addLocked(s, m)
}

// addLocked adds a connection with one stream. Called with the lock.
func (p *Shared[T]) addLocked(s SharedSettings[T], m *Member[T]) {
	m.created, m.streams = clock.Nanos(), 1
	p.members = append(p.members, m)
	p.serveLocked(s)
}

// Failed gives the permission back because opening a connection failed. If there is no
// other connection, that is the error of all who wait for one.
func (p *Shared[T]) Failed(s SharedSettings[T], err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.members) == 0 && p.waiting.Len() > 0 {
		p.answerLocked(p.waiting.Front(), Grant[T]{Err: err})
	}
	p.endOpeningLocked(s)
}

// Abandon gives the permission back because its caller has given up. It passes to the
// next who waits.
func (p *Shared[T]) Abandon(s SharedSettings[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endOpeningLocked(s)
}

// SetLimit sets how many streams the peer of m admits.
func (p *Shared[T]) SetLimit(s SharedSettings[T], m *Member[T], limit int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.limit = limit
	if p.unsettled == m {
		p.endOpeningLocked(s)
		return
	}
	p.serveLocked(s)
}

// endOpeningLocked makes the permission available. Called with the lock.
func (p *Shared[T]) endOpeningLocked(s SharedSettings[T]) {
	p.isOpening, p.unsettled = false, nil
	p.serveLocked(s)
}

// Drain stops new streams on m. It is closed after its last one.
func (p *Shared[T]) Drain(s SharedSettings[T], m *Member[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setDrainingLocked(s, m)
	p.serveLocked(s)
}

// setDrainingLocked is Drain with the lock, for callers that serve who waits.
func (p *Shared[T]) setDrainingLocked(s SharedSettings[T], m *Member[T]) {
	if m.isDraining {
		return
	}
	m.isDraining = true
	p.members = slices.DeleteFunc(p.members, func(other *Member[T]) bool { return other == m })
	p.draining++
	p.closeUnusedLocked(s, m)
	if p.unsettled == m {
		p.isOpening, p.unsettled = false, nil
	}
}

// closeUnusedLocked closes a connection that is draining, unless it has streams. Called with
// the lock.
func (p *Shared[T]) closeUnusedLocked(s SharedSettings[T], m *Member[T]) {
	if m.streams == 0 {
		p.draining--
		go s.Close(m.Conn) // closing may wait to send the last frames
	}
}

// Release gives back a stream.
func (p *Shared[T]) Release(s SharedSettings[T], m *Member[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.streams--
	switch {
	case m.isDraining:
		p.closeUnusedLocked(s, m)
		return
	case p.waiting.Len() > 0:
		p.serveLocked(s)
	}
	if m.streams == 0 {
		m.idle = clock.Nanos()
		if !p.isArmed {
			p.armLocked(s, min(s.MaxIdle, lookEvery))
		}
	}
}

// armLocked makes the janitor run after d. Called with the lock.
func (p *Shared[T]) armLocked(s SharedSettings[T], d time.Duration) {
	p.isArmed = true
	if p.janitor != nil {
		p.janitor.Reset(d)
		return
	}
	p.janitor = time.AfterFunc(d, func() {
		for _, conn := range p.closeExpired(s) {
			s.Look(conn)
		}
	})
}

// closeExpired closes the connections that have been idle for too long, and returns the
// other idle ones. The janitor's timer calls it. It runs again while there are any.
func (p *Shared[T]) closeExpired(s SharedSettings[T]) (idle []T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isArmed = false
	now, next := clock.Nanos(), int64(lookEvery)
	for i := len(p.members) - 1; i >= 0; i-- {
		m := p.members[i]
		if m.streams > 0 {
			continue
		}
		left := int64(s.MaxIdle) - (now - m.idle)
		if left <= 0 {
			p.setDrainingLocked(s, m)
			continue
		}
		next = min(next, left)
		idle = append(idle, m.Conn)
	}
	if len(idle) > 0 {
		p.armLocked(s, max(time.Duration(next), time.Millisecond))
	}
	p.serveLocked(s)
	return idle
}

// CloseIdle closes the connections without streams.
func (p *Shared[T]) CloseIdle(s SharedSettings[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.members) - 1; i >= 0; i-- {
		if m := p.members[i]; m.streams == 0 {
			p.setDrainingLocked(s, m)
		}
	}
	p.serveLocked(s)
}

// Counts returns the numbers of open and of idle connections. Those that are being
// opened are open.
func (p *Shared[T]) Counts() (open, idle int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.members {
		if m.streams == 0 {
			idle++
		}
	}
	return p.openLocked(), idle
}

// Waiting returns how many wait for a stream or a connection.
func (p *Shared[T]) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting.Len()
}

// Wait waits for what Take takes, while a connection is being opened, and for patience
// while none is: a patience of 0 ends with ErrFull at once, a negative one never. Wait
// returns false if the call has ended.
func (p *Shared[T]) Wait(s SharedSettings[T], patience time.Duration, call *clock.Bounds) (got Grant[T], ok bool) {
	w := &waiter[Grant[T]]{ready: make(chan struct{}), patience: patience}
	if got, ok = p.enqueue(s, w); ok {
		return got, true
	}
	timer := time.NewTimer(max(patience, 0))
	defer timer.Stop()
	tired := timer.C
	if patience <= 0 {
		tired = nil
	}
	var expired <-chan time.Time
	if left := call.Left(0); left > 0 {
		end := clock.AcquireTimer(left)
		defer clock.ReleaseTimer(end)
		expired = end.C
	}
	for isWaiting := true; isWaiting; {
		select {
		case <-w.ready:
			return w.got, true
		case <-tired:
			if p.mayGiveUp(w) {
				return Grant[T]{Err: ErrFull}, true
			}
			timer.Reset(patience)
		case <-call.Done():
			isWaiting = false
		case <-expired:
			isWaiting = false
		}
	}
	if p.abandon(w) {
		return got, false
	}
	<-w.ready // it was served just now
	switch {
	case w.got.Member != nil:
		p.Release(s, w.got.Member)
	case w.got.MayOpen:
		p.Abandon(s)
	}
	return got, false
}

// enqueue makes w wait, unless what it waits for has become available.
func (p *Shared[T]) enqueue(s SharedSettings[T], w *waiter[Grant[T]]) (got Grant[T], ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if got, ok = p.takeLocked(s); ok {
		return got, true
	}
	if w.patience == 0 && !p.isOpening {
		return Grant[T]{Err: ErrFull}, true
	}
	w.place = p.waiting.PushBack(w)
	if w.patience == 0 {
		p.impatient++
	}
	return got, false
}

// mayGiveUp removes a waiter whose patience has ended, unless a connection is being
// opened or it was served.
func (p *Shared[T]) mayGiveUp(w *waiter[Grant[T]]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.isOpening && p.unlistLocked(w)
}

// abandon removes w from the queue. It returns false if w was served.
func (p *Shared[T]) abandon(w *waiter[Grant[T]]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unlistLocked(w)
}

// unlistLocked is abandon with the lock.
func (p *Shared[T]) unlistLocked(w *waiter[Grant[T]]) bool {
	if !w.leave(&p.waiting) {
		return false
	}
	if w.patience == 0 {
		p.impatient--
	}
	return true
}

// serveLocked gives what is available to those who wait, in their order. Called with the lock.
func (p *Shared[T]) serveLocked(s SharedSettings[T]) {
	for p.waiting.Len() > 0 {
		got, ok := p.takeLocked(s)
		if !ok {
			break
		}
		p.answerLocked(p.waiting.Front(), got)
	}
	for e := p.waiting.Front(); e != nil && p.impatient > 0 && !p.isOpening; {
		next := e.Next()
		if e.Value.(*waiter[Grant[T]]).patience == 0 {
			p.answerLocked(e, Grant[T]{Err: ErrFull})
		}
		e = next
	}
}

// answerLocked ends the waiting of the waiter at e. Called with the lock.
func (p *Shared[T]) answerLocked(e *list.Element, got Grant[T]) {
	w := e.Value.(*waiter[Grant[T]])
	p.unlistLocked(w)
	w.serve(got)
}
