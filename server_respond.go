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
		ctx.Response.Header.table.DelID(field.Server) // ExpectHandler may have set it
	}
	ctx.Response.Header.showsServer = true
	aborted := c.callHandler(ctx)
	if ctx.timeoutResponse.Load() != nil { // other goroutines may use ctx, even after a panic
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

// isClosedByHandler reports whether the handler has closed RequestCtx.Conn.
func (c *serverConn) isClosedByHandler() bool {
	closer, ok := c.conn.Blocking().(interface{ IsClosed() bool })
	return ok && closer.IsClosed()
}

// drop closes the connection without the response. Bytes that were written
// before are still sent.
func (c *serverConn) drop() engine.Next {
	c.state = readClosed
	c.endRequest()
	return engine.Close
}

// callHandler runs the handler and recovers its panics.
func (c *serverConn) callHandler(ctx *RequestCtx) (aborted bool) {
	defer func() {
		if v := recover(); v != nil {
			aborted = c.handlerPanicked(ctx, v)
		}
	}()
	c.cfg.handler(ctx)
	return false
}

// crash ends the process because of a panic (Server.CrashOnPanic). Engines
// recover panics, so it panics in another goroutine.
func crash(v any) {
	text := fmt.Sprintf("%v\n\n%s", v, debug.Stack())
	go panic(text)
	select {}
}

// handlerPanicked answers 500 if nothing was sent yet. It returns true if the
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
	case ctx.timeoutResponse.Load() != nil: // other goroutines may be using ctx
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

// abort closes the connection without sending another byte.
func (c *serverConn) abort() engine.Next {
	c.state = readClosed
	c.endRequest()
	return engine.Abort
}

// persists reports whether the connection may be used after this request: for
// another request, which the server's limits may forbid, or by a hijack
// handler.
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
		return false // the client expects a tunnel next (RFC 9110 section 9.3.6)
	}
	return true
}

// streamMayRead reports whether writing the response may still read the
// request's body. afterResponse then handles the rest.
func (c *serverConn) streamMayRead() bool {
	return c.ctx.Response.stream != nil && c.ctx.requestStream.err == nil
}

// framing derives how the body of a response is delimited. If the status or the
// method forbids a body, none of its bytes is sent (RFC 9112 section 6.3).
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
			f.length = int64(resp.Header.contentLength) // the length of the body that is not sent
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
			f.length, f.omitDefaultType = -2, true // the answer to GET may have a body of unknown length
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

// respond writes ctx.Response. If keep is set, the connection stays open, or is
// handed over if it was hijacked.
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
	if len(ctx.Request.userValues) > 0 { // their Close methods may look at the response
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
// stream may be the request's body: after the head of the response, no interim
// response may follow. It returns false if the connection is broken.
func (c *serverConn) askForBody() bool {
	ctx := c.ctx
	if !ctx.requestStream.awaitsContinue || isFileStream(ctx.Response.stream) {
		return true
	}
	ctx.requestStream.awaitsContinue = false
	ctx.out = append(ctx.out, continueLine...)
	return c.flush() // at once: the client waits for this line, and the stream for the body
}

// appendOneChunk appends a buffered body as one chunk, with trailer fields.
func (c *serverConn) appendOneChunk() {
	ctx := c.ctx
	ctx.out = h1.AppendChunk(ctx.out, ctx.Response.bodyBytes())
	ctx.out = append(ctx.out, h1.LastChunk...)
	ctx.out = ctx.Response.Header.appendTrailers(ctx.out)
}

// mayBeWrong reports whether correctStatus could replace a response with
// status.
func mayBeWrong(status int) bool { return status < StatusOK || status == StatusNotFound }

// correctStatus replaces responses whose status is wrong. They are an interim
// status, after which the client would wait for the final response (RFC 9110
// section 15.2); 101 without a hijack handler; and 404 to CONNECT. CONNECT asks
// for a tunnel, not for a resource, so a handler without tunnels must answer
// 501.
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

// afterResponse ends the request. If the connection stays open, it first drains
// the unread rest of the body.
func (c *serverConn) afterResponse(keep bool) engine.Next {
	ctx := c.ctx
	if ctx.writeTimeoutChanged && !ctx.sendsFile && !c.flush() { // the write time-out ends with the request
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

// endRequest makes ctx ready for the next request. If other goroutines may
// still use ctx, endRequest gives it up and replaces it.
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

// answerFailure answers a request that does not reach the handler.
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
		public := c.publicFailure(err) // the error may quote the head
		if !ctx.headIsComplete {
			ctx.Request.Header.table.Reset() // its fields do not refer to their bytes yet
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

// callErrorHandler runs the user's ErrorHandler and answers its panics with
// 500.
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

// respondAndClose answers, and closes the connection although the client may
// still be sending. The connection lingers, so that a reset does not destroy
// the answer.
func (c *serverConn) respondAndClose() engine.Next {
	if next := c.respond(false); next == engine.Abort {
		return next
	}
	return engine.CloseLinger
}

// failureStatus returns the status for err.
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

// publicFailure wraps err, because of which the request in ctx is refused, with
// the exported errors that users can test for.
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

// errRequestTimeout says that a request did not arrive in time. It unwraps to
// os.ErrDeadlineExceeded, the error of the connection.
var errRequestTimeout error = requestTimeout{}

// requestTimeout is the type of errRequestTimeout, a net.Error. It is answered
// 408.
type requestTimeout struct{}

func (requestTimeout) Error() string   { return "sluice: request did not arrive in time" }
func (requestTimeout) Timeout() bool   { return true }
func (requestTimeout) Temporary() bool { return true }
func (requestTimeout) Unwrap() error   { return os.ErrDeadlineExceeded }

// ErrAbortHandler, as the value of a panic in a handler, makes the server close
// the connection without a response and without a log entry.
var ErrAbortHandler = errors.New("sluice: abort handler")

// prepareMessages applies the server's settings to the request and the
// response.
func (c *serverConn) prepareMessages(ctx *RequestCtx) {
	if c.cfg.keepNames {
		ctx.Request.Header.DisableNormalizing()
	}
	c.prepareResponse(ctx)
}

// prepareResponse applies the server's defaults to the response.
func (c *serverConn) prepareResponse(ctx *RequestCtx) {
	h := &ctx.Response.Header
	h.defaultServer = c.cfg.name
	h.SetNoDefaultContentType(c.cfg.noContentType)
	if c.cfg.keepNames {
		h.DisableNormalizing()
	}
}

// refusalText returns the response for a connection over a limit.
func refusalText(status int, text string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s",
		status, StatusMessage(status), len(text), text)
}
