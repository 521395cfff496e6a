package sluice

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/engine"
)

// prefaceLine is the beginning of the preface of HTTP/2 (RFC 9113 section 3.4), as far
// as HTTP/1.1 takes it for a request: it meets version 2.0, which it does not speak.
const prefaceLine = "PRI * HTTP/2.0"

// switchesToHTTP2 tells whether a connection, whose first request the parser has refused,
// speaks HTTP/2 by prior knowledge (RFC 9113 section 3.3), and makes its successor. in is
// the input that the parser has not used; the successor gets what came before.
func (c *http1Conn) switchesToHTTP2(in []byte) bool {
	if c.served != 1 || c.facts.isTLS {
		return false
	}
	head := c.x.rawHead() // with in at its end, or empty
	if len(head) == 0 {
		head = in
	}
	if !bytes.HasPrefix(head, []byte(prefaceLine)) || !c.cfg.speaksHTTP2(c.server) {
		return false
	}
	begun := head[:len(head)-len(in)]
	successor := (&acceptor{server: c.server, cfg: c.cfg}).openHTTP2(c.conn, c.facts, begun)
	successor.isActive = true // as begin has told
	c.successor = successor
	return true
}

// giveOver answers, and gives the connection to the protocol of RequestCtx.TakeOver. A
// connection that ends with the answer is not given over.
func (c *http1Conn) giveOver() engine.Next {
	x := c.x
	t := x.ctx.takeover
	writesBody := t.WritesBody && x.ctx.mayBeginBody()
	if writesBody && !x.ctx.beginBody() || !writesBody && !x.ctx.respond() {
		return c.abort()
	}
	if !writesBody && (x.closes || t.WritesBody || x.ctx.requestStream.isUnread()) {
		x.closes = true
		return c.afterResponse()
	}
	c.successor, x.out = t.Open(t.host, c.conn, x.out)
	if c.successor == nil {
		return c.drop()
	}
	c.phase = readGivenOver
	c.tellState(StateHijacked)
	return engine.Switch
}

// mayBeginBody tells whether another protocol can write the body of the response.
func (ctx *RequestCtx) mayBeginBody() bool {
	return ctx.verb != verbHead && ctx.Response.StatusCode() == StatusOK && ctx.Response.stream == nil &&
		!ctx.requestStream.isUnread() && !ctx.server.closeRequested()
}

// beginBody sends the response up to what its body has until now. The connection ends
// with the body.
func (ctx *RequestCtx) beginBody() bool {
	if ctx.phase != phaseFlushed {
		ctx.Response.Header.m.HasLength = false
		ctx.Response.Header.m.IsHTTP10 = false // only the request decides about chunks
		ctx.flushHead()
	}
	return ctx.exchange.SendData(ctx.Response.bodyBytes(), false)
}

// Successor implements engine.Switcher.
func (c *http1Conn) Successor() engine.Protocol {
	next := c.successor
	c.endRequest()
	c.releaseExchange()
	releaseHTTP1Conn(c)
	return next
}
