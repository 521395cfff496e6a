// Package pool keeps the connections of a client to one host: the idle ones,
// the count of all, and the calls that wait for one.
package pool

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// Settings configures a Pool. All calls of a Pool must pass the same Settings.
type Settings[T any] struct {
	MaxConns int           // open connections; SetMax overrides it
	MaxIdle  time.Duration // how long a connection may be idle; > 0
	IsLIFO   bool          // the last idle connection and the last waiter come first
	Close    func(*T)      // closes a connection; may be called concurrently
}

// A Pool holds the idle connections to a host and counts all of them. The
// caller owns a connection from Take or Wait until Release or Discard. The zero
// value is an empty pool. A Pool must not be copied after the first use. Its
// methods may be called concurrently.
//
// A connection counts from the permission to open it until it is closed.
// Whoever has a permission passes the opened connection to Release or Discard,
// or calls Closed if there is none.
type Pool[T any] struct {
	mu      sync.Mutex
	idle    []Idle[T]   // in the order of release, the oldest first
	room    []Idle[T]   // the memory of idle, which moves through it
	open    int         // idle, in use, and being dialed
	limit   int         // set by SetMax; 0: Settings.MaxConns applies
	waiting list.List   // of *waiter[Idle[T]], in the order of arrival
	janitor *time.Timer // closes expired connections; nil: none are idle
	wasUsed bool        // a connection became idle since the janitor last ran

	// ticked is the clock.Nanos at which the janitor last ran, while it runs
	// every step; otherwise 0. Reading the clock three times for each request
	// takes 25 % of the time of BenchmarkClientDoFastServer.
	ticked atomic.Int64
}

// Idle is a connection that was idle, or nil for the permission to open one.
type Idle[T any] struct {
	Conn    *T
	LastUse int64 // clock.Nanos of its release; may be up to half a second too early
}

// maxLocked returns the maximum number of open connections. Called with the lock.
func (p *Pool[T]) maxLocked(s Settings[T]) int {
	if p.limit > 0 {
		return p.limit
	}
	return s.MaxConns
}

// Take takes an idle connection or the permission to open one. With isFresh, it
// takes only the permission. isFull means that there is neither.
func (p *Pool[T]) Take(s Settings[T], isFresh bool) (got Idle[T], isFull bool) {
	p.mu.Lock()
	got, ok := p.takeLocked(s, isFresh)
	p.mu.Unlock()
	return got, !ok
}

// takeLocked is Take with the lock.
func (p *Pool[T]) takeLocked(s Settings[T], isFresh bool) (got Idle[T], ok bool) {
	switch {
	case len(p.idle) == 0 || isFresh:
		return got, p.permitLocked(s)
	case s.IsLIFO:
		return p.takeLastLocked(), true
	}
	return p.takeFirstLocked(), true
}

// permitLocked gives the permission to open a connection. If the limit is reached, it
// closes an idle connection for that. Called with the lock.
func (p *Pool[T]) permitLocked(s Settings[T]) bool {
	if p.open < p.maxLocked(s) {
		p.open++
		return true
	}
	if len(p.idle) == 0 {
		return false
	}
	go s.Close(p.takeFirstLocked().Conn) // closing TLS may wait to send the last alert
	return true
}

// takeFirstLocked removes the connection that has been idle longest. Called with the
// lock.
func (p *Pool[T]) takeFirstLocked() Idle[T] {
	got := p.idle[0]
	p.idle[0] = Idle[T]{}
	p.idle = p.idle[1:]
	return got
}

// takeLastLocked removes the connection that became idle last. Called with the lock.
func (p *Pool[T]) takeLastLocked() Idle[T] {
	last := len(p.idle) - 1
	got := p.idle[last]
	p.idle[last] = Idle[T]{}
	p.idle = p.idle[:last]
	return got
}

// pushLocked appends a connection to the idle ones. Called with the lock.
func (p *Pool[T]) pushLocked(conn Idle[T]) {
	if n := len(p.idle); n == cap(p.idle) {
		// idle has reached the end of room. Move it to the start if half of room is
		// free, otherwise to a larger one.
		if n > cap(p.room)/2 || cap(p.room) == 0 {
			p.room = make([]Idle[T], 0, 2*n+2)
		}
		p.idle = append(p.room[:0], p.idle...)
		clear(p.idle[n:cap(p.idle)])
	}
	p.idle = append(p.idle, conn)
}

// Release makes a connection idle, or gives it to a waiter. If there are more
// connections than allowed, it closes it.
func (p *Pool[T]) Release(s Settings[T], conn *T) {
	p.mu.Lock()
	w := p.nextWaiterLocked(s)
	switch {
	case p.open > p.maxLocked(s):
		p.mu.Unlock()
		p.Discard(s, conn)
		return
	case w != nil && w.isFresh:
		p.serveLocked(w, Idle[T]{}) // it opens a new connection in place of conn
		p.mu.Unlock()
		s.Close(conn)
		return
	case w != nil:
		p.serveLocked(w, Idle[T]{conn, p.Now()})
		p.mu.Unlock()
		return
	}
	p.wasUsed = true
	now := p.ticked.Load()
	if now == 0 {
		now = clock.Nanos()
		p.startJanitorLocked(s, now)
	}
	p.pushLocked(Idle[T]{conn, now})
	p.mu.Unlock()
}

// Admit counts a connection that was opened without the permission. The caller owns
// it as after Take.
func (p *Pool[T]) Admit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open++
}

// Closed records that a connection was closed, or that opening one failed. It
// passes the permission to a waiter, if there is one.
func (p *Pool[T]) Closed(s Settings[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.nextWaiterLocked(s); w != nil && p.open <= p.maxLocked(s) {
		p.serveLocked(w, Idle[T]{})
		return
	}
	p.open--
}

// Discard closes a connection and returns its place to the pool.
func (p *Pool[T]) Discard(s Settings[T], conn *T) {
	s.Close(conn)
	p.Closed(s)
}

// CloseIdle closes the idle connections.
func (p *Pool[T]) CloseIdle(s Settings[T]) {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.room = nil, nil
	p.mu.Unlock()
	p.discardAll(s, idle)
}

func (p *Pool[T]) discardAll(s Settings[T], conns []Idle[T]) {
	for _, c := range conns {
		p.Discard(s, c.Conn)
	}
}

// Counts returns the numbers of open and of idle connections. Those that are
// being opened are open.
func (p *Pool[T]) Counts() (open, idle int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open, len(p.idle)
}

// Reserve takes the permissions for the connections that are missing for n idle
// ones, as many as allowed, and returns their number.
func (p *Pool[T]) Reserve(s Settings[T], n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	want := max(min(n-len(p.idle), p.maxLocked(s)-p.open), 0)
	p.open += want
	return want
}

// SetMax sets the maximum number of connections; 0 or less restores
// Settings.MaxConns. Waiters get the permissions of a larger maximum at once.
// For a smaller one, idle connections are closed at once and others when they
// are released.
func (p *Pool[T]) SetMax(s Settings[T], n int) {
	p.mu.Lock()
	p.limit = max(n, 0)
	for p.waiting.Len() > 0 && p.open < p.maxLocked(s) {
		p.open++
		p.serveLocked(p.nextWaiterLocked(s), Idle[T]{})
	}
	var surplus []Idle[T]
	for p.open-len(surplus) > p.maxLocked(s) && len(p.idle) > 0 {
		surplus = append(surplus, p.takeFirstLocked())
	}
	p.mu.Unlock()
	p.discardAll(s, surplus)
}
