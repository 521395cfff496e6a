package sluice

import "github.com/sluicehttp/sluice/internal/upgrade"

// takeover is what TakeOver has arranged.
type takeover struct {
	upgrade.Takeover
	host upgrade.Host
}

// TakeOver gives the connection to another protocol after the response, or after the
// beginning of its body, when the handler has returned. It is for packages of this module, such as websocket:
// other packages cannot make its argument; see Hijack. With HTTP/2 it gives the stream: that
// of an extended CONNECT (RFC 8441) after the response, and others to protocols that write
// the body. Otherwise it returns ErrNotSupportedHTTP2. It returns ErrServerClosed if the
// server does not serve, and ErrNilConnection outside a server.
func (ctx *RequestCtx) TakeOver(t upgrade.Takeover) error {
	if ctx.server == nil || ctx.exchange == nil {
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

// mayBeginBody tells whether another protocol can write the body of the response.
func (ctx *RequestCtx) mayBeginBody() bool {
	return ctx.verb != verbHead && ctx.Response.StatusCode() == StatusOK && ctx.Response.stream == nil &&
		!ctx.requestStream.isUnread() && !ctx.server.closeRequested()
}

// beginBody sends the response up to what its body has until now. The connection ends
// with the body.
func (ctx *RequestCtx) beginBody() bool {
	if ctx.phase != phaseFlushed {
		ctx.Response.Header.m.HasLength = false
		ctx.Response.Header.m.IsHTTP10 = false // only the request decides about chunks
		ctx.flushHead()
	}
	return ctx.exchange.SendData(ctx.Response.bodyBytes(), false)
}
