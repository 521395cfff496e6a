package sluice

import (
	"bytes"
	"errors"
	"net"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/h1"
	"github.com/sluicehttp/sluice/internal/meter"
)

// A http1Phase is what a connection expects next. A request goes down the list
// from readIdle, skips the phases that it has no use for, and reaches readReady,
// from which runHandler leads to readDrain, readIdle, readClosed or
// readHijacked. Every phase before readReady may lead to readFailed, and every
// phase to readClosed.
type http1Phase uint8

const (
	readIdle      http1Phase = iota // the first byte of a request
	readHead                        // more of a head
	readDecide                      // no input: callbacks decide about the body
	readBody                        // a body of known length
	readChunks                      // a chunked body
	readTrailer                     // the trailer section after a chunked body
	readReady                       // no input: the request is ready for the handler
	readFailed                      // no input: the request is answered with an error
	readDrain                       // the unread rest of a streamed body
	readClosed                      // no input: the connection ends
	readHijacked                    // no input: a hijack handler owns the connection
	readGivenOver                   // no input: successor is about to have the connection
)

// http1Conn implements HTTP/1.1 on one server connection: it is the
// engine.Protocol between an engine and the handlers. The policy about
// connections (RFC 9112 section 9) is here and in http1_respond.go: a connection
// is reused only if the request's body was read to its verified end.
//
// The state of a request is in x, which is attached from the first byte of a
// request until the engine pauses. An idle connection holds only this struct;
// on engines that call Sleep it does not hold that either.
type http1Conn struct {
	conn      engine.Conn
	ownedConn net.Conn // use netConnection
	server    *Server
	cfg       *serverConfig
	x         *http1Exchange
	successor engine.Protocol // after engine.Switch
	served    uint64          // requests begun
	facts     connFacts
	phase     http1Phase
	// sharesStart: the request was read together with the one before, and has its
	// start. Reading the clock again would cost a pipelined request 6 % of its time.
	sharesStart bool
	// isWoken: the engine has connections sleep, so it calls Sleep after Pause.
	isWoken bool
}

// openHTTP1 returns the Protocol of a connection; the caller sets its facts.
func (a *acceptor) openHTTP1(conn engine.Conn) *http1Conn {
	c := acquireHTTP1Conn()
	c.conn, c.server, c.cfg = conn, a.server, a.cfg
	return c
}

// netConnection returns the underlying connection. Unlike conn, it is valid for
// as long as c. It is created on demand, because an engine may have to build
// it. While a handler runs, call it with the wire of the RequestCtx locked.
func (c *http1Conn) netConnection() net.Conn {
	if c.ownedConn == nil {
		c.ownedConn = c.conn.NetConn()
	}
	return c.ownedConn
}

// tellState calls Server.ConnState.
func (c *http1Conn) tellState(state ConnState) {
	if c.cfg.connState != nil { // so that the compiler inlines the usual case
		c.callConnState(state)
	}
}

func (c *http1Conn) callConnState(state ConnState) { c.cfg.connState(c.netConnection(), state) }

// Capabilities names what the engine may use; see engine.Protocol.
func (c *http1Conn) Capabilities() engine.Capabilities {
	return engine.CanRewind | engine.CanSleep | engine.CanSwitch
}

// Feed consumes input; see engine.Protocol.
func (c *http1Conn) Feed(in []byte) (used int, next engine.Next) {
	used, next = c.feed(in)
	if m := c.cfg.meter; m != nil {
		meter.Add(m.BytesRead, used)
	}
	return used, next
}

func (c *http1Conn) feed(in []byte) (used int, next engine.Next) {
	for used < len(in) {
		if c.phase == readIdle {
			c.begin()
		}
		n, next := c.step(in[used:])
		used += n
		if next != engine.Read {
			return used, next
		}
	}
	c.armReadDeadline()
	return used, engine.Read
}

// step consumes input up to the next change of state.
func (c *http1Conn) step(in []byte) (used int, next engine.Next) {
	switch c.phase {
	case readHead:
		return c.stepHead(in)
	case readBody:
		return c.stepBody(in)
	case readChunks:
		return c.stepChunks(in)
	case readTrailer:
		return c.stepTrailer(in)
	case readDrain:
		return c.stepDrain(in)
	}
	return 0, engine.Close
}

// begin starts a request.
func (c *http1Conn) begin() {
	c.prepareExchange()
	c.served++
	start := c.x.ctx.start
	if !c.sharesStart {
		start = clock.Nanos()
	}
	c.x.ctx.begin(c.served, start)
	c.x.parser.Reset()
	c.phase = readHead
	c.tellState(StateActive)
}

// prepareExchange gives c an exchange, unless it has one: from the request before, or
// from the connection that had c before, which was mostly one of the same server.
func (c *http1Conn) prepareExchange() {
	if c.x != nil && c.x.ctx.cfg == c.cfg {
		c.x.ctx.facts = c.facts
		return
	}
	c.releaseExchange()
	c.x = acquireHTTP1Exchange(c)
}

// ownStart gives a request that has to wait for the rest of itself a start of its
// own: the handlers of those before it must not use up its time.
func (c *http1Conn) ownStart() {
	if c.sharesStart {
		c.sharesStart = false
		c.x.ctx.start = clock.Nanos()
	}
}

// unbegin reverts begin: the input did not start a request.
func (c *http1Conn) unbegin() {
	c.served--
	c.endRequest()
	c.awaitRequest()
}

func (c *http1Conn) stepHead(in []byte) (int, engine.Next) {
	x := c.x
	h := &x.ctx.Request.Header
	used, done, err := x.parser.Parse(&h.m.Table, in)
	if err != nil {
		if c.switchesToHTTP2(in) {
			return 0, engine.Switch
		}
		return 0, c.fail(err)
	}
	if !done {
		return used, engine.Read
	}
	h.m.SetParsed(&x.parser.Head)
	return used, c.headComplete()
}

// headComplete decides what follows a head.
func (c *http1Conn) headComplete() engine.Next {
	x := c.x
	if err := x.ctx.headComplete(x.parser.Minor == 0); err != nil {
		return c.fail(err)
	}
	if c.cfg.headerReceived != nil || x.parser.Has(h1.ExpectContinue) {
		c.phase = readDecide
		return engine.Run
	}
	return c.expectBody()
}

// expectBody prepares to read the body that the head announces.
func (c *http1Conn) expectBody() engine.Next {
	x := c.x
	length := x.bodyLength()
	x.bodyLeft = length
	if length == 0 {
		x.ctx.Request.Header.m.SettleLength()
		c.phase = readReady
		return engine.Run
	}
	isStreamed, err := x.ctx.expectBody(length)
	if err != nil {
		return c.fail(err)
	}
	c.phase = readBody
	if length < 0 {
		x.chunks = h1.Chunked{}
		c.phase = readChunks
	}
	if isStreamed {
		c.ownStart()
		c.phase = readReady
		return engine.Run
	}
	return engine.Read
}

func (c *http1Conn) stepBody(in []byte) (int, engine.Next) {
	x := c.x
	if int64(len(in)) > x.bodyLeft {
		in = in[:x.bodyLeft]
	}
	if err := x.ctx.keepBody(in); err != nil {
		return 0, c.fail(err)
	}
	x.bodyLeft -= int64(len(in))
	if x.bodyLeft > 0 {
		return len(in), engine.Read
	}
	c.phase = readReady
	return len(in), engine.Run
}

func (c *http1Conn) stepChunks(in []byte) (used int, next engine.Next) {
	x := c.x
	for used < len(in) && !x.chunks.Done() {
		n, data, err := x.chunks.Next(in[used:])
		if err == nil && len(data) > 0 {
			err = x.ctx.keepBody(data)
		}
		// The server does not wait for the rest of a chunk that will be too large.
		if left, isData := x.chunks.InData(); err == nil && isData && !x.ctx.mayHold(left) {
			err = ErrBodyTooLarge
		}
		if err != nil {
			return 0, c.fail(err)
		}
		used += n
	}
	if x.chunks.Done() {
		x.beginTrailer()
		c.phase = readTrailer
	}
	return used, engine.Read
}

func (c *http1Conn) stepTrailer(in []byte) (int, engine.Next) {
	x := c.x
	used, done, err := x.parseTrailer(in)
	if err != nil {
		return 0, c.fail(err)
	}
	if !done {
		return used, engine.Read
	}
	x.ctx.Request.Header.m.SettleChunked(len(x.ctx.Request.bytes))
	c.phase = readReady
	return used, engine.Run
}

// stepDrain discards the unread rest of a streamed body. It ends in readIdle,
// or closes the connection if the rest is too large or malformed.
func (c *http1Conn) stepDrain(in []byte) (int, engine.Next) {
	used, done, err := c.x.discard(in)
	switch {
	case err != nil:
		c.phase = readClosed
		return used, engine.CloseLinger
	case done:
		c.endRequest()
		c.awaitRequest()
	}
	return used, engine.Read
}

// fail makes Run answer the request with err.
func (c *http1Conn) fail(err error) engine.Next {
	c.x.failure = err
	c.phase = readFailed
	return engine.Run
}

// armReadDeadline sets how long the engine waits for the rest of a request.
func (c *http1Conn) armReadDeadline() {
	switch c.phase {
	case readHead:
		c.x.isPieced = true
		c.ownStart()
		c.conn.SetReadDeadline(c.x.ctx.start, c.cfg.readTimeout)
	case readBody, readChunks, readTrailer:
		c.x.isPieced = true
		c.ownStart()
		c.conn.SetReadDeadline(c.x.ctx.start, c.x.ctx.bodyTimeout())
	}
}

// Run answers the request that Feed completed; see engine.Protocol.
func (c *http1Conn) Run(out []byte) ([]byte, engine.Next) {
	if m := c.cfg.meter; m != nil {
		return c.runMetered(m, out)
	}
	return c.run(out)
}

func (c *http1Conn) run(out []byte) ([]byte, engine.Next) {
	x := c.x
	x.out = out
	var next engine.Next
	switch c.phase {
	case readDecide:
		next = c.decide()
		if c.phase == readReady {
			next = c.handle()
		}
	case readReady:
		next = c.handle()
	case readFailed:
		next = c.answerFailure()
	default:
		next = engine.Close
	}
	if c.phase == readFailed { // while deciding
		next = c.answerFailure()
	}
	out = x.out
	x.out = nil
	c.armReadDeadline()
	return out, next
}

// decide runs the callbacks between head and body. They may refuse the body.
// The server then answers and closes the connection, because the client may
// send the body nevertheless.
func (c *http1Conn) decide() engine.Next {
	x := c.x
	if err := x.ctx.headerReceived(); err != nil {
		return c.fail(err)
	}
	next := c.expectBody()
	if c.phase == readFailed || !x.parser.Has(h1.ExpectContinue) || x.bodyLength() == 0 {
		return next
	}
	status, err := x.ctx.expectStatus()
	switch {
	case err != nil:
		return c.fail(err)
	case status != StatusContinue:
		x.ctx.refuseBody(status)
		return c.respondAndClose()
	case len(c.conn.Buffered()) > 0: // the client did not wait
	case c.phase == readReady: // the handler decides about a streamed body
		x.ctx.requestStream.awaitsContinue = true
	default:
		x.out = append(x.out, continueLine...)
	}
	return next
}

// Pause releases the memory of the request while the connection idles; see
// engine.Protocol.
func (c *http1Conn) Pause() (isIdle bool) {
	if c.phase == readHead && !c.isMidRequest() && bytes.HasSuffix(c.x.rawHead(), []byte("\r\n")) {
		c.unbegin() // empty lines after a request do not begin another one
	}
	if c.phase != readIdle {
		if c.x != nil {
			c.x.hasWaited = true
		}
		return false
	}
	if !c.isWoken || c.x == nil || !c.x.mayRest() {
		c.releaseExchange()
	}
	return true
}

// releaseExchange gives the exchange of a request that has ended back.
func (c *http1Conn) releaseExchange() {
	if c.x != nil {
		releaseHTTP1Exchange(c.x)
		c.x = nil
	}
}

// CanRewind reports whether a head has begun and is not complete; see
// engine.Rewinder.
func (c *http1Conn) CanRewind() bool { return c.phase == readHead }

// Rewind returns the input of an incomplete head.
func (c *http1Conn) Rewind() []byte {
	input := bytes.Clone(c.x.rawHead())
	c.unbegin()
	return input
}

// HalfClosed answers a request that has begun and cannot become complete.
func (c *http1Conn) HalfClosed(out []byte) []byte {
	if !c.isMidRequest() {
		c.phase = readClosed
		return out
	}
	c.fail(h1.ErrTruncatedMessage)
	out, _ = c.Run(out)
	return out
}

// isMidRequest reports whether a request has begun that must be answered. The
// empty lines that clients send after a request do not count.
func (c *http1Conn) isMidRequest() bool {
	switch c.phase {
	case readHead:
		for _, b := range c.x.rawHead() {
			if b != '\r' && b != '\n' {
				return true
			}
		}
	case readBody, readChunks, readTrailer:
		return true
	}
	return false
}

// TimedOut answers 408 to a request that did not arrive in time. It closes an
// idle connection without an answer: the client would take one for the answer
// to its next request.
func (c *http1Conn) TimedOut(out []byte) ([]byte, engine.Next) {
	if !c.isMidRequest() {
		if c.served == 0 {
			c.cfg.fail(errRequestTimeout)
		}
		next := engine.Abort
		if c.phase == readDrain { // an Abort could cost the client the response
			next = engine.CloseLinger
		}
		c.phase = readClosed
		return out, next
	}
	c.fail(errRequestTimeout)
	return c.Run(out)
}

// Closed releases the connection; see engine.Protocol.
func (c *http1Conn) Closed(err error) {
	c.endRequest()
	c.releaseExchange()
	switch c.phase {
	case readHijacked:
		c.server.gauges.hijacked.Add(-1)
	case readGivenOver: // the response could not be written
		c.successor.Closed(err)
	default:
		c.tellState(StateClosed)
	}
	if err != nil {
		c.logError(err)
	}
	releaseHTTP1Conn(c)
}

// logError logs an error of the connection. Without LogAllErrors it skips
// errors that the client causes.
func (c *http1Conn) logError(err error) {
	var wire *h1.Error
	if c.cfg.logsAllErrors || !errors.As(err, &wire) {
		c.cfg.logConnError(c.conn, err)
	}
}
