package sluice

import (
	"net"
	"runtime/debug"

	"github.com/sluicehttp/sluice/internal/engine"
)

// hijack answers, unless the handler did, and makes the engine hand the
// connection over. A connection that ends with the answer is not handed over.
func (c *http1Conn) hijack() engine.Next {
	x := c.x
	ctx := x.ctx
	if ctx.requestStream.isUnread() && !x.drainNow() {
		c.phase = readClosed
		c.endRequest()
		return engine.CloseLinger
	}
	if ctx.hijackNoResponse {
		if m := c.cfg.meter; m != nil {
			m.countStatus(StatusSwitchingProtocols) // as the status that the hijack handler sends is unknown
		}
		c.cfg.retain()
		return engine.Detach
	}
	if ctx.phase == phaseFlushed && !x.closes {
		c.cfg.retain()
		return engine.Detach // the hijack handler writes what follows the head
	}
	return c.respond()
}

// Detached runs the hijack handler; see engine.Protocol.
func (c *http1Conn) Detached(conn net.Conn) {
	c.phase = readHijacked
	c.server.gauges.hijacked.Add(1)
	handler := c.x.ctx.hijackHandler
	c.tellState(StateHijacked)
	c.endRequest()
	c.releaseExchange()
	defer func() {
		if v := recover(); v != nil {
			c.cfg.logger.Printf("panic in hijack handler: %v\n%s", v, debug.Stack())
			conn.Close()
		}
	}()
	handler(conn)
	if !c.cfg.keepHijacked {
		conn.Close()
	}
}
