package sluice

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server/http1"
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
