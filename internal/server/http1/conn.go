package http1

import (
	"bytes"
	"net"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// A phase is what a connection expects next. A request goes down the list
// from readIdle, skips the phases that it has no use for, and reaches readReady,
// from which server.Request.Serve leads to readDrain, readIdle, readClosed or
// readHijacked. Every phase before readReady may lead to readFailed, and every
// phase to readClosed.
type phase uint8

const (
	readIdle      phase = iota // the first byte of a request
	readHead                   // more of a head
	readDecide                 // no input: callbacks decide about the body
	readBody                   // a body of known length
	readChunks                 // a chunked body
	readTrailer                // the trailer section after a chunked body
	readReady                  // no input: the request is ready for the handler
	readFailed                 // no input: the request is answered with an error
	readDrain                  // the unread rest of a streamed body
	readClosed                 // no input: the connection ends
	readHijacked               // no input: a hijack handler owns the connection
	readGivenOver              // no input: successor is about to have the connection
)

// A Conn implements HTTP/1.1 on one server connection: it is the
// engine.Protocol between an engine and the handlers. The policy about
// connections (RFC 9112 section 9) is here and in respond.go: a connection
// is reused only if the request's body was read to its verified end.
//
// The state of a request is in x, which is attached from the first byte of a
// request until the engine pauses. An idle connection holds only this struct;
// on engines that call Sleep it does not hold that either.
type Conn struct {
	conn      engine.Conn
	ownedConn net.Conn // use netConnection
	host      Host
	cfg       *Config
	x         *Exchange
	successor engine.Protocol // after engine.Switch
	facts     server.Facts
	arrived   int64 // the engine's Reuse has said so; 0: unknown, or the input has begun a request
	phase     phase
	// sharesStart: the start is when the input arrived, or that of the request before, which was
	// read together with this one. Reading the clock again would cost a pipelined request 6 %
	// of its time, and any other 3 % of its instructions.
	sharesStart bool
	// lacksIdleTime: the engine does not have the deadline of IdleTimeout yet, because input
	// followed the last request. Empty lines do not change a deadline that is set.
	lacksIdleTime bool
}

// Open returns the Protocol of a connection. It is valid until Closed, Sleep or
// Successor.
func Open(conn engine.Conn, h Host, cfg *Config, f server.Facts) *Conn {
	c := acquireConn()
	c.conn, c.host, c.cfg, c.facts = conn, h, cfg, f
	return c
}

// netConnection returns the underlying connection. Unlike conn, it is valid for
// as long as c. It is created on demand, because an engine may have to build
// it. While a handler runs, call it with the wire of the RequestCtx locked.
func (c *Conn) netConnection() net.Conn {
	if c.ownedConn == nil {
		c.ownedConn = c.conn.NetConn()
	}
	return c.ownedConn
}

// tellState tells the Host.
func (c *Conn) tellState(s State) {
	if c.cfg.TellsStates { // so that the compiler inlines the usual case
		c.callTellState(s)
	}
}

func (c *Conn) callTellState(s State) { c.host.TellState(c.netConnection(), s) }

// Capabilities names what the engine may use; see engine.Protocol.
func (c *Conn) Capabilities() engine.Capabilities {
	return engine.CanRewind | engine.CanSleep | engine.CanSwitch | engine.CanCool | engine.CanReuse
}

// Feed consumes input; see engine.Protocol.
func (c *Conn) Feed(in []byte) (used int, next engine.Next) {
	for len(in) > 0 {
		if c.phase == readIdle {
			c.begin()
		}
		var n int
		if c.phase == readHead {
			n, next = c.stepHead(in)
		} else {
			n, next = c.step(in)
		}
		used += n
		if next != engine.Read {
			break
		}
		in = in[n:]
	}
	if next == engine.Read {
		c.armReadDeadline()
	}
	server.Add(c.cfg.Meter.BytesRead, used)
	return used, next
}

// step consumes input after the head, up to the next change of state.
func (c *Conn) step(in []byte) (used int, next engine.Next) {
	switch c.phase {
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
func (c *Conn) begin() {
	c.prepareExchange()
	c.facts.Served++
	switch {
	case c.sharesStart:
	case c.arrived != 0:
		c.x.start, c.arrived, c.sharesStart = c.arrived, 0, true
	default:
		c.x.start = clock.Nanos()
	}
	c.x.parser.Reset()
	c.x.progress = begun
	c.phase = readHead
	c.tellState(StateActive)
}

// prepareExchange gives c an exchange, unless it has one: from the request before, or
// from the connection that had c before, which was mostly one of the same server.
func (c *Conn) prepareExchange() {
	if c.x == nil || c.x.cfg != c.cfg {
		c.acquireExchange()
	}
}

func (c *Conn) acquireExchange() {
	c.releaseExchange()
	x := exchangePool.Get().(*Exchange)
	x.use(c.host.NewRequest(x, x.request))
	x.attach(c)
	c.x = x
}

// unbegin reverts begin: the input did not start a request.
func (c *Conn) unbegin() {
	c.facts.Served--
	c.endRequest()
	c.phase, c.sharesStart = readIdle, false
	c.tellState(StateIdle)
}

func (c *Conn) stepHead(in []byte) (int, engine.Next) {
	x := c.x
	used, done, err := x.parser.Parse(&x.requestHeader.Table, in)
	if err != nil {
		if c.switchesToHTTP2(in, err) {
			return 0, engine.Switch
		}
		return 0, c.fail(err)
	}
	if !done {
		return used, engine.Read
	}
	x.requestHeader.SetParsed(&x.parser.Head)
	x.isHTTP10 = x.parser.Minor == 0
	c.phase = readDecide // what fails from here on has a whole head
	x.request.Begin(&c.facts, x.start)
	if err := x.request.HeadComplete(x.isHTTP10, x.parser.Has(h1.MethodGet)); err != nil {
		return used, c.fail(err)
	}
	const special = h1.ExpectContinue | h1.HasLength | h1.ChunkedBody
	switch {
	case c.cfg.AsksUser || x.parser.Has(h1.ExpectContinue):
		return used, engine.Run
	case x.parser.Flags&(h1.MethodGet|special) == h1.MethodGet: // as expectBody does; the call would cost every request
		x.bodyLeft, c.phase = 0, readReady
		return used, engine.Run
	}
	return used, c.expectBody()
}

// expectBody prepares to read the body that the head announces.
func (c *Conn) expectBody() engine.Next {
	x := c.x
	length := x.bodyLength()
	x.bodyLeft = length
	if length == 0 {
		if !x.parser.Has(h1.MethodGet) {
			x.requestHeader.SettleLength()
		}
		c.phase = readReady
		return engine.Run
	}
	isStreamed, err := x.request.ExpectBody(length)
	if err != nil {
		return c.fail(err)
	}
	c.phase = readBody
	if length < 0 {
		x.chunks, x.kept = h1.Chunked{}, 0
		c.phase = readChunks
	}
	if isStreamed {
		x.input = inputStreamed
		c.ownStart()
		c.phase = readReady
		return engine.Run
	}
	return engine.Read
}

func (c *Conn) stepBody(in []byte) (int, engine.Next) {
	x := c.x
	if int64(len(in)) > x.bodyLeft {
		in = in[:x.bodyLeft]
	}
	if err := x.request.BodyReceived(in, 0); err != nil {
		return 0, c.fail(err)
	}
	x.bodyLeft -= int64(len(in))
	if x.bodyLeft > 0 {
		return len(in), engine.Read
	}
	c.phase = readReady
	return len(in), engine.Run
}

func (c *Conn) stepChunks(in []byte) (used int, next engine.Next) {
	x := c.x
	for used < len(in) && !x.chunks.Done() {
		n, data, err := x.chunks.Next(in[used:])
		if err == nil {
			err = x.keepChunk(data)
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

func (c *Conn) stepTrailer(in []byte) (int, engine.Next) {
	x := c.x
	used, done, err := x.parseTrailer(in)
	if err != nil {
		return 0, c.fail(err)
	}
	if !done {
		return used, engine.Read
	}
	x.requestHeader.SettleChunked(x.kept)
	c.phase = readReady
	return used, engine.Run
}

// stepDrain discards the unread rest of a streamed body. It ends in readIdle,
// or closes the connection if the rest is too large or malformed.
func (c *Conn) stepDrain(in []byte) (int, engine.Next) {
	used, done, err := c.x.discard(in)
	switch {
	case err != nil:
		return used, c.end(engine.CloseLinger)
	case done:
		c.endRequest()
		c.awaitRequest()
	}
	return used, engine.Read
}

// fail makes Run answer the request with err.
func (c *Conn) fail(err error) engine.Next {
	c.x.failure, c.x.failedIn = err, c.phase
	c.phase = readFailed
	return engine.Run
}

// Run answers the request that Feed completed; see engine.Protocol.
func (c *Conn) Run(out []byte) ([]byte, engine.Next) {
	if m := &c.cfg.Meter; m.Flights != nil {
		return c.runMetered(m, out)
	}
	return c.run(out)
}

func (c *Conn) run(out []byte) ([]byte, engine.Next) {
	x := c.x
	x.out, x.earlier = out, len(out)
	var next engine.Next
	switch c.phase {
	case readDecide:
		if next = c.decide(); c.phase == readReady {
			next = c.answer(x.request.Serve(x.start))
		}
	case readReady:
		if fresh, outcome := x.request.Serve(x.start); fresh == nil && outcome == server.OutcomeResponse && x.input != inputCut && !x.hasUsedConn {
			next = c.respond() // as answer does; the call would cost every request
		} else {
			next = c.answer(fresh, outcome)
		}
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
	if c.phase != readIdle {
		c.armReadDeadline()
	}
	return out, next
}

// decide runs the callbacks between head and body. They may refuse the body.
// The server then answers and closes the connection, because the client may
// send the body nevertheless.
func (c *Conn) decide() engine.Next {
	x := c.x
	if err := x.request.HeaderReceived(); err != nil {
		return c.fail(err)
	}
	next := c.expectBody()
	if c.phase == readFailed || !x.parser.Has(h1.ExpectContinue) || x.bodyLength() == 0 {
		return next
	}
	isWanted, err := x.request.ExpectContinue(len(c.conn.Buffered()) == 0)
	switch {
	case err == server.ErrConnectionClosed:
		return c.abort()
	case err != nil:
		return c.fail(err)
	case !isWanted:
		return c.respondAndClose()
	}
	return next
}

// Pause shrinks the memory of the request while the connection idles; see engine.Protocol.
func (c *Conn) Pause() (isIdle bool) {
	if c.phase == readHead && !c.isMidRequest() && bytes.HasSuffix(c.x.rawHead(), []byte("\r\n")) {
		c.unbegin() // empty lines after a request do not begin another one
	}
	if c.phase != readIdle {
		if c.x != nil {
			c.x.hasWaited = true
		}
		return false
	}
	c.rest()
	return true
}

// Cool releases the memory of the last request; see engine.Cooler.
func (c *Conn) Cool() {
	if c.phase == readIdle {
		c.releaseExchange()
	}
}

// rest keeps the exchange of a request that has ended for the next one, which may be that of
// another connection, if it may.
func (c *Conn) rest() {
	x := c.x
	switch {
	case x == nil || x.progress == rested:
		return
	case x.hasWaited || x.cfg.IsSingle:
		c.releaseExchange()
		return
	}
	x.shrink()
	if x.rests++; x.rests%shrinkEvery == 0 || x.parser.Fields.End > largeHead {
		x.request.Shrink()
	}
	x.progress = rested
}

// releaseExchange gives the exchange of a request that has ended back.
func (c *Conn) releaseExchange() {
	if c.x != nil {
		c.x.release()
		c.x = nil
	}
}

// CanRewind reports whether a head has begun and is not complete; see
// engine.Rewinder.
func (c *Conn) CanRewind() bool { return c.phase == readHead }

// Rewind returns the input of an incomplete head.
func (c *Conn) Rewind() []byte {
	input := bytes.Clone(c.x.rawHead())
	c.unbegin()
	c.setIdleDeadline()
	return input
}

// HalfClosed answers a request that has begun and cannot become complete.
func (c *Conn) HalfClosed(out []byte) []byte {
	if !c.isMidRequest() {
		c.end(engine.Close)
		return out
	}
	c.fail(h1.ErrTruncatedMessage)
	out, _ = c.Run(out)
	return out
}

// isMidRequest reports whether a request has begun that must be answered. The
// empty lines that clients send after a request do not count.
func (c *Conn) isMidRequest() bool {
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

// Closed releases the connection; see engine.Protocol.
func (c *Conn) Closed(err error) {
	c.endRequest()
	c.rest()
	switch c.phase {
	case readHijacked:
		c.cfg.Hijacked.Add(-1)
	case readGivenOver: // the response could not be written
		c.successor.Closed(err)
	default:
		c.tellState(StateClosed)
	}
	if err != nil {
		c.host.Log(c.conn, err)
	}
	releaseConn(c)
}
