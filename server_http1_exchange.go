package sluice

import (
	"errors"
	"io"
	"net"
	"runtime/debug"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server/http1"
	"github.com/sluicehttp/sluice/internal/server/http2"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// http1Exchange is the http1.Request of an Exchange, which is the serverExchange of its
// RequestCtx.
type http1Exchange struct {
	http1.Exchange
	ctx *RequestCtx // replaced when it is given up
}

var (
	_ serverExchange = (*http1.Exchange)(nil)
	_ http1.Request  = (*http1Exchange)(nil)
)

// newHTTP1Exchange returns an exchange and its RequestCtx, which refer to each
// other.
func newHTTP1Exchange() *http1Exchange {
	x := &http1Exchange{}
	x.Request = x
	x.use(&RequestCtx{exchange: &x.Exchange})
	return x
}

// use makes ctx the RequestCtx of x.
func (x *http1Exchange) use(ctx *RequestCtx) {
	x.ctx = ctx
	x.RequestHeader, x.ResponseHeader = &ctx.Request.Header.m, &ctx.Response.Header.m
}

// begin passes on what is known since the first byte of the request.
func (x *http1Exchange) begin() { x.ctx.begin(x.Facts(), x.Start) }

// HeadReceived implements http1.Request.
func (x *http1Exchange) HeadReceived(isHTTP10 bool) error {
	x.begin()
	return x.ctx.headComplete(isHTTP10)
}

// Consult implements http1.Request.
func (x *http1Exchange) Consult() error { return x.ctx.headerReceived() }

// ExpectBody implements http1.Request.
func (x *http1Exchange) ExpectBody(length int64) (isStreamed bool, err error) {
	return x.ctx.expectBody(length)
}

// ExpectContinue implements http1.Request.
func (x *http1Exchange) ExpectContinue(isWaiting bool) (isWanted bool, err error) {
	ctx := x.ctx
	status, err := ctx.expectStatus()
	if err == nil && status != StatusContinue {
		ctx.refuseBody(status)
	}
	ctx.requestStream.awaitsContinue = isWaiting && status == StatusContinue && ctx.requestStream.exchange != nil
	return status == StatusContinue, err
}

// BodyReceived implements http1.Request.
func (x *http1Exchange) BodyReceived(p []byte, more uint64) error {
	if len(p) > 0 {
		if err := x.ctx.keepBody(p); err != nil {
			return err
		}
	}
	if !x.ctx.mayHold(more) {
		return ErrBodyTooLarge
	}
	return nil
}

// BodyTimeout implements http1.Request.
func (x *http1Exchange) BodyTimeout() time.Duration { return x.ctx.bodyTimeout() }

// Serve implements http1.Request.
func (x *http1Exchange) Serve() http1.Outcome {
	x.ctx.start = x.Start
	ctx, end := x.ctx.runHandler()
	if ctx != x.ctx {
		x.use(ctx)
		if !x.TakeBack() {
			end = handlerAborted
		}
	}
	switch {
	case end == handlerAborted:
		return http1.OutcomeAbort
	case ctx.hijackHandler != nil:
		ctx.cfg.retain()
		if ctx.hijackNoResponse && (ctx.phase != phaseFlushed || ctx.form.Next == message.UseHijack) { // otherwise there is one
			return http1.OutcomeSilent
		}
		return http1.OutcomeHijack
	case ctx.takeover != nil:
		return http1.OutcomeTakeover
	case end == handlerPanicked:
		return http1.OutcomePanic
	}
	return http1.OutcomeResponse
}

// Refuse implements http1.Request.
func (x *http1Exchange) Refuse(err error) {
	x.begin()
	ctx := x.ctx
	public := err
	if ctx.cfg.single != nil || ctx.cfg.errorHandler != nil {
		public = x.publicFailure(err) // the error may quote the head
		if ctx.phase == phaseReceiving {
			ctx.Request.Header.m.Table.Reset() // its fields do not refer to their bytes yet
		}
	}
	ctx.refuse(failureStatus(err), err, public)
	if ctx.cfg.LogsAll {
		ctx.cfg.logConnError(x.Engine(), err)
	}
}

// publicFailure wraps err with the exported errors that users can test for.
func (x *http1Exchange) publicFailure(err error) error {
	var wire *h1.Error
	switch {
	case !errors.As(err, &wire):
		return err
	case wire == h1.ErrTruncatedMessage && x.ctx.phase == phaseReceived:
		return io.ErrUnexpectedEOF
	case wire == h1.ErrTruncatedMessage:
		return message.Known(io.ErrUnexpectedEOF, err)
	case wire.Status == StatusRequestHeaderFieldsTooLarge, wire == h1.ErrLineTooLong:
		return message.SmallBuffer(err)
	case wire == h1.ErrTrailer:
		return message.Known(ErrBadTrailer, err)
	case x.ctx.phase == phaseReceived && x.IsChunked():
		return message.BrokenChunk(err)
	}
	return message.RequestError(err, x.RequestHeader.Table.Raw(), x.Engine().Buffered())
}

// Respond implements http1.Request.
func (x *http1Exchange) Respond() bool { return x.ctx.respond() }

// BeginTakeover implements http1.Request.
func (x *http1Exchange) BeginTakeover() (opens, ok bool) {
	ctx := x.ctx
	writesBody := ctx.takeover.WritesBody
	if writesBody && ctx.mayBeginBody() {
		ctx.beginBody()
		return true, true
	}
	ok = ctx.respond()
	return !writesBody && !x.Closes() && !ctx.requestStream.isUnread(), ok
}

// Open implements http1.Request.
func (x *http1Exchange) Open(c engine.Conn, out []byte) (engine.Protocol, []byte) {
	return x.ctx.takeover.Open(x.ctx.takeover.host, c, out)
}

// Hijacker implements http1.Request.
func (x *http1Exchange) Hijacker() func(net.Conn) { return x.ctx.takeHijackHandler() }

// Unread implements http1.Request.
func (x *http1Exchange) Unread() (http1.BodyState, error) {
	s := &x.ctx.requestStream
	switch {
	case !s.isUnread():
		return http1.BodyRead, nil
	case s.awaitsContinue:
		return http1.BodyAwaited, s.err
	}
	return http1.BodyUnread, s.err
}

// MayWait implements http1.Request.
func (x *http1Exchange) MayWait() error { return x.ctx.requestStream.mayWait() }

// ReadLimit implements http1.Request.
func (x *http1Exchange) ReadLimit() (start int64, timeout time.Duration) {
	return x.ctx.start, x.ctx.readTimeout
}

// End implements http1.Request.
func (x *http1Exchange) End() {
	if ctx := x.ctx.end(); ctx != x.ctx {
		x.use(ctx)
	}
}

// Shrink implements http1.Request.
func (x *http1Exchange) Shrink() { x.ctx.shrink() }

// Release implements http1.Request.
func (x *http1Exchange) Release(hasWaited bool) {
	if hasWaited {
		buf.LetGo(x.ctx.heldBytes())
	}
	x.ctx.shrink()
	x.ctx.detach()
	http1ExchangePool.Put(x)
}

// An acceptor is the server of its HTTP/1.1 connections, as package http1 sees it.
var (
	_ http1.Host   = (*acceptor)(nil)
	_ engine.Waker = (*acceptor)(nil)
)

// The lowest bits of Memo.Served. The others store the number of requests, or the record
// of a connection of HTTP/2, or name an upgrade.Host and what it has stored.
const (
	memoTLS      = http1.MemoTLS // connFacts.IsTLS
	memoHTTP2    = memoTLS << 1  // the protocol
	memoUpgraded = memoTLS << 2  // the protocol is that of an upgrade.Host
	memoShift    = http1.MemoShift
)

// Wake restores what Sleep returned; see engine.Waker.
func (a *acceptor) Wake(conn engine.Conn, m engine.Memo) engine.Protocol {
	switch {
	case m.Served&memoUpgraded != 0:
		return a.server.wakeUpgraded(conn, m)
	case m.Served&memoHTTP2 != 0:
		facts := connFacts{ID: m.ID, Opened: m.Opened, IsTLS: m.Served&memoTLS != 0}
		return a.wakeHTTP2(conn, facts, http2.Record(m.Served>>memoShift))
	}
	return http1.Wake(conn, a, &a.cfg.Config, m)
}

// NewExchange implements http1.Host.
func (a *acceptor) NewExchange() *http1.Exchange {
	x := http1ExchangePool.Get().(*http1Exchange)
	x.ctx.attach(a.server, a.cfg)
	return &x.Exchange
}

// http1States are the states of package http1.
var http1States = [...]ConnState{http1.StateActive: StateActive, http1.StateIdle: StateIdle, http1.StateHijacked: StateHijacked, http1.StateClosed: StateClosed}

// TellState implements http1.Host.
func (a *acceptor) TellState(c net.Conn, s http1.State) { a.cfg.connState(c, http1States[s]) }

// Fail implements http1.Host.
func (a *acceptor) Fail(err error) { a.cfg.fail(err) }

// Log implements http1.Host. Without LogAllErrors it skips errors that the client causes.
func (a *acceptor) Log(c engine.Conn, err error) {
	var violation *h1.Error
	if a.cfg.LogsAll || !errors.As(err, &violation) {
		a.cfg.logConnError(c, err)
	}
}

// RunHijacked implements http1.Host.
func (a *acceptor) RunHijacked(conn net.Conn, handler func(net.Conn)) {
	defer func() {
		if v := recover(); v != nil {
			a.cfg.logger.Printf("panic in hijack handler: %v\n%s", v, debug.Stack())
			conn.Close()
		}
	}()
	handler(conn)
	if !a.cfg.keepHijacked {
		conn.Close()
	}
}

// OpenHTTP2 implements http1.Host.
func (a *acceptor) OpenHTTP2(conn engine.Conn, f *http1.Facts, begun []byte, start int64) engine.Protocol {
	if !a.cfg.speaksHTTP2(a.server) {
		return nil
	}
	c := a.openHTTP2(conn, connFacts{ID: f.ID, Opened: f.Opened, IsTLS: f.IsTLS}, begun)
	c.BeganAt(start)
	c.isActive = true // as ConnState was told
	return c
}
