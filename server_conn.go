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

// readState is the kind of input that a connection expects next.
type readState uint8

const (
	readIdle    readState = iota // the first byte of a request
	readHead                     // more of a head
	readDecide                   // none: callbacks decide about the body
	readBody                     // a body of known length
	readChunks                   // a chunked body
	readTrailer                  // the trailer section after a chunked body
	readReady                    // none: the request is ready for the handler
	readFailed                   // none: the request is answered with an error
	readDrain                    // the unread rest of a streamed body
	readClosed                   // none: the connection ends
)

// serverConn implements HTTP/1.1 on one server connection: it is the
// engine.Protocol between an engine and the handlers. All policy about
// connections is here and in server_respond.go: a connection is reused only if
// the request's body was read to its verified end.
//
// The state of a request is in ctx, which is attached from the first byte of a
// request until the engine pauses. An idle connection holds only this struct;
// on engines that call Sleep it does not hold that either.
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
	// isPieced is set when the rest of a request has not arrived yet.
	isPieced bool
	counted  int // bytes at the start of ctx.out that the Meter already counts
	// isHijacked is set after a hijack handler has taken over.
	isHijacked bool
	// isShared is set when a RequestCtx was given up to other goroutines: it still
	// refers to c.
	isShared bool
}

// netConnection returns the underlying connection. Unlike conn, it is valid for
// as long as c. It is created on demand, because an engine may have to build
// it. While a handler runs, call it with the wire of ctx locked.
func (c *serverConn) netConnection() net.Conn {
	if c.netConn == nil {
		c.netConn = c.conn.NetConn()
	}
	return c.netConn
}

// tellState calls Server.ConnState.
func (c *serverConn) tellState(state ConnState) {
	if c.cfg.connState != nil {
		c.cfg.connState(c.netConnection(), state)
	}
}

// Feed consumes input; see engine.Protocol.
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

// step consumes input up to the next change of state.
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

// unbegin reverts begin: the input did not start a request.
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

// expectBody prepares to read the body that the head announces.
func (c *serverConn) expectBody() engine.Next {
	ctx := c.ctx
	ctx.Request.limit = ctx.maxBodySize
	switch {
	case ctx.parser.Has(h1.ChunkedBody):
		ctx.chunks = h1.Chunked{}
		c.state = readChunks
	case ctx.parser.ContentLength >= tooLong: // an int cannot hold the length
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

// stepDrain discards the unread rest of a streamed body. It ends in readIdle,
// or closes the connection if the rest is too large or malformed.
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

// mayHoldChunk reports whether the rest of the chunk, whose size was read, is
// within the limit: the server does not wait for a body that will be too large.
func (ctx *RequestCtx) mayHoldChunk() bool {
	left, isData := ctx.chunks.InData()
	return !isData || left <= uint64(int64(ctx.maxBodySize)-ctx.bodyHeld)
}

// keepBody stores received bytes of the body. Memory grows with the bytes that
// have arrived, within the limits of this request and of the server.
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

// armReadDeadline sets how long the engine waits for the rest of a request.
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
	ctx = c.ctx // a ctx that other goroutines still use was replaced
	out = ctx.out
	ctx.out = nil
	c.armReadDeadline()
	return out, next
}

// continueLine asks the client to send the body that it announced with "Expect:
// 100-continue".
const continueLine = "HTTP/1.1 100 Continue\r\n\r\n"

// decide runs the callbacks between head and body. They may refuse the body.
// The server then answers and closes the connection, because the client may
// send the body nevertheless.
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
	case c.state == readReady: // the handler decides about a streamed body
		ctx.requestStream.awaitsContinue = true
	default:
		ctx.out = append(ctx.out, continueLine...)
	}
	return next
}

// recoverCallback answers a panic of a callback with 500.
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

// expectStatus returns the status for a body that waits for 100-continue.
func (c *serverConn) expectStatus() int {
	switch {
	case c.cfg.expectHandler != nil:
		return c.cfg.expectHandler(c.ctx)
	case c.cfg.continueHandler != nil && !c.cfg.continueHandler(&c.ctx.Request.Header):
		return StatusExpectationFailed
	}
	return StatusContinue
}

// refuseBody answers a request whose body was refused.
func (c *serverConn) refuseBody(status int) engine.Next {
	resp := &c.ctx.Response
	resp.SetStatusCode(status)
	if len(resp.bodyBytes()) == 0 && resp.stream == nil {
		resp.SetBodyString(StatusMessage(status))
	}
	return c.respondAndClose()
}

// Pause releases the memory of the request while the connection idles; see
// engine.Protocol.
func (c *serverConn) Pause() (isIdle bool) {
	if c.state == readHead && !c.isMidRequest() && bytes.HasSuffix(c.ctx.Request.Header.table.Raw(), textCRLF) {
		c.unbegin() // empty lines after a request do not begin another one
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

// CanRewind reports whether a head has begun and is not complete; see
// engine.Rewinder.
func (c *serverConn) CanRewind() bool { return c.state == readHead }

// Rewind returns the input of an incomplete head.
func (c *serverConn) Rewind() []byte {
	input := bytes.Clone(c.ctx.Request.Header.table.Raw())
	c.unbegin()
	return input
}

// HalfClosed answers a request that has begun and cannot become complete.
func (c *serverConn) HalfClosed(out []byte) []byte {
	if !c.isMidRequest() {
		c.state = readClosed
		return out
	}
	c.fail(h1.ErrTruncatedMessage)
	out, _ = c.Run(out)
	return out
}

// isMidRequest reports whether a request has begun that must be answered. The
// empty lines that clients send after a request do not count.
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

// TimedOut answers 408 to a request that did not arrive in time. It closes an
// idle connection without an answer: the client would take one for the answer
// to its next request.
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

// Closed releases the connection; see engine.Protocol.
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

// logError logs an error of the connection. Without LogAllErrors it skips
// errors that the client causes.
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
