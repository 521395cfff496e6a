package http1

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// prefaceLine is the beginning of the preface of HTTP/2 (RFC 9113 section 3.4), as far
// as HTTP/1.1 takes it for a request: it meets version 2.0, which it does not speak.
const prefaceLine = "PRI * HTTP/2.0"

// switchesToHTTP2 reports whether a connection, whose first request the parser has refused
// with err, speaks HTTP/2 by prior knowledge (RFC 9113 section 3.3), and makes its
// successor. in is the input that the parser has not used; the successor gets what came
// before.
func (c *Conn) switchesToHTTP2(in []byte, err error) bool {
	if c.facts.Served != 1 || c.facts.IsTLS {
		return false
	}
	head := c.x.rawHead() // with in at its end, or empty
	if len(head) == 0 {
		head = in
	}
	if !bytes.HasPrefix(head, []byte(prefaceLine)) && !isForeign(head, err) {
		return false
	}
	c.successor = c.host.OpenHTTP2(c.conn, &c.facts, head[:len(head)-len(in)], c.x.start)
	return c.successor != nil
}

// isForeign reports whether the first line of head, which is refused with err, is of another
// protocol: it has no usual method and names HTTP nowhere. Then it is an invalid preface,
// which ends the connection with an error of HTTP/2 (RFC 9113 section 3.4). All else that is
// malformed gets an answer of HTTP/1.1, and so does a line of which only a part is known.
func isForeign(head []byte, err error) bool {
	line, _, isWhole := bytes.Cut(head, []byte("\n"))
	if err != h1.ErrVersion || !isWhole {
		return false
	}
	method, rest, _ := bytes.Cut(line, []byte(" "))
	switch string(method) {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE",
		"PROXY": // a proxy sends the PROXY protocol to a server that does not expect it: its users need a status
		return false
	}
	return !bytes.Contains(rest, []byte("HTTP/"))
}

// giveOver answers, and gives the connection to another protocol. A connection that ends
// with the answer is not given over.
func (c *Conn) giveOver() engine.Next {
	x := c.x
	if !x.request.Respond() {
		return c.abort()
	}
	if left, _ := x.unread(); x.sequel == sequelClose || left != server.BodyRead {
		x.sequel = sequelClose
		return c.afterResponse()
	}
	return c.open()
}

// beginBody sends the head of the response, and gives the connection to the protocol that
// writes the body.
func (c *Conn) beginBody() engine.Next {
	c.x.request.BeginBody()
	return c.open()
}

// open makes the Request's protocol the successor of c.
func (c *Conn) open() engine.Next {
	x := c.x
	c.successor, x.out = x.request.Open(c.conn, x.out)
	if c.successor == nil {
		return c.end(engine.Close)
	}
	c.phase = readGivenOver
	c.tellState(StateHijacked)
	return engine.Switch
}

// Successor implements engine.Switcher.
func (c *Conn) Successor() engine.Protocol {
	next := c.successor
	c.endRequest()
	c.releaseExchange()
	releaseConn(c)
	return next
}
