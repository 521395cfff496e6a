package sluice

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/field"
	"github.com/sluicehttp/sluice/internal/h1"
)

// handle runs the handler for the request in ctx and answers it.
func (c *serverConn) handle() engine.Next {
	ctx := c.ctx
	if !c.cfg.lazyTime {
		ctx.time = ctx.start
	}
	if c.cfg.expectHandler != nil && c.cfg.name != nil {
		ctx.Response.Header.table.DelID(field.Server) // what ExpectHandler has set
	}
	ctx.Response.Header.showsServer = true
	aborted := c.callHandler(ctx)
	if ctx.timeoutResponse.Load() != nil { // others may use it, whatever became of the handler
		if ctx = c.replaceTimedOut(ctx); ctx == nil {
			aborted = true
		}
	}
	if aborted {
		return c.abort()
	}
	if ctx.hijackHandler != nil {
		return c.hijack()
	}
	if ctx.hasUsedConn && c.isClosedByHandler() {
		return c.drop()
	}
	return c.respond(c.persists())
}

// isClosedByHandler tells whether the handler has closed RequestCtx.Conn.
func (c *serverConn) isClosedByHandler() bool {
	closer, ok := c.conn.Blocking().(interface{ IsClosed() bool })
	return ok && closer.IsClosed()
}

// drop ends the connection without the response. What was written before is
// still sent.
func (c *serverConn) drop() engine.Next {
	c.state = readClosed
	c.endRequest()
	return engine.Close
}

// callHandler runs the handler and keeps its panics from the engine.
func (c *serverConn) callHandler(ctx *RequestCtx) (aborted bool) {
	defer func() {
		if v := recover(); v != nil {
			aborted = c.handlerPanicked(ctx, v)
		}
	}()
	c.cfg.handler(ctx)
	return false
}

// crash ends the process because of a panic (Server.CrashOnPanic). It panics
// anew where nothing recovers, for engines do.
func crash(v any) {
	text := fmt.Sprintf("%v\n\n%s", v, debug.Stack())
	go panic(text)
	select {}
}

// handlerPanicked answers 500 if nothing was sent yet. It says whether the
// connection must be aborted instead.
func (c *serverConn) handlerPanicked(ctx *RequestCtx, v any) (aborted bool) {
	if v == ErrAbortHandler {
		return true
	}
	if c.cfg.crashOnPanic {
		crash(v)
	}
	c.cfg.logger.Printf("panic in handler serving %q: %v\n%s", c.conn.RemoteAddr(), v, debug.Stack())
	switch {
	case ctx.timeoutResponse.Load() != nil: // ctx is for others, who may be using it
		resp := &Response{}
		resp.SetStatusCode(StatusInternalServerError)
		resp.SetBodyString(StatusMessage(StatusInternalServerError))
		resp.SetConnectionClose()
		ctx.timeoutResponse.Store(resp)
		return false
	case ctx.hasFlushed:
		return true
	}
	ctx.hijackHandler = nil
	ctx.Response.Reset()
	ctx.Error(StatusMessage(StatusInternalServerError), StatusInternalServerError)
	ctx.SetConnectionClose()
	return false
}

// abort ends the connection without another byte.
func (c *serverConn) abort() engine.Next {
	c.state = readClosed
	c.endRequest()
	return engine.Abort
}

// persists tells whether the connection may be used after this request: for
// another one, which the server's limits may forbid, or by a hijack handler.
func (c *serverConn) persists() bool {
	ctx := c.ctx
	cfg := c.cfg
	isHijacked := ctx.hijackHandler != nil
	switch {
	case !ctx.parser.KeepsAlive(), ctx.Response.ConnectionClose():
		return false
	case !isHijacked && (!cfg.keepAlive || cfg.maxRequestsPerConn > 0 && c.served >= cfg.maxRequestsPerConn ||
		cfg.maxConnLife > 0 && ctx.start-c.opened > int64(cfg.maxConnLife)):
		return false
	case c.server.closeRequested() && (!isHijacked || cfg.closesHijacked):
		return false
	case ctx.requestStream.isUnread() && !ctx.requestStream.mayDrain() && !c.streamMayRead():
		return false
	case ctx.parser.Has(h1.AuthorityForm) && ctx.Response.StatusCode()/100 == 2 && !isHijacked:
		return false // for the client a tunnel follows (RFC 9110 section 9.3.6)
	}
	return true
}

// streamMayRead tells whether writing the response may still read the request's
// body: then afterResponse decides what becomes of the rest.
func (c *serverConn) streamMayRead() bool {
	return c.ctx.Response.stream != nil && c.ctx.requestStream.err == nil
}

// framing derives how an answer's body is delimited. Bytes of a body that the
// status or the method forbids never reach the wire (RFC 9112 section 6.3).
func (c *serverConn) framing(keep bool) (f bodyFraming, sendsBody bool) {
	ctx := c.ctx
	resp := &ctx.Response
	f.closeConnection, f.namesServer = !keep, true
	f.keepAlive = keep && ctx.isHTTP10()
	if !c.cfg.noDate {
		f.date = ctx.start
	}
	isHead := ctx.isHead
	status := resp.StatusCode()
	switch {
	case bodyForbidden(status):
		f.length = -2
		if status == StatusNotModified && resp.Header.hasLength && resp.Header.contentLength > 0 {
			f.length = int64(resp.Header.contentLength) // of what was not sent
			f.omitDefaultType = true
		}
		return f, false
	case status == StatusResetContent:
		return f, false
	case resp.stream != nil:
		f.length = int64(resp.streamSize)
		if f.length < 0 {
			f.length = -1
		}
	default:
		f.length = int64(len(resp.bodyBytes()))
		if isHead && f.length == 0 {
			f.length, f.omitDefaultType = -2, true // GET may have a body, of an unknown length
			if resp.Header.hasLength {
				f.length, f.omitDefaultType = int64(max(resp.Header.contentLength, -2)), false
			}
		}
	}
	if resp.Header.hasTrailers() && !isHead && !ctx.isHTTP10() {
		f.length = -1
	}
	if resp.SkipBody && !isHead {
		f.length = 0
		return f, false
	}
	if f.length == -1 && ctx.isHTTP10() {
		f.length = -2
		f.closeConnection = true
		f.keepAlive = false
	}
	return f, !isHead
}

// respond writes the answer in ctx.Response, and decides what becomes of the
// connection; with keep it is kept, or handed over where it is hijacked.
func (c *serverConn) respond(keep bool) engine.Next {
	ctx := c.ctx
	resp := &ctx.Response
	if ctx.hasFlushed {
		return c.finishFlushed()
	}
	if mayBeWrong(resp.StatusCode()) && ctx.hijackHandler == nil {
		c.correctStatus()
	}
	f, sendsBody := c.framing(keep)
	keep = !f.closeConnection
	if resp.stream != nil && !c.askForBody() {
		return c.abort()
	}
	c.countStatus(resp.StatusCode())
	ctx.out = resp.Header.appendHead(ctx.out, f)
	if len(ctx.Request.userValues) > 0 { // their Close may look at the response
		resp.Header.show(f)
	}
	ok := true
	switch {
	case resp.stream != nil:
		ok = c.writeStream(f, sendsBody)
	case sendsBody && f.length == -1:
		c.appendOneChunk()
	case sendsBody:
		ok = c.writeBody(resp.bodyBytes())
	}
	switch {
	case !ok:
		return c.abort()
	case keep && ctx.hijackHandler != nil:
		c.cfg.retain()
		return engine.Detach
	}
	return c.afterResponse(keep)
}

// askForBody sends 100-continue if the client waits for it and the response's
// stream may be the request's body: there is no other time for an interim
// response. It returns false if the connection is broken.
func (c *serverConn) askForBody() bool {
	ctx := c.ctx
	if !ctx.requestStream.awaitsContinue || isFileStream(ctx.Response.stream) {
		return true
	}
	ctx.requestStream.awaitsContinue = false
	ctx.out = append(ctx.out, continueLine...)
	return c.flush() // the client waits for it with the body, and the stream for the body
}

// appendOneChunk appends a buffered body with trailer fields.
func (c *serverConn) appendOneChunk() {
	ctx := c.ctx
	ctx.out = h1.AppendChunk(ctx.out, ctx.Response.bodyBytes())
	ctx.out = append(ctx.out, h1.LastChunk...)
	ctx.out = ctx.Response.Header.appendTrailers(ctx.out)
}

// mayBeWrong tells whether correctStatus could replace an answer with status.
func mayBeWrong(status int) bool { return status < StatusOK || status == StatusNotFound }

// correctStatus replaces answers that say what is not so: an interim status, of
// which the client waits for the final answer (RFC 9110 section 15.2), or 101
// without a hijack handler; and 404 to CONNECT, which asks for no
// resource but for a tunnel, where no handler knows about tunnels.
func (c *serverConn) correctStatus() {
	ctx := c.ctx
	switch status := ctx.Response.StatusCode(); {
	case status < StatusOK:
		c.cfg.logger.Printf("handler answered %q with the interim status %d", c.conn.RemoteAddr(), status)
		ctx.Error(StatusMessage(StatusInternalServerError), StatusInternalServerError)
	case status == StatusNotFound && ctx.parser.Has(h1.AuthorityForm):
		ctx.Error(StatusMessage(StatusNotImplemented), StatusNotImplemented)
	}
}

// afterResponse ends the request, and drains what the handler left of its
// body before the connection may be used again.
func (c *serverConn) afterResponse(keep bool) engine.Next {
	ctx := c.ctx
	if ctx.writeTimeoutChanged && !ctx.sendsFile && !c.flush() { // its time-out ends with the request
		return c.abort()
	}
	unread := ctx.requestStream.isUnread()
	if unread && ctx.requestStream.err != nil {
		c.cfg.fail(ctx.requestStream.err)
	}
	if !keep {
		c.state = readClosed
		c.endRequest()
		if unread {
			return engine.CloseLinger
		}
		return engine.Close
	}
	if unread {
		if !ctx.requestStream.mayDrain() {
			c.state = readClosed
			c.endRequest()
			return engine.CloseLinger
		}
		c.state = readDrain
		c.conn.SetReadDeadline(clock.Nanos(), drainTimeout)
		return engine.Read
	}
	c.endRequest()
	c.awaitRequest()
	return engine.Read
}

// awaitRequest makes the connection idle.
func (c *serverConn) awaitRequest() {
	c.state = readIdle
	if c.cfg.idleTimeout > 0 {
		c.conn.SetReadDeadline(clock.Nanos(), c.cfg.idleTimeout)
	} else {
		c.conn.SetReadDeadline(0, 0)
	}
	c.tellState(StateIdle)
}

// endRequest makes ctx ready for the next request. A ctx that others may still
// hold is left to them.
func (c *serverConn) endRequest() {
	ctx := c.ctx
	if ctx == nil {
		return
	}
	if c.cfg.maxBodyMemory > 0 && ctx.bodyHeld > 0 {
		c.server.gauges.bodyMemory.Add(-ctx.bodyHeld)
	}
	if ctx.writeTimeoutChanged {
		c.conn.SetWriteTimeout(c.cfg.writeTimeout)
	}
	if ctx.done.Load() != nil {
		c.ctx = c.server.acquireCtx(c)
		c.ctx.out, _ = ctx.detach()
		ctx.requestStream.reset()
		ctx.letGo()
		return
	}
	ctx.reset()
}

// answerFailure answers a request that the handler never sees.
func (c *serverConn) answerFailure() engine.Next {
	ctx := c.ctx
	err := ctx.failure
	ctx.Response.Reset()
	c.prepareResponse(ctx)
	status := failureStatus(err)
	ctx.Response.SetStatusCode(status)
	if status == StatusMethodNotAllowed {
		ctx.Response.Header.Set(HeaderAllow, "GET, HEAD")
	}
	if c.cfg.single != nil || c.cfg.errorHandler != nil {
		public := c.publicFailure(err) // it may quote the head
		if !ctx.headIsComplete {
			ctx.Request.Header.table.Reset() // its fields do not have their bytes yet
		}
		c.cfg.fail(public)
		if c.cfg.errorHandler != nil {
			c.callErrorHandler(ctx, public)
		}
	}
	if c.cfg.errorHandler == nil {
		ctx.Response.SetBodyString(strings.TrimPrefix(err.Error(), "sluice: "))
	}
	if c.cfg.logsAllErrors {
		c.logError(err)
	}
	return c.respondAndClose()
}

// callErrorHandler runs the user's ErrorHandler and keeps its panics from the
// engine.
func (c *serverConn) callErrorHandler(ctx *RequestCtx, err error) {
	defer func() {
		if v := recover(); v != nil {
			c.cfg.logger.Printf("panic in ErrorHandler: %v\n%s", v, debug.Stack())
			ctx.Response.Reset()
			ctx.Error(StatusMessage(StatusInternalServerError), StatusInternalServerError)
		}
	}()
	c.cfg.errorHandler(ctx, err)
}

// respondAndClose answers, and closes although the client may still be
// sending: the connection lingers, so that the answer is not lost to a reset.
func (c *serverConn) respondAndClose() engine.Next {
	if next := c.respond(false); next == engine.Abort {
		return next
	}
	return engine.CloseLinger
}

// failureStatus is the status that answers err.
func failureStatus(err error) int {
	var wire *h1.Error
	switch {
	case errors.As(err, &wire):
		return wire.Status
	case errors.Is(err, ErrBodyTooLarge):
		return StatusRequestEntityTooLarge
	case errors.Is(err, ErrGetOnly):
		return StatusMethodNotAllowed
	case errors.Is(err, errRequestTimeout):
		return StatusRequestTimeout
	case errors.Is(err, errBodyMemory):
		return StatusServiceUnavailable
	case errors.Is(err, errCallbackPanicked):
		return StatusInternalServerError
	}
	return StatusBadRequest
}

// publicFailure adds the errors by which users know err, because of which the
// request in ctx is refused.
func (c *serverConn) publicFailure(err error) error {
	var wire *h1.Error
	switch {
	case !errors.As(err, &wire):
		return err
	case wire == h1.ErrTruncatedMessage:
		return knownError{io.ErrUnexpectedEOF, err}
	case wire.Status == StatusRequestHeaderFieldsTooLarge, wire == h1.ErrLineTooLong:
		return &ErrSmallBuffer{cause: knownError{ErrSmallReadBuffer, err}}
	case wire == h1.ErrTrailer:
		return knownError{ErrBadTrailer, err}
	case c.ctx.headIsComplete && c.ctx.parser.Has(h1.ChunkedBody):
		return ErrBrokenChunk{cause: err}
	}
	return requestError(err, c.ctx.Request.Header.table.Raw(), c.conn.Buffered())
}

// errBodyMemory says that Server.MaxBodyMemory is used up.
var errBodyMemory = errors.New("sluice: no memory left for request bodies")

// errRequestTimeout says that a request did not come in time. It is
// os.ErrDeadlineExceeded, which the connection has said.
var errRequestTimeout error = requestTimeout{}

// requestTimeout is the net.Error behind a 408.
type requestTimeout struct{}

func (requestTimeout) Error() string   { return "sluice: request did not arrive in time" }
func (requestTimeout) Timeout() bool   { return true }
func (requestTimeout) Temporary() bool { return true }
func (requestTimeout) Unwrap() error   { return os.ErrDeadlineExceeded }

// ErrAbortHandler, used as the value of a panic in a handler, ends the
// connection without an answer and without a log entry.
var ErrAbortHandler = errors.New("sluice: abort handler")

// prepareMessages gives request and response the server's settings.
func (c *serverConn) prepareMessages(ctx *RequestCtx) {
	if c.cfg.keepNames {
		ctx.Request.Header.DisableNormalizing()
	}
	c.prepareResponse(ctx)
}

// prepareResponse gives a response the server's defaults.
func (c *serverConn) prepareResponse(ctx *RequestCtx) {
	h := &ctx.Response.Header
	h.defaultServer = c.cfg.name
	h.SetNoDefaultContentType(c.cfg.noContentType)
	if c.cfg.keepNames {
		h.DisableNormalizing()
	}
}

// refusalText is what a connection over a limit gets.
func refusalText(status int, text string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s",
		status, StatusMessage(status), len(text), text)
}
