package http1

import (
	"net"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
)

// hijack answers, unless the handler did, and makes the engine hand the
// connection over. A connection that ends with the answer is not handed over.
func (c *Conn) hijack(outcome server.Outcome) engine.Next {
	x := c.x
	if left, err := x.unread(); left != server.BodyRead && !(x.mayDrain(left, err) && x.drainNow()) {
		return c.end(engine.CloseLinger)
	}
	if outcome == server.OutcomeSilent {
		server.Add(c.cfg.Meter.Informational, 1) // as the status that the hijack handler sends is unknown
		return engine.Detach
	}
	if x.sequel != sequelClose {
		x.sequel = sequelHijack
	}
	return c.respond()
}

// Detached runs the hijack handler; see engine.Protocol.
func (c *Conn) Detached(conn net.Conn) {
	c.phase = readHijacked
	c.cfg.Hijacked.Add(1)
	handler, _ := c.x.request.Hijacker()
	c.tellState(StateHijacked)
	c.endRequest()
	c.releaseExchange()
	if !c.host.RunHijacked(conn, handler) {
		conn.Close()
	}
}
