package sluice

import (
	"net"
	"runtime/debug"

	"github.com/sluicehttp/sluice/internal/engine"
)

// hijack answers, unless the handler did, and makes the engine hand the
// connection over. A connection that ends with the answer is not handed over.
func (c *serverConn) hijack() engine.Next {
	ctx := c.ctx
	if ctx.requestStream.isUnread() && !ctx.requestStream.drainNow() {
		c.state = readClosed
		c.endRequest()
		return engine.CloseLinger
	}
	if ctx.hijackNoResponse {
		c.countStatus(StatusSwitchingProtocols) // as the status that the hijack handler sends is unknown
		c.cfg.retain()
		return engine.Detach
	}
	if ctx.hasFlushed && !ctx.flushed.closeConnection {
		c.cfg.retain()
		return engine.Detach // the hijack handler writes what follows the head
	}
	return c.respond(c.persists())
}

// Detached runs the hijack handler; see engine.Protocol.
func (c *serverConn) Detached(conn net.Conn) {
	c.isHijacked = true
	c.server.gauges.hijacked.Add(1)
	handler := c.ctx.hijackHandler
	c.tellState(StateHijacked)
	c.endRequest()
	if c.ctx != nil {
		c.server.releaseCtx(c.ctx)
		c.ctx = nil
	}
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

// alpnConn is the engine.Protocol of a connection that negotiated another
// protocol than HTTP/1.1. It passes the connection to its ServeHandler before
// anything is read.
type alpnConn struct {
	server  *serverConn
	handler ServeHandler
}

// Start implements engine.Starter.
func (a *alpnConn) Start() engine.Next { return engine.Detach }

// Feed implements engine.Protocol; nothing is fed before Detached.
func (a *alpnConn) Feed([]byte) (int, engine.Next) { return 0, engine.Detach }

// Run implements engine.Protocol; there is nothing to run.
func (a *alpnConn) Run(out []byte) ([]byte, engine.Next) { return out, engine.Detach }

// Pause implements engine.Protocol.
func (a *alpnConn) Pause() bool { return false }

// HalfClosed implements engine.Protocol.
func (a *alpnConn) HalfClosed(out []byte) []byte { return out }

// TimedOut implements engine.Protocol.
func (a *alpnConn) TimedOut(out []byte) ([]byte, engine.Next) { return out, engine.Abort }

// Detached runs the ServeHandler.
func (a *alpnConn) Detached(conn net.Conn) {
	c := a.server
	defer func() {
		if v := recover(); v != nil {
			c.cfg.logger.Printf("panic in protocol handler: %v\n%s", v, debug.Stack())
		}
		conn.Close()
	}()
	if err := a.handler(conn); err != nil {
		c.cfg.fail(err)
		c.logError(err)
	}
}

// Closed implements engine.Protocol.
func (a *alpnConn) Closed(err error) { a.server.Closed(err) }
