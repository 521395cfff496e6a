package middleware

import "github.com/sluicehttp/sluice"

// Recover returns a middleware that answers panics of the handler. A Server does so, too, with
// a response that has none of the fields that other middlewares set. Put Recover inside those
// whose fields the answer is to have, and inside AccessLog, which then sees an ordinary 500.
//
// The answer is 500 with the name of that status. answer, which may be nil, changes it; it must
// not show v, which may have secrets, to the client. v is logged with its stack before.
//
// Some panics go on to the server: after Flush, and of sluice.ErrAbortHandler, it closes the
// connection, so that the client sees that the response is not complete; after TimeoutError it
// answers 500. A panic that Recover answers does not end the process with Server.CrashOnPanic.
func Recover(answer func(ctx *sluice.RequestCtx, v any)) func(sluice.RequestHandler) sluice.RequestHandler {
	return func(h sluice.RequestHandler) sluice.RequestHandler {
		return func(ctx *sluice.RequestCtx) {
			defer func() {
				v := recover()
				switch {
				case v == nil:
					return
				case v == sluice.ErrAbortHandler, ctx.LastTimeoutErrorResponse() != nil, ctx.HeadSent():
					panic(v)
				}
				ctx.LogPanic(v)
				ctx.HijackSetNoResponse(false) // the connection stays with HTTP
				ctx.Hijack(nil)
				ctx.Error(sluice.StatusMessage(sluice.StatusInternalServerError), sluice.StatusInternalServerError)
				if answer != nil {
					answer(ctx, v)
				}
			}()
			h(ctx)
		}
	}
}
