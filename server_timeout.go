package sluice

import (
	"runtime/debug"
	"sync/atomic"
	"time"
)

// TimeoutHandler returns a handler that answers 408 with msg when h has not
// returned within timeout. h runs on its own goroutine. If h has sent part of a
// response by then, or is blocked in a write to the client, the server closes
// the connection instead, and the blocked write fails. A timeout of zero or
// less means no limit: TimeoutHandler returns h itself.
//
// After the time-out h keeps running in the background and owns its ctx, which
// no longer reaches the client; ctx.Done is closed.
//
// All handlers that run under TimeoutHandler count against Server.Concurrency
// (DefaultConcurrency if zero): those within their time-out and those that
// exceed it. When that many run, further requests are answered 429 with msg.
func TimeoutHandler(h RequestHandler, timeout time.Duration, msg string) RequestHandler {
	return TimeoutWithCodeHandler(h, timeout, msg, StatusRequestTimeout)
}

// TimeoutWithCodeHandler is TimeoutHandler with statusCode in place of 408.
func TimeoutWithCodeHandler(h RequestHandler, timeout time.Duration, msg string, statusCode int) RequestHandler {
	if timeout <= 0 {
		return h
	}
	return func(ctx *RequestCtx) {
		if !ctx.beginTimed() {
			ctx.Error(msg, StatusTooManyRequests)
			return
		}
		run := timedRun{ctx: ctx, finished: make(chan struct{})}
		go run.call(h)
		timer := AcquireTimer(timeout)
		defer ReleaseTimer(timer)
		select {
		case <-run.finished:
		case <-timer.C:
			if run.isSettled.CompareAndSwap(false, true) {
				ctx.TimeoutErrorWithCode(msg, statusCode)
				ctx.letsGo = true
				return
			}
			<-run.finished // h finished first
		}
		if run.panicValue != nil {
			panic(run.panicValue)
		}
	}
}

// timedRun is one call of a handler under TimeoutHandler.
type timedRun struct {
	ctx        *RequestCtx
	finished   chan struct{}
	isSettled  atomic.Bool // whoever sets it decides whether h is in time
	panicValue any         // of the handler; read after finished is closed
}

// call runs h. After the time-out h owns ctx: call then releases what ends with
// a request, and logs a panic, which has no caller to reach.
func (r *timedRun) call(h RequestHandler) {
	server := r.ctx.server
	defer func() {
		r.panicValue = recover()
		if server != nil {
			server.gauges.timed.Add(-1)
		}
		if !r.isSettled.CompareAndSwap(false, true) {
			if v := r.panicValue; v != nil && v != ErrAbortHandler {
				r.ctx.Logger().Printf("panic in handler after its time-out: %v\n%s", v, debug.Stack())
			}
			r.ctx.letGo()
		}
		close(r.finished)
	}()
	h(r.ctx)
}

// beginTimed counts a handler that starts under TimeoutHandler. It returns
// false, without counting, when Server.Concurrency of them already run.
func (ctx *RequestCtx) beginTimed() bool {
	if ctx.server == nil {
		return true
	}
	limit := int64(positiveOr(ctx.server.Concurrency, DefaultConcurrency))
	if ctx.server.gauges.timed.Add(1) > limit {
		ctx.server.gauges.timed.Add(-1)
		return false
	}
	return true
}

// TimeoutError sets a response with status 408 and msg. The server sends it in
// place of ctx.Response when the handler returns, and never uses ctx again:
// goroutines that still use ctx own it.
//
// Call it before the handler returns. If it is called several times, the last
// call before the return counts, including the call by TimeoutHandler.
func (ctx *RequestCtx) TimeoutError(msg string) {
	ctx.TimeoutErrorWithCode(msg, StatusRequestTimeout)
}

// TimeoutErrorWithCode is TimeoutError with statusCode in place of 408.
func (ctx *RequestCtx) TimeoutErrorWithCode(msg string, statusCode int) {
	var resp Response
	resp.SetStatusCode(statusCode)
	resp.SetBodyString(msg)
	ctx.TimeoutErrorWithResponse(&resp)
}

// TimeoutErrorWithResponse is TimeoutError with a copy of resp as the response.
func (ctx *RequestCtx) TimeoutErrorWithResponse(resp *Response) {
	own := &Response{}
	resp.CopyTo(own)
	ctx.timeoutResponse.Store(own)
}

// LastTimeoutErrorResponse returns the response that TimeoutError or one of its
// relatives has set, nil if none was called. Do not change it.
func (ctx *RequestCtx) LastTimeoutErrorResponse() *Response { return ctx.timeoutResponse.Load() }

// replaceTimedOut gives ctx up to the goroutines that still use it. The fresh
// RequestCtx has the response of TimeoutError. isTorn says that it cannot be
// sent, because part of another one was.
func (ctx *RequestCtx) replaceTimedOut() (fresh *RequestCtx, isTorn bool) {
	ctx.cfg.meter.timedOut()
	response := ctx.timeoutResponse.Load() // later calls have no effect
	fresh, isTorn = ctx.giveUp()
	ctx.requestStream.interrupt()
	if ctx.Request.hasFormFiles() && !ctx.letsGo {
		ctx.server.gauges.forms.Collect()
	}
	fresh.phase, fresh.verb, fresh.isHTTP10 = phaseReceived, ctx.verb, ctx.isHTTP10
	fresh.bodyHeld = ctx.bodyHeld
	response.CopyTo(&fresh.Response)
	fresh.prepareResponse()
	return fresh, isTorn
}
