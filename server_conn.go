package sluice

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"runtime/debug"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/h1"
)

// readState says what a connection's next input is.
type readState uint8

const (
	readIdle    readState = iota // the first byte of a request
	readHead                     // more of a head
	readDecide                   // nothing: callbacks decide about the body
	readBody                     // a body of known length
	readChunks                   // a chunked body
	readTrailer                  // the trailer section behind a chunked body
	readReady                    // nothing: the request is complete for the handler
	readFailed                   // nothing: the request is answered with an error
	readDrain                    // what a handler left of a streamed body
	readClosed                   // nothing, ever again
)

// serverConn is HTTP/1.1 on one server connection: the engine.Protocol between
// an engine and the handlers. All policy about connections lives here and in
// server_respond.go: a connection is used again only when the request's body
// was read to its verified end.
//
// What a request needs is in ctx, which is attached from the first byte of a
// request until the engine pauses; an idle connection is this struct, and on
// engines that call Sleep not even that.
type serverConn struct {
	conn    engine.Conn
	netConn net.Conn // use netConnection
	server  *Server
	cfg     *serverConfig
	ctx     *RequestCtx
	id      uint64
	served  uint64 // requests begun
	opened  int64  // Nanos
	state   readState
	isTLS   bool
	// isPieced is set while input of a request has to be waited for.
	isPieced bool
	counted  int // bytes at the start of ctx.out that the Meter has counted
	// isHijacked is set when a hijack handler has taken over.
	isHijacked bool
	// isShared is set when a RequestCtx was left to others: it still knows c.
	isShared bool
}

// netConnection returns what the connection is about; unlike conn it is valid
// for as long as c. It is asked for when it is needed, for an engine may have
// to make it. While a handler runs, it is called with the ctx's wire held.
func (c *serverConn) netConnection() net.Conn {
	if c.netConn == nil {
		c.netConn = c.conn.NetConn()
	}
	return c.netConn
}

// tellState calls the user's ConnState function.
func (c *serverConn) tellState(state ConnState) {
	if c.cfg.connState != nil {
		c.cfg.connState(c.netConnection(), state)
	}
}

// Feed takes input in; see engine.Protocol.
func (c *serverConn) Feed(in []byte) (used int, next engine.Next) {
	used, next = c.feed(in)
	if m := c.cfg.meter; m != nil {
		countIn(m.BytesRead, used)
	}
	return used, next
}

func (c *serverConn) feed(in []byte) (used int, next engine.Next) {
	for used < len(in) {
		n, next := c.step(in[used:])
		used += n
		if next != engine.Read {
			return used, next
		}
	}
	c.armReadDeadline()
	return used, engine.Read
}

// step takes in input up to the next change of state.
func (c *serverConn) step(in []byte) (used int, next engine.Next) {
	switch c.state {
	case readIdle:
		c.begin()
		return 0, engine.Read
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
func (c *serverConn) begin() {
	if c.ctx == nil {
		c.ctx = c.server.acquireCtx(c)
	}
	ctx := c.ctx
	ctx.start = clock.Nanos()
	c.served++
	ctx.number = c.served
	ctx.parser.Reset()
	c.state = readHead
	c.tellState(StateActive)
}

// unbegin takes back begin: what came was no request.
func (c *serverConn) unbegin() {
	c.served--
	c.endRequest()
	c.state = readIdle
	c.tellState(StateIdle)
}

func (c *serverConn) stepHead(in []byte) (int, engine.Next) {
	ctx := c.ctx
	used, done, err := ctx.parser.Parse(&ctx.Request.Header.table, in)
	if err != nil {
		return 0, c.fail(err)
	}
	if !done {
		return used, engine.Read
	}
	ctx.Request.Header.setParsed(&ctx.parser.Head)
	ctx.Request.isTLS = c.isTLS
	ctx.headIsComplete = true
	ctx.isHead = ctx.Request.Header.IsHead()
	return used, c.headComplete()
}

// headComplete decides what follows a head.
func (c *serverConn) headComplete() engine.Next {
	ctx := c.ctx
	if c.cfg.getOnly && !ctx.IsGet() && !ctx.IsHead() {
		return c.fail(ErrGetOnly)
	}
	ctx.maxBodySize = c.cfg.maxBodySize
	ctx.readTimeout = c.cfg.readTimeout
	if c.cfg.headerReceived != nil || ctx.parser.Has(h1.ExpectContinue) {
		c.state = readDecide
		return engine.Run
	}
	return c.expectBody()
}

// expectBody prepares for the body that the head announces.
func (c *serverConn) expectBody() engine.Next {
	ctx := c.ctx
	ctx.Request.limit = ctx.maxBodySize
	switch {
	case ctx.parser.Has(h1.ChunkedBody):
		ctx.chunks = h1.Chunked{}
		c.state = readChunks
	case ctx.parser.ContentLength >= tooLong: // handlers could not be told
		return c.fail(ErrBodyTooLarge)
	case ctx.parser.ContentLength > 0:
		ctx.bodyLeft = ctx.parser.ContentLength
		c.state = readBody
	default:
		ctx.Request.Header.settleLength()
		c.state = readReady
		return engine.Run
	}
	if c.cfg.streamBody {
		ctx.requestStream.attach(c)
		c.state = readReady
		return engine.Run
	}
	if ctx.parser.ContentLength > int64(ctx.maxBodySize) {
		return c.fail(ErrBodyTooLarge)
	}
	return engine.Read
}

func (c *serverConn) stepBody(in []byte) (int, engine.Next) {
	ctx := c.ctx
	if int64(len(in)) > ctx.bodyLeft {
		in = in[:ctx.bodyLeft]
	}
	if err := c.keepBody(in); err != nil {
		return 0, c.fail(err)
	}
	ctx.bodyLeft -= int64(len(in))
	if ctx.bodyLeft > 0 {
		return len(in), engine.Read
	}
	c.state = readReady
	return len(in), engine.Run
}

func (c *serverConn) stepChunks(in []byte) (used int, next engine.Next) {
	ctx := c.ctx
	for used < len(in) && !ctx.chunks.Done() {
		n, data, err := ctx.chunks.Next(in[used:])
		if err == nil && len(data) > 0 {
			err = c.keepBody(data)
		}
		if err == nil && !ctx.mayHoldChunk() {
			err = ErrBodyTooLarge
		}
		if err != nil {
			return 0, c.fail(err)
		}
		used += n
	}
	if ctx.chunks.Done() {
		ctx.beginTrailer()
		c.state = readTrailer
	}
	return used, engine.Read
}

func (c *serverConn) stepTrailer(in []byte) (int, engine.Next) {
	used, done, err := c.ctx.parseTrailer(in)
	if err != nil {
		return 0, c.fail(err)
	}
	if !done {
		return used, engine.Read
	}
	c.ctx.Request.Header.settleChunked(len(c.ctx.Request.bytes))
	c.state = readReady
	return used, engine.Run
}

// stepDrain discards what the handler left of a streamed body. It ends in
// readIdle, or closes where that takes too much.
func (c *serverConn) stepDrain(in []byte) (int, engine.Next) {
	used, done, err := c.ctx.requestStream.discard(in)
	switch {
	case err != nil:
		c.state = readClosed
		return used, engine.CloseLinger
	case done:
		c.endRequest()
		c.awaitRequest()
	}
	return used, engine.Read
}

// mayHoldChunk tells whether the rest of the chunk, whose size was read, is within
// the limit: a body that will be too large is not waited for.
func (ctx *RequestCtx) mayHoldChunk() bool {
	left, isData := ctx.chunks.InData()
	return !isData || left <= uint64(int64(ctx.maxBodySize)-ctx.bodyHeld)
}

// keepBody stores received bytes of the body. Memory follows what has arrived,
// within the limits of this request and of the server.
func (c *serverConn) keepBody(data []byte) error {
	ctx := c.ctx
	if ctx.bodyHeld+int64(len(data)) > int64(ctx.maxBodySize) {
		return ErrBodyTooLarge
	}
	ctx.bodyHeld += int64(len(data))
	if c.cfg.maxBodyMemory > 0 {
		if c.server.gauges.bodyMemory.Add(int64(len(data))) > c.cfg.maxBodyMemory {
			return errBodyMemory
		}
	}
	ctx.Request.appendBodyBytes(data)
	return nil
}

// fail makes Run answer the request with err.
func (c *serverConn) fail(err error) engine.Next {
	c.ctx.failure = err
	c.state = readFailed
	return engine.Run
}

// armReadDeadline tells the engine how long to wait for the rest of a request.
func (c *serverConn) armReadDeadline() {
	switch c.state {
	case readHead:
		c.isPieced = true
		c.conn.SetReadDeadline(c.ctx.start, c.cfg.readTimeout)
	case readBody, readChunks, readTrailer:
		c.isPieced = true
		c.conn.SetReadDeadline(c.ctx.start, c.ctx.bodyTimeout(c.cfg.minBodyRate))
	}
}

// Run answers the request that Feed completed; see engine.Protocol.
func (c *serverConn) Run(out []byte) ([]byte, engine.Next) {
	if m := c.cfg.meter; m != nil {
		return c.runMetered(m, out)
	}
	return c.run(out)
}

func (c *serverConn) run(out []byte) ([]byte, engine.Next) {
	ctx := c.ctx
	ctx.out = out
	var next engine.Next
	switch c.state {
	case readDecide:
		next = c.decide()
		if c.state == readReady {
			next = c.handle()
		}
	case readReady:
		next = c.handle()
	case readFailed:
		next = c.answerFailure()
	default:
		next = engine.Close
	}
	if c.state == readFailed { // while deciding
		next = c.answerFailure()
	}
	ctx = c.ctx // a request that others still use leaves its ctx to them
	out = ctx.out
	ctx.out = nil
	c.armReadDeadline()
	return out, next
}

// continueLine has the client send the body that it announced with
// "Expect: 100-continue".
const continueLine = "HTTP/1.1 100 Continue\r\n\r\n"

// decide runs the callbacks between head and body. They may refuse the body;
// then it is answered and the connection closed, for the body may come all the
// same.
func (c *serverConn) decide() engine.Next {
	ctx := c.ctx
	defer c.recoverCallback()
	if c.cfg.headerReceived != nil {
		ctx.apply(c, c.cfg.headerReceived(&ctx.Request.Header))
	}
	next := c.expectBody()
	if c.state == readFailed || !ctx.parser.Has(h1.ExpectContinue) || !ctx.announcesBody() {
		return next
	}
	if status := c.expectStatus(); status != StatusContinue {
		return c.refuseBody(status)
	}
	switch {
	case len(c.conn.Buffered()) > 0: // the client did not wait
	case c.state == readReady: // of a streamed body the handler decides
		ctx.requestStream.awaitsContinue = true
	default:
		ctx.out = append(ctx.out, continueLine...)
	}
	return next
}

// recoverCallback makes a panic of a callback an answer 500.
func (c *serverConn) recoverCallback() {
	if v := recover(); v != nil {
		if c.cfg.crashOnPanic {
			crash(v)
		}
		c.cfg.logger.Printf("panic in a callback for %q: %v\n%s", c.conn.RemoteAddr(), v, debug.Stack())
		c.fail(errCallbackPanicked)
	}
}

// errCallbackPanicked says that a callback of the Server panicked.
var errCallbackPanicked = errors.New("sluice: internal server error")

// expectStatus asks the user about a body that waits for 100-continue.
func (c *serverConn) expectStatus() int {
	switch {
	case c.cfg.expectHandler != nil:
		return c.cfg.expectHandler(c.ctx)
	case c.cfg.continueHandler != nil && !c.cfg.continueHandler(&c.ctx.Request.Header):
		return StatusExpectationFailed
	}
	return StatusContinue
}

// refuseBody answers a request whose body is not wanted.
func (c *serverConn) refuseBody(status int) engine.Next {
	resp := &c.ctx.Response
	resp.SetStatusCode(status)
	if len(resp.bodyBytes()) == 0 && resp.stream == nil {
		resp.SetBodyString(StatusMessage(status))
	}
	return c.respondAndClose()
}

// Pause gives the request's memory back while the connection idles; see
// engine.Protocol.
func (c *serverConn) Pause() (isIdle bool) {
	if c.state == readHead && !c.isMidRequest() && bytes.HasSuffix(c.ctx.Request.Header.table.Raw(), textCRLF) {
		c.unbegin() // empty lines behind a request begin none
	}
	if c.state != readIdle {
		if c.ctx != nil {
			c.ctx.hasWaited = true
		}
		return false
	}
	if c.ctx != nil {
		c.server.releaseCtx(c.ctx)
		c.ctx = nil
	}
	return true
}

// CanRewind tells whether a head has begun that is not complete; see
// engine.Rewinder.
func (c *serverConn) CanRewind() bool { return c.state == readHead }

// Rewind gives back what has come of a head.
func (c *serverConn) Rewind() []byte {
	input := bytes.Clone(c.ctx.Request.Header.table.Raw())
	c.unbegin()
	return input
}

// HalfClosed answers what was begun and cannot be completed any more.
func (c *serverConn) HalfClosed(out []byte) []byte {
	if !c.isMidRequest() {
		c.state = readClosed
		return out
	}
	c.fail(h1.ErrTruncatedMessage)
	out, _ = c.Run(out)
	return out
}

// isMidRequest tells whether a request was begun that deserves an answer: the
// empty lines that clients send behind a request are none.
func (c *serverConn) isMidRequest() bool {
	switch c.state {
	case readHead:
		for _, b := range c.ctx.Request.Header.table.Raw() {
			if b != '\r' && b != '\n' {
				return true
			}
		}
	case readBody, readChunks, readTrailer:
		return true
	}
	return false
}

// TimedOut answers 408 to a request that did not come in time; an idle
// connection is closed without a word, for an answer to no request would be
// taken for the answer to the next one.
func (c *serverConn) TimedOut(out []byte) ([]byte, engine.Next) {
	if !c.isMidRequest() {
		if c.served == 0 {
			c.cfg.fail(errRequestTimeout)
		}
		c.state = readClosed
		return out, engine.Abort
	}
	c.fail(errRequestTimeout)
	return c.Run(out)
}

// Closed ends the connection's life; see engine.Protocol.
func (c *serverConn) Closed(err error) {
	if c.ctx != nil {
		c.endRequest()
		if c.ctx != nil {
			c.server.releaseCtx(c.ctx)
			c.ctx = nil
		}
	}
	if c.isHijacked {
		c.server.gauges.hijacked.Add(-1)
	} else {
		c.tellState(StateClosed)
	}
	if err != nil {
		c.logError(err)
	}
	releaseServerConn(c)
}

// logError logs an error of the connection, if the configuration wants it:
// what peers do to their own connections is none of the server's business.
func (c *serverConn) logError(err error) {
	if !c.cfg.logsAllErrors {
		var netErr net.Error
		var wire *h1.Error
		switch {
		case errors.As(err, &netErr), errors.As(err, &wire),
			errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe):
			return
		}
	}
	c.cfg.logger.Printf("error when serving connection %q<->%q: %v", c.conn.LocalAddr(), c.conn.RemoteAddr(), err)
}
