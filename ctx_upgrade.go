package sluice

import "github.com/sluicehttp/sluice/internal/server/upgrade"

// takeover is what takeOver has arranged.
type takeover struct {
	upgrade.Takeover
	host upgrade.Host
}

// taker is a RequestCtx as packages of this module see it that take over connections.
type taker RequestCtx

// TakeOver implements upgrade.Taker. With HTTP/2 it gives the stream: that of an extended
// CONNECT (RFC 8441) after the response, and others to protocols that write the body.
// Otherwise it returns ErrNotSupportedHTTP2. It returns ErrHeadSent after Flush,
// ErrTakenOver after TakeOver and Hijack, ErrServerClosed if the server does not serve, and
// ErrNilConnection outside a server and after TimeoutError.
func (t *taker) TakeOver(arranged upgrade.Takeover) error { return (*RequestCtx)(t).takeOver(arranged) }

// OnHijackDropped implements upgrade.Taker.
func (t *taker) OnHijackDropped(f func()) {
	t.wire.Lock()
	isOver := t.exchange == nil
	if !isOver {
		t.hijackDropped = f
	}
	t.wire.Unlock()
	if isOver {
		f()
	}
}

// takeHijackHandler returns the hijack handler, which is called.
func (ctx *RequestCtx) takeHijackHandler() HijackHandler {
	ctx.hijackDropped = nil
	return ctx.hijackHandler
}

func (ctx *RequestCtx) takeOver(t upgrade.Takeover) error {
	switch {
	case ctx.leavesHTTP():
		return ErrTakenOver
	case ctx.phase == phaseFlushed:
		return ErrHeadSent
	case ctx.timeoutResponse.Load() != nil:
		return ErrNilConnection
	case t.Family == nil:
		return nil
	case ctx.server == nil || ctx.exchange == nil:
		return ErrNilConnection
	}
	isTunnel := len(ctx.Request.Header.ConnectProtocol()) > 0
	if ctx.streamID != 0 && t.WritesBody == isTunnel {
		return ErrNotSupportedHTTP2
	}
	host := ctx.server.hostOf(t.Family, ctx.cfg)
	if host == nil {
		return ErrServerClosed
	}
	ctx.takeover = &takeover{Takeover: t, host: host}
	return nil
}

// leavesHTTP tells whether the connection does not go on with HTTP after the response.
func (ctx *RequestCtx) leavesHTTP() bool { return ctx.hijackHandler != nil || ctx.takeover != nil }

// isSilent tells whether a hijack handler writes the response.
func (ctx *RequestCtx) isSilent() bool { return ctx.hijackHandler != nil && ctx.hijackNoResponse }

// settleTakeover leaves the response to another protocol as that needs it: without a body.
// If the handler has replaced the response since takeOver, the client gets that one.
func (ctx *RequestCtx) settleTakeover() {
	t, resp := ctx.takeover, &ctx.Response
	if ctx.phase != phaseFlushed {
		status := resp.StatusCode()
		if !isTunnelStatus(status) || t.Status != 0 && (status != t.Status || t.Name != "" && string(resp.Header.Peek(t.Name)) != t.Value) {
			ctx.takeover = nil
			ctx.warn(misuseReplaced)
			return
		}
		switch {
		case t.WritesBody:
		case ctx.streamID == 0 && ctx.cfg.Closing.Load(): // the connection ends with this response
			ctx.takeover = nil
			ctx.Error("the server shuts down", StatusServiceUnavailable)
			return
		default: // the connection ends, but with the other protocol
			resp.Header.m.ResetConnectionClose()
		}
	}
	ctx.dropBody()
}

// dropBody drops the body of a response that is not to have one.
func (ctx *RequestCtx) dropBody() {
	if resp := &ctx.Response; resp.stream != nil || len(resp.bodyBytes()) > 0 {
		resp.ResetBody()
		ctx.warn(misuseBody)
	}
}

// mayBeginBody tells whether another protocol can write the body of the response.
func (ctx *RequestCtx) mayBeginBody() bool {
	return ctx.verb != verbHead && ctx.Response.StatusCode() == StatusOK && !ctx.requestStream.isUnread() && !ctx.server.closeRequested()
}

// beginBody sends the response up to its body. The connection ends with the body.
func (ctx *RequestCtx) beginBody() {
	if ctx.phase != phaseFlushed {
		ctx.Response.Header.m.HasLength = false
		ctx.Response.Header.m.IsHTTP10 = false // only the request decides about chunks
		ctx.flushHead()
	}
}
