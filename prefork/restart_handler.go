package prefork

import (
	"github.com/sluicehttp/sluice"
)

// RestartHandler returns a handler for the master's Admin that restarts the workers
// on POST (Prefork.Restart). It answers when the restart is over: with status 200,
// or with 500 and the reason for the failure. `curl -f -X POST` therefore exits
// with an error if the restart fails. Other methods get 405.
//
// Requests that a browser sends for a web page (with Origin, or with a
// Sec-Fetch-Site other than none) get 403, because a page of any site can send
// POST requests to any address, including the loopback. There is no other check:
// serve this handler on a private address, or add authentication.
func RestartHandler(p *Prefork) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		h := &ctx.Request.Header
		site := string(h.Peek("Sec-Fetch-Site"))
		switch {
		case !ctx.IsPost():
			ctx.Error("Method Not Allowed", sluice.StatusMethodNotAllowed)
			ctx.Response.Header.Set(sluice.HeaderAllow, "POST")
		case len(h.Peek(sluice.HeaderOrigin)) > 0 || site != "" && site != "none":
			ctx.Error("Forbidden", sluice.StatusForbidden)
		default:
			if err := p.Restart(ctx); err != nil {
				ctx.Error(err.Error()+"\n", sluice.StatusInternalServerError)
				return
			}
			ctx.SetBodyString("restarted\n")
		}
	}
}
