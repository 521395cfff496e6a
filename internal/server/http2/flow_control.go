package http2

import "github.com/sluicehttp/sluice/internal/wire/h2"

func (c *Conn) windowReceived(ev *h2.Event, now int64) *h2.Error {
	if ev.Stream == 0 {
		if !c.sendWindow.Add(ev.Value) {
			return h2.ErrWindowOverflow
		}
		return c.budget.ChargeUpdate(now, ev.Value)
	}
	s := c.streams.find(ev.Stream)
	if s == nil {
		if ev.Stream > c.newest {
			return h2.ErrIdleStream
		}
		return c.budget.ChargeEcho(now, h2.CostIgnored) // of a stream that has ended
	}
	if !s.sendWindow.Add(ev.Value) {
		return c.resetByUs(s, h2.ErrStreamWindowOverflow, now)
	}
	c.schedule(s)
	return c.budget.ChargeUpdate(now, ev.Value)
}

// consumed counts n received bytes as used, on the connection. They are used when they
// arrive: what a stream holds, its own window bounds.
func (c *Conn) consumed(n int, now int64) {
	c.window.Consumed(uint32(n))
	c.credit(now)
}

// credit returns credit of the connection to the peer if enough is due.
func (c *Conn) credit(now int64) { c.out = c.growth.AppendCredit(c.out, 0, &c.window, now) }

// consumedOf counts n bytes as used on s, and returns credit if enough is due.
func (c *Conn) consumedOf(s *Stream, n int, now int64) {
	if s.window.Consumed(uint32(n)); s.input != inputEnded {
		c.out = c.growth.AppendCredit(c.out, s.id, &s.window, now)
	}
}

// makeRoom returns credit for what of the body of s was declared and has not arrived yet.
func (c *Conn) makeRoom(s *Stream) {
	if s.input != inputEnded {
		c.out = c.growth.AppendRoom(c.out, s.id, &s.window, s.declared-s.received)
	}
}
