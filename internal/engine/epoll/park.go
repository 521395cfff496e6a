//go:build linux && (amd64 || arm64)

package epoll

import "github.com/sluicehttp/sluice/internal/engine"

// park lets go of the connection, which has nothing to do. True: it is nobody's,
// or somebody else's already; c must not be touched. False: it has something to
// do after all.
func (c *conn) park() bool {
	if err := c.add(); err != nil {
		c.fail(err)
		c.end(engine.Abort)
		return true
	}
	parked := c.preparePark()
	if c.slot().has(flagInput|flagKill) && !c.isBlocked {
		return false
	}
	isFree := parked == 0 && c.sleep() && !c.isPinned
	if parked == 0 {
		c.slim()
	}
	expiry := c.setExpiry()

	w, s, d, fd := c.worker, c.slot(), c.driver, c.fd
	c.detach()
	if isFree {
		c.hide()
	} else {
		c.show()
	}
	gen, tls := c.gen, c.tlsConn
	if isFree && tls != nil {
		tls.conn = nil
	}
	if !s.release(parked) {
		if tls != nil {
			tls.conn = c
		}
		c.attach(w)
		return false
	}
	// From here on the connection may be at work elsewhere.
	if expiry != 0 {
		// Also if it has not moved: the sweep may have passed over the
		// connection while it was at work.
		d.sweep.schedule(expiry)
	}
	if isFree {
		c.reset()
		w.keep(c)
	}
	if d.closing.Load() && parked == 0 {
		// Shutdown sets closing before it looks for idle connections: it sees
		// this one idle, or this one sees closing.
		if is(s.word.Load(), gen) && s.claimIdle(flagEvict) {
			d.loopOf(fd).queue.push(int32(fd))
		}
	}
	return true
}

// slim drops what an idle connection can do without, and gets again when it asks
// for it.
func (c *conn) slim() {
	if c.signals.Load() != nil {
		c.signals.Store(nil)
	}
	if c.driver.options.PlainOnly {
		return // the view is known to somebody
	}
	c.view = nil
	if c.tlsConn != nil {
		c.tlsConn.view = nil
	}
}

// preparePark finds out how the connection is going to wait.
func (c *conn) preparePark() (parked uint64) {
	if c.isBlocked {
		return flagPartial | flagBlocked | flagFixed
	}
	if c.isLingering || c.isSilent {
		return flagPartial | flagFixed
	}
	if c.isFed {
		c.isFed = false
		c.isPartial = !c.brain().Pause()
	}
	if !c.isPartial {
		return 0
	}
	if r, ok := c.protocol.(engine.Rewinder); ok && r.CanRewind() {
		return flagPartial
	}
	return flagPartial | flagFixed
}

// sleep puts the protocol of an idle connection to sleep, if it can.
func (c *conn) sleep() bool {
	if c.protocol == nil {
		return c.isOpen
	}
	if c.serving.waker == nil {
		return false
	}
	s, ok := c.protocol.(engine.Sleeper)
	if !ok {
		return false
	}
	c.slot().memo = s.Sleep()
	c.protocol = nil
	return true
}

// setExpiry notes in the slot until when the connection waits, and returns it.
func (c *conn) setExpiry() (expiry uint32) {
	s := c.slot()
	if c.isBlocked {
		c.readDeadline() // what the slot says is needed later
	}
	was := s.expiry.Load()
	at := was
	switch {
	case c.isBlocked:
		at = expiryOf(c.writeBy)
	case c.isLingering:
		at = expiryOf(c.lingerBy)
	case c.isDated:
		at = expiryOf(c.deadline)
	}
	if at != was {
		s.expiry.Store(at)
	}
	return at
}
