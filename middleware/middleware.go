// Package middleware has what most services put around their handlers. Each middleware is a
// function that takes a sluice.RequestHandler and returns another one; each can be used alone.
//
//	server.Handler = middleware.Use(handle, // the outermost comes first
//		middleware.RealIP(middleware.RealIPOptions{Trusted: proxies}),
//		middleware.RequestID,
//		middleware.AccessLog(accesslog.Options{}),
//		middleware.Recover(nil),
//		middleware.SecureHeaders(nil),
//	)
//
// Those that set fields of the response set them before the handler runs, for handlers that
// flush, stream or hijack, and again afterwards, for handlers that replace the response, as
// ctx.Error does, or exceed a time-out. WebSockets and server-sent events pass through all of
// them. Functions that return a middleware panic if an option is wrong, as a program's start
// is the time to learn it.
package middleware

import (
	"slices"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// Use returns h inside all middlewares. The first is the outermost: it sees a request before
// the others, and a response after them.
func Use(h sluice.RequestHandler, all ...func(sluice.RequestHandler) sluice.RequestHandler) sluice.RequestHandler {
	for _, wrap := range slices.Backward(all) {
		h = wrap(h)
	}
	return h
}

// peek returns the value of a field of the request, in any spelling of its name.
func peek(ctx *sluice.RequestCtx, name string) []byte {
	return upgrade.Peek(ctx, &ctx.Request.Header, name)
}

// settle calls set with the head of the response that will be sent, after the handler has
// returned. It does not if that was sent. After a time-out, ctx belongs to goroutines that go
// on, and the response is a copy.
func settle(ctx *sluice.RequestCtx, set func(h *sluice.ResponseHeader)) {
	switch late := ctx.LastTimeoutErrorResponse(); {
	case late != nil:
		var resp sluice.Response
		late.CopyTo(&resp)
		set(&resp.Header)
		ctx.TimeoutErrorWithResponse(&resp)
	case !ctx.HeadSent():
		set(&ctx.Response.Header)
	}
}
