package prefork

import (
	"encoding/json"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/process/prefers"
)

// StatusHandler returns a handler that answers with the Status of s, a Prefork or a Single. The answer is JSON
// if the request has the query argument format=json, or if its Accept prefers
// application/json to text/plain and text/html. Otherwise it is text for people
// (Status.String). Methods other than GET and HEAD get status 405.
//
// Workers may serve it, and so may the master (Prefork.Admin); every process
// reports on all of them. The answer reveals process ids and the server's load:
// serve this handler on a private address, or add authentication.
func StatusHandler(s Source) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		if !ctx.IsGet() && !ctx.IsHead() {
			ctx.Error("Method Not Allowed", sluice.StatusMethodNotAllowed)
			ctx.Response.Header.Set(sluice.HeaderAllow, "GET, HEAD")
			return
		}
		ctx.Response.Header.Set(sluice.HeaderCacheControl, "no-store")
		ctx.Response.Header.Set(sluice.HeaderVary, sluice.HeaderAccept)
		status := s.Status()
		if !wantsJSON(ctx) {
			ctx.SetContentType("text/plain; charset=utf-8")
			ctx.SetBodyString(status.String())
			return
		}
		text, _ := json.Marshal(status) // cannot fail
		ctx.SetContentType("application/json")
		ctx.SetBody(append(text, '\n'))
	}
}

// wantsJSON reports whether to answer with JSON. The argument goes before Accept.
func wantsJSON(ctx *sluice.RequestCtx) bool {
	if format := ctx.QueryArgs().Peek("format"); len(format) > 0 {
		return string(format) == "json"
	}
	return prefers.JSON(&ctx.Request.Header)
}
