package middleware

import (
	"time"

	"github.com/sluicehttp/sluice"
)

// Timeout returns a middleware that answers 503 when the handler has not returned within d. It
// is sluice.TimeoutWithCodeHandler, whose comment says what the handler may still do: the
// handler must stop when ctx.Done is closed, or it holds its resources for as long as it likes.
// A d of zero or less is no limit.
// At most Server.Concurrency handlers run under time-outs.
//
// The time ends when the handler returns: bodies that are streams, WebSockets and server-sent
// events go on. A handler that sends its body by Flush has d for all of it.
func Timeout(d time.Duration) func(sluice.RequestHandler) sluice.RequestHandler {
	return func(h sluice.RequestHandler) sluice.RequestHandler {
		return sluice.TimeoutWithCodeHandler(h, d, "the request took too long", sluice.StatusServiceUnavailable)
	}
}
