package sluice

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// connPool holds the idle connections of a HostClient and counts all of them.
type connPool struct {
	mu      sync.Mutex
	idle    []*clientConn // in the order of release, the oldest first
	room    []*clientConn // the memory of idle, which moves through it
	open    int           // idle, in use, and being dialed
	limit   int           // set by SetMaxConns; 0: MaxConns applies
	waiting list.List     // of *connWaiter, in the order of arrival
	janitor *time.Timer   // closes expired connections; nil: none are idle
	wasUsed bool          // a connection became idle since the janitor last ran

	// ticked is the clock.Nanos at which the janitor last ran, while it runs
	// every clockStep; otherwise 0. Reading the clock twice takes 10 % of the
	// time of BenchmarkClientDoFastServer.
	ticked atomic.Int64
}

// maxClockStep is the largest possible delay of a HostClient's clock.
const maxClockStep = 500 * time.Millisecond

// clockStep returns the maximum delay of now. 0: now is exact.
func (c *HostClient) clockStep() time.Duration {
	step := min(c.maxIdle()/16, maxClockStep)
	if step < time.Millisecond {
		return 0
	}
	return step
}

// now returns a time of clock.Nanos that is up to clockStep old.
func (c *HostClient) now() int64 {
	if ticked := c.pool.ticked.Load(); ticked != 0 {
		return ticked
	}
	return clock.Nanos()
}

// A connWaiter waits for a connection, or for the permission to open one. The
// waiting call owns it. The pool's lock guards place, and conn until ready is
// closed.
type connWaiter struct {
	ready chan struct{} // closed when the waiter is served; with a nil conn, it may open one
	conn  *clientConn
	fresh bool          // the waiter accepts only the permission
	place *list.Element // in connPool.waiting; nil: removed from it
}

// maxConns returns the maximum number of open connections. Called with the
// lock.
func (c *HostClient) maxConns() int {
	switch {
	case c.pool.limit > 0:
		return c.pool.limit
	case c.MaxConns > 0:
		return c.MaxConns
	}
	return DefaultMaxConnsPerHost
}

func (c *HostClient) maxIdle() time.Duration {
	if c.MaxIdleConnDuration > 0 {
		return c.MaxIdleConnDuration
	}
	return DefaultMaxIdleConnDuration
}

// takeIdle takes an idle connection or, with cc == nil, the permission to open
// one. full means that there is neither.
func (c *HostClient) takeIdle(isFresh bool) (cc *clientConn, full bool) {
	p := &c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) > 0 && !isFresh {
		return c.takeNext(), false
	}
	return nil, !p.permit(c.maxConns())
}

// takeNext removes the idle connection that ConnPoolStrategy selects. Called
// with the lock.
func (c *HostClient) takeNext() *clientConn {
	if c.ConnPoolStrategy == LIFO {
		return c.pool.takeLast()
	}
	return c.pool.takeFirst()
}

// nextWaiter returns the waiter that ConnPoolStrategy selects, or nil. Called
// with the lock.
func (c *HostClient) nextWaiter() *connWaiter {
	next := c.pool.waiting.Front()
	if c.ConnPoolStrategy == LIFO {
		next = c.pool.waiting.Back()
	}
	if next == nil {
		return nil
	}
	return next.Value.(*connWaiter)
}

// permit gives the permission to open a connection. If the limit is reached, it
// closes an idle connection for that. Called with the lock.
func (p *connPool) permit(limit int) bool {
	if p.open < limit {
		p.open++
		return true
	}
	if len(p.idle) == 0 {
		return false
	}
	go p.takeFirst().close() // closing TLS may wait to send the last alert
	return true
}

// takeFirst removes the connection that has been idle longest. Called with the
// lock.
func (p *connPool) takeFirst() *clientConn {
	cc := p.idle[0]
	p.idle[0] = nil
	p.idle = p.idle[1:]
	return cc
}

// takeLast removes the connection that became idle last. Called with the lock.
func (p *connPool) takeLast() *clientConn {
	last := len(p.idle) - 1
	cc := p.idle[last]
	p.idle[last] = nil
	p.idle = p.idle[:last]
	return cc
}

// push appends a connection to the idle ones. Called with the lock.
func (p *connPool) push(cc *clientConn) {
	if n := len(p.idle); n == cap(p.idle) {
		// idle has reached the end of room. Move it to the start if half of room is
		// free, otherwise to a larger one.
		if n > cap(p.room)/2 || cap(p.room) == 0 {
			p.room = make([]*clientConn, 0, 2*n+2)
		}
		p.idle = append(p.room[:0], p.idle...)
		clear(p.idle[n:cap(p.idle)])
	}
	p.idle = append(p.idle, cc)
}

// isExpired reports whether an idle connection is too old to be used. now is
// the client's and may be up to clockStep old.
func (c *HostClient) isExpired(cc *clientConn, now int64) bool {
	return now-cc.lastUse >= int64(c.maxIdle()-c.clockStep())
}

// acquire returns a connection for a call: an idle one that is open and has no
// unread bytes, or a new one.
func (c *HostClient) acquire(call *clientCall) (*clientConn, error) {
	if c.ConnPoolStrategy != FIFO && c.ConnPoolStrategy != LIFO {
		return nil, ErrConnPoolStrategyNotImpl
	}
	call.phase = PhaseWait
	trace := call.trace
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(c.firstAddr())
	}
	cc, err := c.acquireAny(call)
	if err == nil && trace != nil && trace.GotConn != nil {
		trace.GotConn(GotConnInfo{Conn: cc.c, IsReused: cc.isReused})
	}
	return cc, err
}

// acquireAny is acquire without the trace.
func (c *HostClient) acquireAny(call *clientCall) (*clientConn, error) {
	if err := call.err(); err != nil {
		return nil, err
	}
	cc, full := c.takeIdle(call.isFresh)
	if full {
		var err error
		if cc, err = c.wait(call); err != nil {
			return nil, err
		}
	}
	if cc != nil && !c.isExpired(cc, c.now()) && cc.isQuiet() {
		cc.isReused = true
		return cc, nil
	}
	if cc != nil {
		cc.close() // connect opens a new one in its place
	}
	return c.connect(call)
}

// wait waits for a free connection. It returns a nil connection for the
// permission to open one.
func (c *HostClient) wait(call *clientCall) (*clientConn, error) {
	limit := c.MaxConnWaitTimeout
	if limit <= 0 && call.done() == nil {
		return nil, ErrNoFreeConns
	}
	w := &connWaiter{ready: make(chan struct{}), fresh: call.isFresh}
	if cc, ok := c.enqueue(w); ok {
		return cc, nil
	}
	var expired <-chan time.Time
	left := call.left(limit)
	if left > 0 {
		timer := AcquireTimer(left)
		defer ReleaseTimer(timer)
		expired = timer.C
	}
	select {
	case <-w.ready:
		return w.conn, nil
	case <-call.done():
	case <-expired:
	}
	if !c.pool.abandon(w) {
		<-w.ready // it was served just now
		c.giveBack(w.conn)
	}
	if err := call.err(); err != nil {
		return nil, err
	}
	return nil, ErrNoFreeConns
}

// enqueue makes w wait, unless a connection or a permission has become
// available.
func (c *HostClient) enqueue(w *connWaiter) (cc *clientConn, ok bool) {
	p := &c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case len(p.idle) > 0 && !w.fresh:
		return c.takeNext(), true
	case p.permit(c.maxConns()):
		return nil, true
	}
	w.place = p.waiting.PushBack(w)
	return nil, false
}

// abandon removes w from the queue. It returns false if w was served.
func (p *connPool) abandon(w *connWaiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.place == nil {
		return false
	}
	p.unlist(w)
	return true
}

func (p *connPool) unlist(w *connWaiter) {
	p.waiting.Remove(w.place)
	w.place = nil
}

// giveBack returns what a waiter got: a connection or, for nil, a permission.
func (c *HostClient) giveBack(cc *clientConn) {
	if cc != nil {
		c.release(cc)
		return
	}
	c.closed()
}

// release makes a connection idle, or gives it to a waiter.
func (c *HostClient) release(cc *clientConn) {
	p := &c.pool
	p.mu.Lock()
	w := c.nextWaiter()
	switch {
	case p.open > c.maxConns():
		p.mu.Unlock()
		c.discard(cc)
		return
	case w != nil && w.fresh:
		p.serve(w) // it opens a new connection in place of cc
		p.mu.Unlock()
		cc.close()
		return
	case w != nil:
		cc.lastUse = c.now()
		w.conn = cc
		p.serve(w)
		p.mu.Unlock()
		return
	}
	p.push(cc)
	p.wasUsed = true
	if cc.lastUse = p.ticked.Load(); cc.lastUse == 0 {
		cc.lastUse = clock.Nanos()
		c.startJanitor(cc.lastUse)
	}
	p.mu.Unlock()
}

// startJanitor schedules the janitor, because a connection has become idle.
// Called with the lock.
func (c *HostClient) startJanitor(now int64) {
	p := &c.pool
	step := c.clockStep()
	if step > 0 {
		p.ticked.Store(now)
	} else {
		step = c.maxIdle()
	}
	switch {
	case p.janitor == nil:
		p.janitor = time.AfterFunc(step, c.closeExpired)
	case p.ticked.Load() != 0:
		p.janitor.Reset(step) // it was to run only when the oldest connection expires
	}
}

// serve ends the waiting of w, with w.conn or, if that is nil, with the
// permission to open a connection. Called with the lock.
func (p *connPool) serve(w *connWaiter) {
	p.unlist(w)
	close(w.ready)
}

// closed records that a connection was closed, or that opening one failed. It
// passes the permission to a waiter, if there is one.
func (c *HostClient) closed() {
	p := &c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := c.nextWaiter(); w != nil && p.open <= c.maxConns() {
		p.serve(w)
		return
	}
	p.open--
}

// discard closes a connection and returns its place to the pool.
func (c *HostClient) discard(cc *clientConn) {
	cc.close()
	c.closed()
}

// closeExpired closes the connections that have been idle for too long. The
// janitor's timer calls it.
func (c *HostClient) closeExpired() {
	p := &c.pool
	now := clock.Nanos()
	p.mu.Lock()
	var expired []*clientConn
	kept := p.idle[:0]
	for _, cc := range p.idle {
		if c.isExpired(cc, now) {
			expired = append(expired, cc)
		} else {
			kept = append(kept, cc)
		}
	}
	clear(p.idle[len(kept):])
	p.idle = kept
	c.nextTurn(now)
	p.mu.Unlock()
	for _, cc := range expired {
		c.discard(cc)
	}
}

// nextTurn schedules the next run of the janitor. While connections are used,
// that is after clockStep, so that ticked stays current; otherwise it is when
// the oldest connection expires. Called with the lock.
func (c *HostClient) nextTurn(now int64) {
	p := &c.pool
	wasTicking := p.ticked.Load() != 0
	switch {
	case wasTicking && p.wasUsed:
		p.wasUsed = false
		p.ticked.Store(now)
		p.janitor.Reset(c.clockStep())
	case len(p.idle) == 0:
		p.ticked.Store(0)
		p.janitor = nil
	default:
		p.ticked.Store(0)
		oldest := p.idle[0].lastUse
		for _, cc := range p.idle {
			oldest = min(oldest, cc.lastUse)
		}
		p.janitor.Reset(max(c.maxIdle()-time.Duration(now-oldest), time.Millisecond))
	}
}

// CloseIdleConnections closes the connections that are not in use. It does not
// affect the others, and the HostClient remains usable.
func (c *HostClient) CloseIdleConnections() {
	c.pool.mu.Lock()
	idle := c.pool.idle
	c.pool.idle, c.pool.room = nil, nil
	c.pool.mu.Unlock()
	for _, cc := range idle {
		c.discard(cc)
	}
}

// ConnsCount returns the number of connections, including those that are being
// opened.
func (c *HostClient) ConnsCount() int {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.pool.open
}

// IdleConnsCount returns the number of idle connections.
func (c *HostClient) IdleConnsCount() int {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return len(c.pool.idle)
}

// SetMaxConns changes the maximum number of connections; 0 or less restores
// MaxConns. If it allows more connections, waiting requests open them at once.
// If it allows fewer, idle connections are closed at once and busy ones after
// their requests.
func (c *HostClient) SetMaxConns(newMaxConns int) {
	p := &c.pool
	p.mu.Lock()
	p.limit = max(newMaxConns, 0)
	for p.waiting.Len() > 0 && p.open < c.maxConns() {
		p.open++
		p.serve(c.nextWaiter())
	}
	var surplus []*clientConn
	for p.open-len(surplus) > c.maxConns() && len(p.idle) > 0 {
		surplus = append(surplus, p.takeFirst())
	}
	p.mu.Unlock()
	for _, cc := range surplus {
		c.discard(cc)
	}
}
