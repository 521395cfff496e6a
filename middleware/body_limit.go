package middleware

import "github.com/sluicehttp/sluice"

// BodyLimit returns a middleware that answers 413 to requests whose body has more than n bytes.
// It lowers Server.MaxRequestBodySize for some handlers, and also bounds what bodies decode to;
// see sluice.RequestCtx.LimitBody. An n below 1 changes nothing. To allow some requests more
// than MaxRequestBodySize, use Server.HeaderReceived: without streams, the server has received
// the body before it calls a handler.
//
// With Server.StreamRequestBody, a body whose Content-Length is too large is refused before it
// is sent, if its client waits for 100-continue. One of unknown length, as with chunked
// encoding, ends in an error after n bytes: if the handler has not flushed, the answer is 413,
// whatever it has answered. The connection closes then.
func BodyLimit(n int) func(sluice.RequestHandler) sluice.RequestHandler {
	return func(h sluice.RequestHandler) sluice.RequestHandler {
		return func(ctx *sluice.RequestCtx) {
			if ctx.LimitBody(n) == nil {
				h(ctx)
			}
			if ctx.LastTimeoutErrorResponse() == nil && !ctx.HeadSent() && ctx.LimitBody(n) != nil {
				ctx.Error(sluice.StatusMessage(sluice.StatusRequestEntityTooLarge), sluice.StatusRequestEntityTooLarge)
			}
		}
	}
}
