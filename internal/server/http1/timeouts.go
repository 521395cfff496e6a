package http1

import (
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
)

// ownStart gives a request that has to wait for the rest of itself a start of its
// own: the handlers of those before it must not use up its time.
func (c *Conn) ownStart() {
	if c.sharesStart {
		c.sharesStart = false
		c.x.start = clock.Nanos()
	}
}

// armReadDeadline sets how long the engine waits for the rest of a request.
func (c *Conn) armReadDeadline() {
	switch c.phase {
	case readHead:
		if !c.isMidRequest() {
			if c.lacksIdleTime {
				c.setIdleDeadline()
			}
			return
		}
		c.x.isPieced = true
		c.ownStart()
		c.conn.SetReadDeadline(c.x.start, c.cfg.ReadTimeout)
	case readBody, readChunks, readTrailer:
		c.x.isPieced = true
		c.ownStart()
		c.conn.SetReadDeadline(c.x.start, c.x.request.BodyTimeout())
	}
}

// TimedOut answers 408 to a request that did not arrive in time. It closes an
// idle connection without an answer: the client would take one for the answer
// to its next request.
func (c *Conn) TimedOut(out []byte) ([]byte, engine.Next) {
	if !c.isMidRequest() {
		if c.facts.Served == 0 && !c.cfg.AllowsSilence {
			c.host.Fail(server.ErrTimeout)
		}
		// A reset could cost the client the response, or would be no sign that a request
		// which is on its way was not served.
		return out, c.end(engine.CloseLinger)
	}
	c.fail(server.ErrTimeout)
	return c.Run(out)
}

// awaitRequest makes the connection idle.
func (c *Conn) awaitRequest() {
	c.phase, c.sharesStart = readIdle, false
	c.setIdleDeadline()
	c.tellState(StateIdle)
}

func (c *Conn) setIdleDeadline() {
	c.lacksIdleTime = false
	if c.cfg.IdleTimeout > 0 {
		c.conn.SetReadDeadline(clock.Nanos(), c.cfg.IdleTimeout)
	} else {
		c.conn.SetReadDeadline(0, 0)
	}
}
