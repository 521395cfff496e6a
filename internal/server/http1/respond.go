package http1

import (
	"errors"
	"io"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// answer answers the request with what Serve has returned.
func (c *Conn) answer(fresh server.Request, outcome server.Outcome) engine.Next {
	x := c.x
	if fresh != nil {
		x.use(fresh)
		if !x.takeBack() {
			outcome = server.OutcomeAbort
		}
	}
	switch {
	case outcome == server.OutcomeResponse && x.input != inputCut:
	case outcome == server.OutcomeAbort:
		return c.abort()
	case x.input == inputCut:
		return c.respondAndClose()
	case outcome == server.OutcomeHijack, outcome == server.OutcomeSilent:
		return c.hijack(outcome)
	case outcome == server.OutcomeTakeover:
		return c.giveOver()
	case outcome == server.OutcomeBody:
		return c.beginBody()
	case outcome == server.OutcomePanic:
		x.sequel = sequelClose
	}
	if x.hasUsedConn && x.isClosedByHandler() {
		return c.end(engine.Close) // bytes that were written before are still sent
	}
	return c.respond()
}

// takeBack prepares x for the response in place of a handler that may still be
// running without x. It returns false if the handler has written to the
// connection.
func (x *Exchange) takeBack() bool {
	isTorn := x.hasUsedConn && x.revoke()
	if !x.isComplete() {
		x.input = inputCut
	}
	if x.hasUsedConn || x.input == inputCut {
		x.sequel = sequelClose
	}
	x.hasUsedConn = false
	return !isTorn
}

// revoke invalidates the connection that RequestCtx.Conn has returned. It
// reports whether the handler has written to it.
func (x *Exchange) revoke() (hasWritten bool) {
	conn := x.conn.conn.Blocking()
	_ = conn.Close() // then the engine closes the connection: the handler may have read past the request
	b, ok := conn.(*engine.BlockingConn)
	return ok && b.HasWritten()
}

// isClosedByHandler reports whether the handler has closed RequestCtx.Conn.
func (x *Exchange) isClosedByHandler() bool {
	closer, ok := x.conn.conn.Blocking().(interface{ IsClosed() bool })
	return ok && closer.IsClosed()
}

// end ends the request, and with it the connection, as next says.
func (c *Conn) end(next engine.Next) engine.Next {
	c.phase = readClosed
	c.endRequest()
	return next
}

// abort closes the connection without sending another byte of the response. Whole
// answers to earlier requests that wait in out are sent.
func (c *Conn) abort() engine.Next {
	if x := c.x; x.earlier > 0 {
		x.out = x.out[:x.earlier]
		return c.end(engine.CloseLinger)
	}
	return c.end(engine.Abort)
}

// persists reports whether the connection may be used after this request: for
// another request, which the server's limits may forbid, or by a hijack
// handler.
func (x *Exchange) persists(f *message.ResponseForm) bool {
	cfg, facts := x.cfg, &x.conn.facts
	switch {
	case f.Next == message.UseNone, !x.parser.KeepsAlive(), x.responseHeader.ConnectionClose:
		return false
	case f.Next == message.UseRequest && (!cfg.KeepAlive || cfg.MaxRequests > 0 && facts.Served >= cfg.MaxRequests ||
		cfg.MaxLife > 0 && x.start-facts.Opened > int64(cfg.MaxLife)):
		return false
	case cfg.Closing.Load() && (f.Next != message.UseHijack || cfg.ClosesHijacked):
		return false
	case x.input != inputStreamed:
		return true
	}
	left, err := x.unread()
	switch {
	case left == server.BodyRead:
		return true
	case f.IsStream && err == nil:
		return true // writing the response may still read the body; afterResponse handles the rest
	}
	return x.mayDrain(left, err)
}

// isLast reports whether the client has said that it sends nothing after this request
// (RFC 9112 section 9.6). Some clients send an empty line after a body (section 2.2),
// and the first bytes of another protocol before that is agreed on.
func (x *Exchange) isLast() bool {
	const more = h1.HasLength | h1.ChunkedBody | h1.AuthorityForm | h1.ConnectionUpgrade
	return !x.parser.KeepsAlive() && !x.parser.Has(more)
}

// respond sends the response. If the connection persists, it stays open, or is
// handed over if it was hijacked.
func (c *Conn) respond() engine.Next {
	x := c.x
	switch {
	case !x.request.Respond():
		return c.abort()
	case x.responseHeader.ConnectionClose: // since the head was flushed
		x.sequel = sequelClose
	}
	if x.sequel == sequelHijack {
		return engine.Detach
	}
	return c.afterResponse()
}

// respondAndClose answers, and closes the connection although the client may
// still be sending. The connection lingers, so that a reset does not destroy
// the answer.
func (c *Conn) respondAndClose() engine.Next {
	c.x.sequel = sequelClose
	if next := c.respond(); next == engine.Abort {
		return next
	}
	return engine.CloseLinger
}

// afterResponse ends the request. If the connection stays open, it first drains
// the unread rest of the body.
func (c *Conn) afterResponse() engine.Next {
	x := c.x
	if x.writeTimeoutChanged && x.output != outputFile && !x.Flush() { // the write time-out ends with the request
		return c.abort()
	}
	left, err := x.unread()
	if err != nil {
		c.host.Fail(err)
	}
	switch {
	case x.sequel == sequelClose && left == server.BodyRead:
		if x.isLast() {
			return c.end(engine.CloseQuiet)
		}
		return c.end(engine.Close)
	case x.sequel == sequelClose || left != server.BodyRead && !x.mayDrain(left, err):
		return c.end(engine.CloseLinger)
	case left != server.BodyRead:
		c.phase = readDrain
		x.beginDrain()
		return engine.Read
	}
	c.endRequest()
	if len(c.conn.Buffered()) == 0 {
		c.awaitRequest()
		return engine.Read
	}
	c.phase, c.sharesStart, c.lacksIdleTime = readIdle, true, true // there is nothing to wait for
	c.tellState(StateIdle)
	return engine.Read
}

// endRequest makes x ready for the next request, unless it is.
func (c *Conn) endRequest() {
	x := c.x
	if x == nil || x.progress != begun {
		return
	}
	if x.writeTimeoutChanged {
		c.conn.SetWriteTimeout(c.cfg.WriteTimeout)
	}
	if fresh := x.request.End(); fresh != nil {
		x.use(fresh)
	}
	if x.blocking.Load() != nil {
		x.blocking.Store(nil)
	}
	x.progress, x.marks = ended, marks{}
}

// answerFailure answers a request that does not reach the handler.
func (c *Conn) answerFailure() engine.Next {
	x := c.x
	x.sequel = sequelClose // an ErrorHandler may flush
	x.request.Begin(&c.facts, x.start)
	err := x.failure
	public := err
	if c.cfg.ShowsErrors {
		public = x.publicFailure() // it may quote the head
		if x.failedIn == readHead {
			x.requestHeader.Table.Reset() // its fields do not refer to their bytes yet
		}
	}
	x.request.Refuse(err, public)
	if c.cfg.LogsAll {
		c.host.Log(c.conn, err)
	}
	return c.respondAndClose()
}

// publicFailure wraps x.failure with the exported errors that users can test for.
func (x *Exchange) publicFailure() error {
	err, isHead := x.failure, x.failedIn == readHead
	var wire *h1.Error
	switch {
	case !errors.As(err, &wire):
		return err
	case wire == h1.ErrTruncatedMessage && !isHead:
		return io.ErrUnexpectedEOF
	case wire == h1.ErrTruncatedMessage:
		return message.Known(io.ErrUnexpectedEOF, err)
	case wire.Status == statusFieldsTooLarge, wire == h1.ErrLineTooLong:
		return message.SmallBuffer(err)
	case wire == h1.ErrTrailer:
		return message.Known(message.ErrBadTrailer, err)
	case !isHead && x.parser.Has(h1.ChunkedBody):
		return message.BrokenChunk(err)
	}
	return message.RequestError(err, x.requestHeader.Table.Raw(), x.conn.conn.Buffered())
}

const statusFieldsTooLarge = 431
