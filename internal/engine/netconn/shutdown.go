package netconn

import (
	"context"
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// evictionPatience is how long an idle connection may take to notice that its wait was
// interrupted, before the engine assumes that it ignores deadlines.
const evictionPatience = 250 * time.Millisecond

// goodbyePatience is the same for one whose protocol SaysGoodbye. It is longer, because on a busy
// machine many may not have noticed it sooner, and their peers would lose requests.
const goodbyePatience = 5 * time.Second

// Shutdown implements engine.Engine. Listeners that have no SetDeadline are
// closed; the others are left open, with their deadline cleared.
func (d *driver) Shutdown(ctx context.Context) error {
	d.mu.Lock()
	first := d.life.Reach(engine.StageShutDown)
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

// drain does the work of Shutdown, however long it takes.
func (d *driver) drain() {
	// 1. Accept no more. Because of the Stage, Serve refuses to begin.
	servings := d.currentServings()
	for _, s := range servings {
		s.end(nil)
	}
	d.cancel() // handshakes
	// 2. Close what waits between requests. Connections that begin to wait from now on see
	// the Stage.
	d.evictIdle()
	evicted := time.AfterFunc(evictionPatience, func() {
		d.closeDeaf(func(state uint32) bool { return state&flagEvicted != 0 })
	})
	polite := time.AfterFunc(goodbyePatience, func() {
		d.closeDeaf(func(state uint32) bool {
			return state&(flagWaits|flagPartial|flagSaysGoodbye) == flagWaits|flagSaysGoodbye
		})
	})
	// 3. Wait for the others. Serve registers what it has accepted before it returns, so
	// the order of these two matters.
	for _, s := range servings {
		s.wait()
	}
	for !d.registry.end(&d.tasks) {
		<-d.emptied
	}
	evicted.Stop()
	polite.Stop()
	close(d.drained)
}

// tellEmptied wakes drain, which checks for remaining connections and Tasks.
func (d *driver) tellEmptied() {
	if !d.life.Has(engine.StageShutDown) {
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

// evictIdle interrupts the connections that are between requests. It prompts those whose
// protocol SaysGoodbye.
func (d *driver) evictIdle() {
	d.registry.each(func(c *conn) bool {
		state := c.state.Load()
		switch {
		case state&(flagWaits|flagPartial|claimed) != flagWaits:
		case state&flagSaysGoodbye != 0:
			c.Prompter().Prompt()
		case c.state.CompareAndSwap(state, state|flagEvicted):
			_ = setReadDeadline(c.nc, past())
		}
		return true
	})
}

// closeDeaf closes the connections that ignored evictIdle, as their states say.
func (d *driver) closeDeaf(isDeaf func(state uint32) bool) {
	d.registry.each(func(c *conn) bool {
		if isDeaf(c.state.Load()) {
			go func(nc net.Conn) { _ = nc.Close() }(c.nc)
		}
		return true
	})
}

// killAll closes all connections, in whatever state they are. It does not wait for their
// handlers.
func (d *driver) killAll() {
	d.life.Reach(engine.StageKilling) // register sees it from now on
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
