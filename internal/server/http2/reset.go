package http2

import "github.com/sluicehttp/sluice/internal/wire/h2"

func (c *Conn) resetReceived(ev *h2.Event, now int64) *h2.Error {
	s := c.streams.find(ev.Stream)
	if s == nil {
		if ev.Stream > c.newest {
			return h2.ErrIdleStream
		}
		return c.budget.Charge(now, h2.CostIgnored)
	}
	cost := h2.Cost(h2.CostReset)
	if s.output >= outputLast {
		cost = h2.CostIgnored // the request was answered, or the stream reset before
	}
	if s.output != outputReset {
		c.gauge.resets.Add(1)
		c.endings.set(s.id, endedByPeer)
	}
	s.setCause(cancelled(ev.Code))
	c.breakStream(s)
	return c.budget.Charge(now, cost)
}

// streamFailed acts on a frame that is wrong for one stream.
func (c *Conn) streamFailed(id uint32, err *h2.Error, now int64) *h2.Error {
	if s := c.streams.find(id); s != nil && s.output != outputReset {
		return c.resetByUs(s, err, now)
	}
	switch {
	case id > c.newest, id&1 == 0: // RST_STREAM must not be sent for it
		return err
	case c.endings.of(id) != endedByUs:
		c.refuseStream(id, err)
	}
	return c.budget.Charge(now, h2.CostReset)
}

// sendReset appends RST_STREAM.
func (c *Conn) sendReset(id uint32, code h2.Code) {
	c.out = h2.AppendReset(c.out, id, code)
	c.gauge.resets.Add(1)
}

// resetByUs resets s because of err, a fault of the peer.
func (c *Conn) resetByUs(s *Stream, err *h2.Error, now int64) *h2.Error {
	s.setCause(err)
	c.reset(s, err.Code)
	return c.budget.Charge(now, h2.CostReset)
}

// reset resets s.
func (c *Conn) reset(s *Stream, code h2.Code) {
	if s.output == outputReset {
		return
	}
	c.sendReset(s.id, code)
	c.endings.set(s.id, endedByUs)
	if s.input == inputStreamed {
		c.budget.Abandon(s.window.Left())
	}
	c.breakStream(s)
}

// breakStream ends both directions of s, and wakes its Task.
func (c *Conn) breakStream(s *Stream) {
	if s.output == outputReset {
		return
	}
	c.ready.Remove(&s.node)
	s.output, s.input = outputReset, inputEnded
	if s.owner == ownerAdmission {
		s.owner = ownerConn
		c.deferred--
	}
	s.isReset.Store(true)
	c.held -= len(s.held)
	if s.held, s.last = s.held[:0], nil; s.streamConn != nil {
		s.held = s.emptied(&s.heldBuffer, s.held)
	}
	if s.onGone != nil {
		s.onGone()
		s.onGone = nil
	}
	s.notify()
	c.room.Broadcast() // its Task may wait there
	c.removeIfOver(s)
}

// malformed resets s because of its field list.
func (c *Conn) malformed(s *Stream, err *h2.Error, now int64) *h2.Error {
	c.reset(s, err.Code)
	return c.budget.Charge(now, h2.CostMalformed)
}
