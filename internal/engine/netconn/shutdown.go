package netconn

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// evictionPatience is how long an idle connection may take to notice that its
// wait was interrupted. After that it is taken for one that ignores deadlines.
const evictionPatience = 250 * time.Millisecond

// Shutdown implements engine.Engine. Listeners that have no SetDeadline are
// closed; the others are left open, with their deadline cleared.
func (d *driver) Shutdown(ctx context.Context) error {
	d.closeRequested.Store(true)
	d.mu.Lock()
	first := d.closing.CompareAndSwap(false, true)
	d.mu.Unlock()
	if first {
		go d.drain()
	}
	select {
	case <-d.drained:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-d.drained:
		return nil
	default:
		d.killAll()
		return ctx.Err()
	}
}

// drain carries a Shutdown out, however long it takes.
func (d *driver) drain() {
	// 1. Accept no more. New servings are refused since closing is set.
	servings := d.currentServings()
	for _, s := range servings {
		s.end(nil)
	}
	d.cancel() // handshakes
	// 2. Close what waits between requests. Whoever comes to wait from now on
	// sees closing.
	d.evictIdle()
	timer := time.AfterFunc(evictionPatience, d.closeEvicted)
	// 3. Wait for the others. A worker that is accepting registers what it got
	// before it is counted out, so the order of these two matters.
	for _, s := range servings {
		<-s.gone
	}
	for d.registry.open.Load() > 0 || !d.tasks.end() {
		<-d.emptied
	}
	timer.Stop()
	close(d.drained)
}

// tellEmptied wakes drain, which checks for remaining connections and Tasks.
func (d *driver) tellEmptied() {
	if !d.closing.Load() {
		return
	}
	select {
	case d.emptied <- struct{}{}:
	default:
	}
}

// currentServings returns the calls of Serve that have not returned.
func (d *driver) currentServings() []*serving {
	d.mu.Lock()
	defer d.mu.Unlock()
	servings := make([]*serving, 0, len(d.servings))
	for s := range d.servings {
		servings = append(servings, s)
	}
	return servings
}

// evictIdle interrupts the connections that are between requests.
func (d *driver) evictIdle() {
	d.registry.each(func(c *conn) bool {
		if c.state.CompareAndSwap(stateIdle, stateEvicted) {
			_ = setReadDeadline(c.nc, past())
		}
		return true
	})
}

// closeEvicted closes the connections that ignored evictIdle.
func (d *driver) closeEvicted() {
	d.registry.each(func(c *conn) bool {
		if c.state.Load() == stateEvicted {
			go func(nc net.Conn) { _ = nc.Close() }(c.nc)
		}
		return true
	})
}

// killAll ends all connections, in whatever state they are. Nobody waits for
// their handlers.
func (d *driver) killAll() {
	d.killing.Store(true) // who is registered from now on sees it
	d.registry.each(func(c *conn) bool {
		c.kill()
		return true
	})
	d.tasks.loseQueued()
}

// kill is called with c registered, on any goroutine.
func (c *conn) kill() {
	c.killed.Store(true)
	go func(nc net.Conn) { _ = nc.Close() }(c.nc)
}

// handover is DetachIdle's side of giving connections away.
type handover struct {
	one  sync.Mutex // one DetachIdle at a time
	mu   sync.Mutex
	got  []given
	more chan struct{} // told when got grows
}

// given is a connection that was given away, or, without nc, one that stays.
type given struct {
	nc     net.Conn
	parcel engine.Parcel
}

// DetachIdle implements engine.Engine. take is called on the caller's
// goroutine, after Protocol.Closed and Release.
func (d *driver) DetachIdle(limit int, take func(c net.Conn, p engine.Parcel)) int {
	h := &d.handover
	h.one.Lock()
	defer h.one.Unlock()
	more := make(chan struct{}, 1)
	h.mu.Lock()
	h.more = more
	h.mu.Unlock()
	awaited := 0
	d.registry.each(func(c *conn) bool {
		if awaited == limit {
			return false
		}
		if c.take() {
			awaited++
			c.poked.Store(true)
			_ = c.nc.SetReadDeadline(past())
		}
		return true
	})
	timer := time.NewTimer(evictionPatience)
	defer timer.Stop()
	expired := timer.C
	for count := 0; ; {
		for _, g := range h.collect() {
			if g.nc == nil {
				awaited--
				continue
			}
			take(g.nc, g.parcel)
			count++
		}
		if count >= awaited {
			return count
		}
		select {
		case <-more:
		case <-expired:
			expired = nil
			awaited -= d.untake()
		}
	}
}

// take claims the connection for DetachIdle, if it waits and may go.
func (c *conn) take() bool {
	if !c.mayGo.Load() {
		return false
	}
	from, to := stateIdle, stateTaken
	if !c.state.CompareAndSwap(from, to) {
		if from, to = stateHead, stateTakenHead; !c.state.CompareAndSwap(from, to) {
			return false
		}
	}
	if c.mayGo.Load() {
		return true
	}
	c.state.CompareAndSwap(to, from) // it has switched between the looks at it
	return false
}

// collect returns the connections that were given away since the last call.
func (h *handover) collect() []given {
	h.mu.Lock()
	defer h.mu.Unlock()
	got := h.got
	h.got = nil
	return got
}

// untake lets the connections go on that did not notice that they were wanted,
// and returns their number.
func (d *driver) untake() int {
	n := 0
	d.registry.each(func(c *conn) bool {
		if c.state.CompareAndSwap(stateTaken, stateIdle) || c.state.CompareAndSwap(stateTakenHead, stateHead) {
			n++
		}
		return true
	})
	return n
}

// giveAway ends the connection's life here for DetachIdle.
func (c *conn) giveAway() {
	d, nc := c.driver, c.nc
	p := c.Parcel(c.packed)
	if c.reader != nil {
		// The deadline that ended the wait ends its read, too.
		p.Leftover = append(p.Leftover, c.reader.rest()...)
	}
	c.leave()
	c.conclude()
	d.handover.give(given{nc, p})
}

// give passes g to DetachIdle.
func (h *handover) give(g given) {
	h.mu.Lock()
	h.got = append(h.got, g)
	more := h.more
	h.mu.Unlock()
	select {
	case more <- struct{}{}:
	default:
	}
}

// goes decides whether DetachIdle gets the connection that it has claimed.
func (c *conn) goes() bool {
	if !c.mayGo.Load() {
		return false // take gives up, too
	}
	packed, ok := c.Pack()
	if !ok {
		c.driver.handover.give(given{})
	}
	c.packed = packed
	return ok
}
