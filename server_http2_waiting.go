package sluice

import (
	"time"

	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
)

// http2Waiting is what is kept of a request while its body does not go on, or the handler waits
// for room. A RequestCtx is four times as large.
type http2Waiting struct {
	facts  server.Facts
	header message.RequestHeader
	body   *bodyBuffer // what has arrived of it
	held   int64       // its length
	start  int64       // of the RequestCtx
	due    int64       // when the body is late
}

// http2BodyRest is how long nothing of a body arrives before the RequestCtx is given up.
// Bursts never pay for that.
const http2BodyRest = 2 * time.Second

// BodyDue implements http2.Request.
func (x *http2Exchange) BodyDue(heard int64) int64 {
	if w := x.waiting; w != nil {
		return w.due
	}
	return min(x.bodyDue(heard), heard+int64(http2BodyRest))
}

// bodyDue returns when a body is late, of which the last part came at heard.
func (x *http2Exchange) bodyDue(heard int64) int64 {
	if timeout := x.request().BodyTimeout(); timeout > 0 {
		return x.ctx.start + int64(timeout)
	}
	return heard + int64(x.host.cfg.http2.ReadTimeout)
}

// BodyLate implements http2.Request.
func (x *http2Exchange) BodyLate(heard, now int64) (isOver bool) {
	if x.waiting != nil {
		return true
	}
	due := x.bodyDue(heard)
	if due <= now {
		return true
	}
	x.rest(due)
	return false
}

// Rest implements http2.Request.
func (x *http2Exchange) Rest() {
	if x.waiting == nil && x.failure == nil && !x.decides && !x.connects && x.ctx.requestStream.exchange == nil {
		x.rest(0)
	}
}

// rest keeps only what wake needs. No callback has seen the RequestCtx yet, and no pool gets
// it: parts of it are used further.
func (x *http2Exchange) rest(due int64) {
	ctx := x.ctx
	x.waiting = &http2Waiting{ctx.facts, ctx.Request.Header.m, ctx.Request.takeBuffer(), ctx.bodyHeld, ctx.start, due}
	x.ctx = nil
}

// wake makes a RequestCtx of what BodyLate has kept, if there is none.
func (x *http2Exchange) wake() {
	w := x.waiting
	if w == nil {
		return
	}
	x.waiting = nil
	ctx := &RequestCtx{exchange: x}
	ctx.attach(x.host.server, x.host.cfg)
	x.ctx = ctx
	x.request().Begin(&w.facts, w.start)
	ctx.streamID, ctx.bodyHeld = x.stream.ID(), w.held
	ctx.Request.Header.m = w.header
	ctx.Request.giveBuffer(w.body)
	ctx.Request.Header.m.Moved()
	_ = x.request().HeadComplete(false) // it has accepted the head before
}

// forget gives back what a request holds that ends without its body.
func (x *http2Exchange) forget() {
	if w := x.waiting; w != nil && x.host.cfg.maxBodyMemory > 0 {
		x.host.server.gauges.bodyMemory.Add(-w.held)
	}
	x.waiting = nil
}
