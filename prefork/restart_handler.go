package prefork

import (
	"strings"

	"github.com/sluicehttp/sluice"
)

// RestartHandler returns a handler for the master's Admin that restarts the workers
// on POST (Prefork.Restart). It answers when the restart is over: with status 200,
// or with 500 and the reason for the failure. `curl -f -X POST` therefore exits
// with an error if the restart fails. Other methods get 405. The query argument wait
// has the same meaning as for ControlHandler, which has more orders.
//
// Requests that a browser sends for a web page (with Origin, or with a
// Sec-Fetch-Site other than none) get 403, because a page of any site can send
// POST requests to any address, including the loopback. There is no other check:
// serve this handler on a private address, or add authentication.
func RestartHandler(p *Prefork) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) { p.answer(ctx, order{p.Restart, "restarted"}) }
}

// isOfPage reports whether a browser has sent the request for a web page. It looks at names
// in any spelling: Server.DisableHeaderNamesNormalizing keeps them as they were sent.
func isOfPage(h *sluice.RequestHeader) bool {
	for name, value := range h.All() {
		switch {
		case len(value) == 0:
		case strings.EqualFold(string(name), sluice.HeaderOrigin),
			strings.EqualFold(string(name), "Sec-Fetch-Site") && string(value) != "none":
			return true
		}
	}
	return false
}
