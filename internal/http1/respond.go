package sluice

import (
	"errors"
	"io"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/h1"
	"github.com/sluicehttp/sluice/internal/message"
)

// handle runs the handler for the request in x and answers it.
func (c *http1Conn) handle() engine.Next {
	x := c.x
	ctx, end := x.ctx.runHandler()
	if ctx != x.ctx {
		x.ctx = ctx
		switch {
		case !x.takeBack():
			end = handlerAborted
		case end != handlerAborted && !x.isComplete():
			return c.respondAndClose()
		}
	}
	x.closes = x.closes || end == handlerPanicked
	switch {
	case end == handlerAborted:
		return c.abort()
	case ctx.hijackHandler != nil:
		return c.hijack()
	case ctx.takeover != nil:
		return c.giveOver()
	case x.hasUsedConn && x.isClosedByHandler():
		return c.drop()
	}
	return c.respond()
}

// takeBack prepares x for the response of TimeoutError: the handler may still be
// running without x. It returns false if the handler has written to the
// connection.
func (x *http1Exchange) takeBack() bool {
	isTorn := x.hasUsedConn && x.revoke()
	x.closes = x.closes || x.hasUsedConn || !x.isComplete()
	x.hasUsedConn = false
	return !isTorn
}

// revoke invalidates the connection that RequestCtx.Conn has returned. It
// reports whether the handler has written to it.
func (x *http1Exchange) revoke() (hasWritten bool) {
	conn := x.conn.conn.Blocking()
	_ = conn.Close() // then the engine closes the connection: the handler may have read past the request
	b, ok := conn.(*engine.BlockingConn)
	return ok && b.HasWritten()
}

// isClosedByHandler reports whether the handler has closed RequestCtx.Conn.
func (x *http1Exchange) isClosedByHandler() bool {
	closer, ok := x.conn.conn.Blocking().(interface{ IsClosed() bool })
	return ok && closer.IsClosed()
}

// drop closes the connection without the response. Bytes that were written
// before are still sent.
func (c *http1Conn) drop() engine.Next {
	c.phase = readClosed
	c.endRequest()
	return engine.Close
}

// abort closes the connection without sending another byte.
func (c *http1Conn) abort() engine.Next {
	c.phase = readClosed
	c.endRequest()
	return engine.Abort
}

// persists reports whether the connection may be used after this request: for
// another request, which the server's limits may forbid, or by a hijack
// handler.
func (x *http1Exchange) persists(f *message.ResponseForm) bool {
	ctx, c := x.ctx, x.conn
	cfg := c.cfg
	switch {
	case f.Next == message.UseNone, !x.parser.KeepsAlive(), ctx.Response.ConnectionClose():
		return false
	case f.Next == message.UseRequest && (!cfg.keepAlive || cfg.maxRequestsPerConn > 0 && c.served >= cfg.maxRequestsPerConn ||
		cfg.maxConnLife > 0 && ctx.start-c.facts.opened > int64(cfg.maxConnLife)):
		return false
	case c.server.closeRequested() && (f.Next != message.UseHijack || cfg.closesHijacked):
		return false
	case !ctx.requestStream.isUnread():
		return true
	case f.IsStream && ctx.requestStream.err == nil:
		return true // writing the response may read the body; afterResponse handles the rest
	}
	return x.mayDrain()
}

// respond sends the response. If the connection persists, it stays open, or is
// handed over if it was hijacked.
func (c *http1Conn) respond() engine.Next {
	x := c.x
	switch {
	case !x.ctx.respond():
		return c.abort()
	case !x.closes && x.ctx.hijackHandler != nil:
		c.cfg.retain()
		return engine.Detach
	}
	return c.afterResponse()
}

// respondAndClose answers, and closes the connection although the client may
// still be sending. The connection lingers, so that a reset does not destroy
// the answer.
func (c *http1Conn) respondAndClose() engine.Next {
	c.x.closes = true
	if next := c.respond(); next == engine.Abort {
		return next
	}
	return engine.CloseLinger
}

// afterResponse ends the request. If the connection stays open, it first drains
// the unread rest of the body.
func (c *http1Conn) afterResponse() engine.Next {
	x := c.x
	stream := &x.ctx.requestStream
	if x.writeTimeoutChanged && !x.sendsFile && !x.Flush() { // the write time-out ends with the request
		return c.abort()
	}
	unread := stream.isUnread()
	if unread && stream.err != nil {
		c.cfg.fail(stream.err)
	}
	switch {
	case x.closes && !unread:
		c.phase = readClosed
		c.endRequest()
		return engine.Close
	case x.closes || unread && !x.mayDrain():
		c.phase = readClosed
		c.endRequest()
		return engine.CloseLinger
	case unread:
		c.phase = readDrain
		x.beginDrain()
		return engine.Read
	}
	c.endRequest()
	c.awaitRequest()
	c.sharesStart = len(c.conn.Buffered()) > 0
	return engine.Read
}

// awaitRequest makes the connection idle.
func (c *http1Conn) awaitRequest() {
	c.phase, c.sharesStart = readIdle, false
	if c.cfg.idleTimeout > 0 {
		c.conn.SetReadDeadline(clock.Nanos(), c.cfg.idleTimeout)
	} else {
		c.conn.SetReadDeadline(0, 0)
	}
	c.tellState(StateIdle)
}

// endRequest makes x ready for the next request.
func (c *http1Conn) endRequest() {
	x := c.x
	if x == nil {
		return
	}
	if x.writeTimeoutChanged {
		c.conn.SetWriteTimeout(c.cfg.writeTimeout)
	}
	x.ctx = x.ctx.end()
	if x.blocking.Load() != nil {
		x.blocking.Store(nil)
	}
	x.http1Marks = http1Marks{}
}

// answerFailure answers a request that does not reach the handler.
func (c *http1Conn) answerFailure() engine.Next {
	x := c.x
	x.closes = true // an ErrorHandler may flush
	err := x.failure
	public := err
	if c.cfg.single != nil || c.cfg.errorHandler != nil {
		public = x.publicFailure() // the error may quote the head
		if x.ctx.phase == phaseReceiving {
			x.ctx.Request.Header.m.Table.Reset() // its fields do not refer to their bytes yet
		}
	}
	var wire *h1.Error
	if errors.As(err, &wire) {
		x.ctx.refuse(wire.Status, err, public)
	} else {
		x.ctx.refuse(failureStatus(err), err, public)
	}
	if c.cfg.logsAllErrors {
		c.logError(err)
	}
	return c.respondAndClose()
}

// publicFailure wraps x.failure with the exported errors that users can test
// for.
func (x *http1Exchange) publicFailure() error {
	err := x.failure
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
	case x.ctx.phase == phaseReceived && x.parser.Has(h1.ChunkedBody):
		return ErrBrokenChunk{cause: err}
	}
	return requestError(err, x.rawHead(), x.conn.conn.Buffered())
}
