package prefork

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/sluicehttp/sluice"
)

// StatusHandler returns a handler that answers with p's Status: as JSON to
// requests with the query argument format=json, or whose Accept prefers
// application/json to text/plain and text/html, and else as text for people
// (Status.String). Methods other than GET and HEAD are answered with status 405.
//
// It may be served by the workers, where each tells of all, and by the master
// (Prefork.Admin). It tells process ids and how busy the server is: it belongs
// on an address, or behind a check, that not everybody passes.
func StatusHandler(p *Prefork) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		if !ctx.IsGet() && !ctx.IsHead() {
			ctx.Error("Method Not Allowed", sluice.StatusMethodNotAllowed)
			ctx.Response.Header.Set(sluice.HeaderAllow, "GET, HEAD")
			return
		}
		ctx.Response.Header.Set(sluice.HeaderCacheControl, "no-store")
		ctx.Response.Header.Set(sluice.HeaderVary, sluice.HeaderAccept)
		status := p.Status()
		if !wantsJSON(ctx) {
			ctx.SetContentType("text/plain; charset=utf-8")
			ctx.SetBodyString(status.String())
			return
		}
		text, err := json.Marshal(status)
		if err != nil {
			ctx.Error(err.Error(), sluice.StatusInternalServerError)
			return
		}
		ctx.SetContentType("application/json")
		ctx.SetBody(append(text, '\n'))
	}
}

// wantsJSON tells how to answer: by the argument, or else by Accept.
func wantsJSON(ctx *sluice.RequestCtx) bool {
	if format := ctx.QueryArgs().Peek("format"); len(format) > 0 {
		return string(format) == "json"
	}
	asJSON, asText := 0.0, 0.0
	for part := range strings.SplitSeq(string(ctx.Request.Header.Peek(sluice.HeaderAccept)), ",") {
		mediaType, parameters, _ := strings.Cut(part, ";")
		switch strings.ToLower(strings.TrimSpace(mediaType)) {
		case "application/json":
			asJSON = max(asJSON, weight(parameters))
		case "text/plain", "text/html", "text/*":
			asText = max(asText, weight(parameters))
		}
	}
	return asJSON > asText
}

// weight is the parameter q of an element of Accept; 1 if there is none (RFC
// 9110 section 12.4.2).
func weight(parameters string) float64 {
	for p := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if strings.EqualFold(name, "q") {
			q, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0
			}
			return q
		}
	}
	return 1
}
