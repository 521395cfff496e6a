package netconn

import (
	"bytes"
	"net"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// detach takes the connection out of the engine. live then gives it to the protocol.
func (c *conn) detach() net.Conn {
	rest := bytes.Clone(c.Unread)
	c.leave()
	c.phase = phaseDetached
	var ahead func(p []byte) (int, error)
	if r := c.reader; r != nil {
		ahead = func(p []byte) (int, error) { return r.read(p, 0) }
	}
	return engine.WithUnread(c.NetConn(), rest, ahead)
}

// leave makes nc independent of the engine.
func (c *conn) leave() {
	c.Unread = nil
	c.releaseBuffers()
	c.unregister()
	c.clearDeadlines() // after unregister nothing interrupts
}

// A handover is the running DetachIdle. For each connection that is claimed, it gets one
// given.
type handover struct {
	one  sync.Mutex // one DetachIdle at a time
	gets chan given
}

// given is a connection that was given away, or, without nc, one that stays.
type given struct {
	nc     net.Conn
	parcel engine.Parcel
}

// DetachIdle implements engine.Engine. It calls take on the caller's goroutine, after
// Protocol.Closed and Release.
func (d *driver) DetachIdle(limit int, take func(c net.Conn, p engine.Parcel)) int {
	h := &d.handover
	h.one.Lock()
	defer h.one.Unlock()
	h.gets = make(chan given)
	awaited, count := 0, 0
	d.registry.each(func(c *conn) bool {
		if awaited != limit && c.claim() {
			awaited++
			_ = c.nc.SetReadDeadline(past())
		}
		return awaited != limit
	})
	late := time.NewTimer(evictionPatience)
	defer late.Stop()
	for awaited > 0 {
		select {
		case g := <-h.gets:
			if awaited--; g.nc != nil {
				take(g.nc, g.parcel)
				count++
			}
		case <-late.C:
			awaited -= d.unclaim()
		}
	}
	return count
}

// claim claims the connection for DetachIdle, if it waits and may go.
func (c *conn) claim() bool {
	state := c.state.Load()
	return state&(flagWaits|flagFixed|claimed) == flagWaits &&
		c.state.CompareAndSwap(state, state|flagTaken|flagInterrupted)
}

// unclaim lets the claimed connections continue that have not noticed it, and returns
// their number.
func (d *driver) unclaim() (n int) {
	d.registry.each(func(c *conn) bool {
		state := c.state.Load()
		if state&flagTaken != 0 && c.state.CompareAndSwap(state, state&^flagTaken) {
			n++
		}
		return true
	})
	return n
}

// pack packs the protocol of a connection that DetachIdle has claimed. The result false
// means that the connection stays.
func (c *conn) pack() (ok bool) {
	defer func() { // even if Pack panics
		if !ok {
			c.driver.handover.gets <- given{}
		}
	}()
	packed, ok := c.Pack()
	if packed != nil {
		c.packed = &packed
	}
	return ok
}

// giveAway ends the connection's life here for DetachIdle.
func (c *conn) giveAway() {
	var away given // without a connection if a call below panics: end then closes that
	defer func() { c.driver.handover.gets <- away }()
	nc, p := c.nc, c.Parcel(c.takePacked())
	said, _ := engine.ProxiedBy(c.NetConn())
	p.Proxy = engine.HooksOf(c.acceptor).Proxy.Parcel(said)
	if c.reader != nil {
		// The deadline that has ended the wait ends its read, too.
		p.Leftover = append(p.Leftover, c.reader.rest()...)
	}
	c.leave()
	c.conclude()
	away = given{nc, p}
}
