// Package dashboard is a page for people that shows, live, what a server or a fleet of worker
// processes does.
package dashboard

import (
	"embed"
	"encoding/json"
	"strings"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/process/prefers"
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

// A Table is one of the program's own on the page.
type Table struct {
	// Title is the heading.
	Title string
	// Columns are the titles of the columns.
	Columns []string
	// Rows returns the cells of each row, in the order of Columns. It is called twice a second
	// while samples are taken, on one goroutine at a time, and must not block. The page shows the
	// first 100 rows, and 64 KB of all tables.
	Rows func() [][]string
}

// Handler returns a handler for what people and scripts ask about s, a Prefork or a Single:
//
//	/                             the page, if the request's Accept prefers text/html to
//	                              text/plain and application/json; else as /status
//	/status                       prefork.StatusHandler
//	/healthz, /readyz, /startupz  prefork.HealthHandler
//	/workers/…                    prefork.ProfileHandler, to which the page links if there
//	                              are profiles
//
// It may be mounted below any path that ends with a slash; probes are at these paths only.
// What it does not know gets 404, and methods other than GET and HEAD get 405.
//
// The page needs no other host, and works where scripts of others are forbidden. From the first
// visit until five minutes after the last one, a goroutine takes two samples a second, so that
// the page shows the last five minutes; they take at most 72 KB.
//
// The page also has tables, which are the program's own.
//
// The page reveals process ids, paths of slow requests and the server's load: serve it on a
// private address, such as Prefork.Admin, or add authentication.
func Handler(s prefork.Source, tables ...Table) sluice.RequestHandler {
	d := newSampler(s, tables...)
	status, probes, profiles := prefork.StatusHandler(s), prefork.HealthHandler(s), prefork.ProfileHandler(s)
	return func(ctx *sluice.RequestCtx) {
		path := string(ctx.Path())
		name := path[strings.LastIndexByte(path, '/')+1:]
		switch {
		case strings.Contains(path, "/workers/"):
			profiles(ctx)
		case name == "healthz" || name == "readyz" || name == "startupz":
			probes(ctx)
		case name == "status" || name == "" && !prefers.HTML(&ctx.Request.Header):
			status(ctx)
		case !ctx.IsGet() && !ctx.IsHead():
			ctx.Error("Method Not Allowed", sluice.StatusMethodNotAllowed)
			ctx.Response.Header.Set(sluice.HeaderAllow, "GET, HEAD")
		case name == "dashboard.events":
			d.serve(ctx)
		case name == "":
			serveFile(ctx, "index.html")
		default:
			serveFile(ctx, name)
		}
	}
}

// serveFile answers with a part of the page.
func serveFile(ctx *sluice.RequestCtx, name string) {
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
	h.Set(sluice.HeaderVary, sluice.HeaderAccept)
	ctx.SetContentType(mediaType)
	ctx.Response.SetBodyRaw(content)
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
