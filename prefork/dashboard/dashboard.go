// Package dashboard is a page for people that shows, live, what a server or a fleet of worker
// processes does.
package dashboard

import (
	"embed"
	"encoding/json"
	"strings"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/sse"
)

//go:embed page
var page embed.FS

// policy lets the page use what this package serves, and nothing else (CSP level 3). Other
// pages cannot show it in a frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// types are the media types of the page's parts.
var types = map[string]string{
	"index.html":    "text/html; charset=utf-8",
	"dashboard.css": "text/css; charset=utf-8",
	"dashboard.js":  "text/javascript; charset=utf-8",
}

// Options configure a page. All fields may be zero.
type Options struct {
	// Profiles is the path below which a worker's pprofhandler answers, as
	// "/pprof/PID/debug/pprof/", relative to the page. "": the page has no links to them.
	Profiles string
}

// Handler returns a handler for a page about s, its two files and its stream of events. It may
// be mounted below any path that ends with a slash: it looks at what follows the last one. What
// it does not know gets 404, and methods other than GET and HEAD get 405.
//
// The page needs no other host, and works where scripts of others are forbidden. From the first
// visit until five minutes after the last one, a goroutine takes two samples a second, so that
// the page shows the last five minutes; they take at most 72 KB.
//
// The page reveals process ids, paths of slow requests and the server's load: serve it on a
// private address, such as Prefork.Admin, or add authentication.
func Handler(s prefork.Source, o Options) sluice.RequestHandler {
	d := newSampler(s, o.Profiles)
	return func(ctx *sluice.RequestCtx) {
		path := string(ctx.Path())
		name := path[strings.LastIndexByte(path, '/')+1:]
		if name == "" {
			name = "index.html"
		}
		if !ctx.IsGet() && !ctx.IsHead() {
			ctx.Error("Method Not Allowed", sluice.StatusMethodNotAllowed)
			ctx.Response.Header.Set(sluice.HeaderAllow, "GET, HEAD")
			return
		}
		if name == "dashboard.events" {
			d.serve(ctx)
			return
		}
		mediaType, isKnown := types[name]
		if !isKnown {
			ctx.NotFound()
			return
		}
		content, _ := page.ReadFile("page/" + name) // a test reads all of them
		h := &ctx.Response.Header
		h.Set(sluice.HeaderContentSecurityPolicy, policy)
		h.Set(sluice.HeaderXContentTypeOptions, "nosniff")
		h.Set(sluice.HeaderReferrerPolicy, "no-referrer")
		h.Set(sluice.HeaderCacheControl, "no-cache")
		h.Set(sluice.HeaderVary, sluice.HeaderAccept) // of a handler that answers others with text
		ctx.SetContentType(mediaType)
		ctx.Response.SetBodyRaw(content)
	}
}

// serve answers with the stream of events.
func (d *sampler) serve(ctx *sluice.RequestCtx) {
	d.begin()
	ctx.Response.Header.Set(sluice.HeaderXContentTypeOptions, "nosniff")
	if err := d.hub.Serve(ctx, topic); err != nil {
		ctx.Error(err.Error(), sluice.StatusServiceUnavailable)
	}
}

// event returns an event with v as JSON.
func event(name string, v any) sse.Event {
	text, _ := json.Marshal(v) // numbers and strings: it cannot fail
	return sse.Event{Name: name, Data: text}
}
