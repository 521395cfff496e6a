package prefork

import (
	"github.com/sluicehttp/sluice"
)

// RestartHandler returns a handler for the master's Admin that restarts the workers
// on POST (Prefork.Restart) and answers when that is over: 200, or 500 with the
// reason why it failed, so that `curl -f -X POST` ends with a status that says so.
// Other methods get 405.
//
// What a browser sends for another site's page is answered with 403: such pages may
// send POST requests to any address, the loopback too. There is no other check: it
// belongs on an address, or behind a check, that not everybody passes.
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
