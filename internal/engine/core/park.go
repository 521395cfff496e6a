//go:build linux && (amd64 || arm64)

package core

import "github.com/sluicehttp/sluice/internal/engine"

// park releases a connection that has nothing to do. If it returns true, the
// connection is idle, has ended, was claimed again, or is in a batch; c must not be used. If it
// returns false, the connection has something to do, and the worker still owns it.
// long: the steps of package core's table, in their order, as each request takes them
func (c *conn) park() bool {
	s := c.slot()
	if !s.has(flagAdded) { // once; the call would cost every request
		if err := c.add(); err != nil {
			c.Fail(err)
			c.end(engine.Abort)
			return true
		}
	}
	var parked uint64
	if !c.isUsual || c.Pause() {
		parked = c.preparePark()
	}
	if c.isHeld && (parked != 0 || s.has(flagInput|flagPrompt|flagKill)) {
		c.sendHeld()
		if c.Err != nil {
			c.end(engine.Abort)
			return true
		}
		parked = c.preparePark()
	}
	if s.has(flagInput|flagKill) && !c.isBlocked() {
		return false
	}
	isFree := c.wait == waitHello
	if parked == 0 {
		if c.isReceiver() {
			parked = flagReceives
		}
		if c.isReused { // sleep; the call would cost every request
			c.retire()
			isFree = true
		} else {
			isFree = isFree || c.sleep() && !c.driver.options.NetConnIsKept
		}
		if !c.isUsual {
			c.slim(isFree)
		}
	}
	expiry := s.expiry.Load()
	if !c.isUsual || c.isDated && (c.deadline != 0 || expiry != 0) {
		expiry = c.setExpiry()
	}
	if c.isHeld {
		c.hold(parked, isFree, expiry)
		return true
	}

	w, d, fd := c.worker, c.driver, c.fd
	if !isFree || !c.isUsual { // otherwise rest does it
		c.detach()
	}
	if isFree {
		c.hide()
	} else {
		c.show()
	}
	gen := c.gen
	switch {
	case c.tlsConn == nil:
	case isFree:
		c.place.rest(c.tlsConn)
	default:
		d.cooler.add(c.tlsConn)
	}
	if !s.release(parked) {
		if c.tlsConn != nil {
			c.bindTLS()
		}
		c.attach(w)
		return false
	}
	// From here on another worker may own the connection.
	if isFree {
		w.keep(c)
	}
	if expiry != 0 || d.life.Has(engine.StageShutDown) { // the call would cost every request
		d.released(fd, s, gen, expiry)
	}
	return true
}

// letGo makes a claimed connection idle, with the flags parked, until the tick expiry. The
// result false means that something has happened to it meanwhile, and the caller must queue it.
func (d *driver) letGo(fd int, s *slot, parked uint64, gen, expiry uint32) bool {
	if !s.release(parked) {
		return false
	}
	d.released(fd, s, gen, expiry)
	return true
}

// released does what follows the release of a connection that waits until the tick
// expiry. Another goroutine may own the connection by now.
func (d *driver) released(fd int, s *slot, gen, expiry uint32) {
	if expiry != 0 {
		// Even if expiry is unchanged: the sweep may have skipped the connection
		// while it was busy.
		d.sweep.schedule(expiry)
	}
	// Shutdown reaches StageShutDown before it looks for idle connections. So either it
	// finds this connection idle, or the Stage is seen here.
	if d.life.Has(engine.StageShutDown) && is(s.word.Load(), gen) && s.claimIdle(flagEvict) {
		d.loopOf(s).queue.push(int32(fd))
	}
}

// slim drops what an idle connection does not need; it is made again on demand. If the conn is
// free, the next connection needs some of it.
func (c *conn) slim(isFree bool) {
	if !isFree && c.signals.Load() != nil {
		c.signals.Store(nil)
	}
	if c.driver.options.NetConnIsKept {
		return // the user may have retained the view
	}
	c.view = nil
	if c.tlsConn != nil {
		c.tlsConn.view = nil
	}
}

// preparePark returns the flags that say how the connection will wait.
func (c *conn) preparePark() (parked uint64) {
	if c.isBlocked() {
		parked = flagPartial | flagBlocked | flagFixed
		if c.TakesInput() {
			parked |= flagDuplex
		}
		return parked
	}
	switch {
	case c.phase == phaseFresh:
		return flagPartial
	case c.phase == phaseLingering || c.wait == waitHello:
		return flagPartial | flagFixed
	}
	switch {
	case !c.Pause():
		return 0
	case c.CanRewind():
		return flagPartial
	}
	return flagPartial | flagFixed
}

// sleep puts the protocol of an idle connection to sleep, if it can and wants to.
func (c *conn) sleep() bool {
	if c.Protocol == nil {
		return c.phase >= phaseOpen
	}
	if !c.Can.Has(engine.CanSleep) {
		return false
	}
	if c.Can.Has(engine.CanReuse) && c.worker.spare == nil && !c.driver.options.NetConnIsKept {
		c.releaseRetired() // it is of another kind, or the last connection did not need it
		c.retired = retired{c.Protocol, c.Protocol.(engine.Reusable), c.Can, c.serving}
		c.retire()
		return true
	}
	memo, ok := c.Protocol.(engine.Sleeper).Sleep()
	if ok {
		c.slot().memo, c.Protocol = memo, nil
	}
	return ok
}

// retire puts retired.protocol to sleep, which is the Protocol.
func (c *conn) retire() {
	c.slot().memo = c.retired.reusable.Retire()
	c.Protocol, c.isReused = nil, false
}

// releaseRetired gives a Protocol that sleeps in c back.
func (c *conn) releaseRetired() {
	if c.retired.serving != nil {
		c.retired.reusable.Release()
		c.retired = retired{}
	}
}

// setExpiry stores in the slot the tick until which the connection waits, and
// returns it.
func (c *conn) setExpiry() (expiry uint32) {
	s := c.slot()
	if c.isBlocked() {
		c.readDeadline() // saves the read deadline, because the slot gets another one
	}
	was := s.expiry.Load()
	at := was
	switch {
	case c.isBlocked():
		at = expiryOf(c.writeBy)
	case c.phase == phaseLingering:
		at = expiryOf(c.lingerBy)
	case c.isDated:
		at = expiryOf(c.deadline)
	}
	if at != was {
		s.expiry.Store(at)
	}
	return at
}
