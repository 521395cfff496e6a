package sluice

import (
	"time"

	"github.com/sluicehttp/sluice/internal/cancel"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// doneState returns the state of ctx, which it creates on the first call.
func (ctx *RequestCtx) doneState() *cancel.State {
	if d := ctx.done.Load(); d != nil {
		return d
	}
	ctx.wire.Lock()
	defer ctx.wire.Unlock()
	if d := ctx.done.Load(); d != nil {
		return d
	}
	d := cancel.New()
	ctx.done.Store(d)
	switch {
	case ctx.server == nil:
	case ctx.wire.isDetached.Load():
		d.Cancel()
	default:
		ctx.server.done.Add(d)
		if ctx.streamID != 0 || ctx.hijackHandler == nil {
			ctx.exchange.OnPeerGone(d.Cancel)
		}
	}
	return d
}

// hijackWatched is Hijack for HTTP/1.1, where the end of the client's output counts as its
// going away until then.
func (ctx *RequestCtx) hijackWatched(handler HijackHandler) {
	ctx.wire.Lock()
	defer ctx.wire.Unlock()
	ctx.hijackHandler = handler
	d := ctx.done.Load()
	switch {
	case d == nil || ctx.wire.isDetached.Load():
	case handler != nil:
		ctx.exchange.OnPeerGone(func() {})
	default:
		ctx.exchange.OnPeerGone(d.Cancel)
	}
}

// Done returns a channel that is closed when the client disconnects while the
// handler runs, when the request has ended, or when the server shuts down.
// Outside a server it is never closed. The first call costs an allocation and
// makes the engine watch the connection.
//
// Goroutines that the handler started may call Done and the other context
// methods even after the handler has returned.
func (ctx *RequestCtx) Done() <-chan struct{} { return ctx.doneState().Done() }

// Err returns nil until Done is closed, and context.Canceled afterwards.
func (ctx *RequestCtx) Err() error { return ctx.doneState().Err() }

// Deadline implements context.Context; a request has none.
func (ctx *RequestCtx) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Value returns the user value for key, as UserValue does.
func (ctx *RequestCtx) Value(key any) any {
	if key == any(upgrade.Key{}) {
		return (*taker)(ctx)
	}
	return ctx.UserValue(key)
}
