package sluice

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// TimeoutHandler answers 408 with msg when h has not returned within timeout. If h
// has sent a part of an answer by then, or is waiting for the client to take one,
// the connection is closed instead, and the write that waits fails.
// h goes on in the background; its ctx is its own from then on and no longer
// reaches the client, and ctx.Done is closed. With Server.Concurrency handlers
// running over time, further requests are answered 429.
func TimeoutHandler(h RequestHandler, timeout time.Duration, msg string) RequestHandler {
	return TimeoutWithCodeHandler(h, timeout, msg, StatusRequestTimeout)
}

// TimeoutWithCodeHandler is TimeoutHandler with another status.
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
			<-run.finished // in the last moment
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
	isSettled  atomic.Bool // whether h is in time: who sets it decides
	panicValue any         // of the handler; read after finished is closed
}

// call runs h. After the time-out the ctx is h's own: what ends with a request
// ends with h, and a panic has nobody to go to but the log.
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

// beginTimed counts a handler under TimeoutHandler, and refuses one more than
// the server's concurrency.
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

// TimeoutError answers with status 408 and msg, whatever ctx.Response holds
// when the handler returns, and leaves ctx to the goroutines that still use
// it: the server never touches it again.
//
// It must be called before the handler returns. The last call before that counts,
// that of TimeoutHandler included.
func (ctx *RequestCtx) TimeoutError(msg string) {
	ctx.TimeoutErrorWithCode(msg, StatusRequestTimeout)
}

// TimeoutErrorWithCode is TimeoutError with another status.
func (ctx *RequestCtx) TimeoutErrorWithCode(msg string, statusCode int) {
	var resp Response
	resp.SetStatusCode(statusCode)
	resp.SetBodyString(msg)
	ctx.TimeoutErrorWithResponse(&resp)
}

// TimeoutErrorWithResponse is TimeoutError with a copy of resp as the answer.
func (ctx *RequestCtx) TimeoutErrorWithResponse(resp *Response) {
	own := &Response{}
	resp.CopyTo(own)
	ctx.timeoutResponse.Store(own)
}

// LastTimeoutErrorResponse returns the response of TimeoutError and its
// relatives, nil if none was called. It must not be changed.
func (ctx *RequestCtx) LastTimeoutErrorResponse() *Response { return ctx.timeoutResponse.Load() }

// replaceTimedOut leaves ctx to whoever still uses it and continues with a
// fresh one. It returns nil if nothing can be answered any more, because a part
// of something else was sent.
func (c *serverConn) replaceTimedOut(ctx *RequestCtx) *RequestCtx {
	response := ctx.timeoutResponse.Load() // calls from now on come too late
	unread := ctx.requestStream.isUnread()
	out, isTorn := ctx.detach()
	if ctx.hasUsedConn && c.revoke() {
		isTorn = true
	}
	ctx.requestStream.interrupt()
	if ctx.Request.formFiles.Load() != nil && !ctx.letsGo {
		c.server.collectForms()
	}
	fresh := c.server.acquireCtx(c)
	fresh.out = out
	fresh.start = ctx.start
	fresh.parser = ctx.parser
	fresh.headIsComplete, fresh.isHead = true, ctx.isHead
	fresh.bodyHeld, fresh.writeTimeoutChanged = ctx.bodyHeld, ctx.writeTimeoutChanged
	response.CopyTo(&fresh.Response)
	c.prepareResponse(fresh)
	if unread || ctx.hasUsedConn {
		fresh.Response.SetConnectionClose()
	}
	c.ctx = fresh
	if isTorn {
		return nil
	}
	return fresh
}

// formPatience is how long temporary files are kept, at the least, whose
// RequestCtx was left to others.
const formPatience = time.Second

// collectForms has the garbage collector run soon, unless it does by itself: it
// finds out when nothing refers any more to the form of a RequestCtx that was
// left to others, and its files can go. However many there are, it is asked for
// once in formPatience at the most.
func (s *Server) collectForms() {
	s.gauges.formsLeft.Store(collections())
	if !s.gauges.isCollecting.CompareAndSwap(false, true) {
		return
	}
	time.AfterFunc(formPatience, func() {
		s.gauges.isCollecting.Store(false)
		// One that was going on when the form was left may have missed it.
		if collections() < s.gauges.formsLeft.Load()+2 {
			runtime.GC()
		}
	})
}

// collections returns how often the garbage collector has run.
func collections() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
