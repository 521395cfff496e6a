package main

import (
	"bytes"

	"github.com/sluicehttp/sluice"
)

// fallbackKey marks the requests that are answered with the application's page
// whatever their path is.
type fallbackKey struct{}

// rewrite is the site's FS.PathRewrite.
func (s *site) rewrite(ctx *sluice.RequestCtx) []byte {
	if ctx.UserValue(fallbackKey{}) != nil {
		return s.fallback
	}
	return ctx.Path()
}

// isUnknown reports whether the answer says that there is no file: also for a
// folder that has neither index nor listing.
func isUnknown(ctx *sluice.RequestCtx) bool {
	return ctx.Response.StatusCode() == sluice.StatusNotFound || isForbiddenFolder(ctx)
}

// belongsToApplication reports whether a path without a file is one of a
// single-page application's own, and not that of an asset that is missing. A
// name with an extension is an asset's unless a page is asked for; browsers do
// that when they navigate, and not for what pages refer to. Without extension
// it is the application's unless the client cannot take a page, as one that
// asks for JSON.
func belongsToApplication(ctx *sluice.RequestCtx) bool {
	named, possible := acceptsHTML(ctx.Request.Header.PeekAll(sluice.HeaderAccept))
	if hasExtension(ctx.Path()) {
		return named
	}
	return possible
}

// hasExtension reports whether the last segment of a path looks like a file's.
func hasExtension(p []byte) bool {
	name := p[bytes.LastIndexByte(p, '/')+1:]
	dot := bytes.LastIndexByte(name, '.')
	return dot > 0 && dot < len(name)-1
}

// acceptsHTML tells from the Accept fields (RFC 9110 section 12.5.1) whether
// HTML is named, and whether it is acceptable at all, which it is without a
// field or with an empty one.
func acceptsHTML(values [][]byte) (named, possible bool) {
	if len(bytes.Join(values, nil)) == 0 {
		return false, true
	}
	precedence := 0 // of the range that decides: the most specific one
	for _, value := range values {
		for item := range bytes.SplitSeq(value, []byte(",")) {
			mediaRange, parameters, _ := bytes.Cut(item, []byte(";"))
			p := htmlPrecedence(bytes.TrimSpace(mediaRange))
			if p > precedence {
				precedence = p
				possible = !isZeroQuality(parameters)
			}
		}
	}
	return possible && precedence == 3, possible
}

// htmlPrecedence says how closely a media range fits HTML; 0 is not at all.
func htmlPrecedence(mediaRange []byte) int {
	switch {
	case bytes.EqualFold(mediaRange, []byte("text/html")):
		return 3
	case bytes.EqualFold(mediaRange, []byte("text/*")):
		return 2
	case string(mediaRange) == "*/*":
		return 1
	}
	return 0
}

// isZeroQuality reports whether the parameters of a media range say that it is
// not acceptable: q=0, q=0.0 and so on.
func isZeroQuality(parameters []byte) bool {
	for parameter := range bytes.SplitSeq(parameters, []byte(";")) {
		key, value, _ := bytes.Cut(bytes.TrimSpace(parameter), []byte("="))
		if bytes.EqualFold(bytes.TrimSpace(key), []byte("q")) {
			value = bytes.TrimSpace(value)
			return len(value) > 0 && len(bytes.Trim(value, "0.")) == 0
		}
	}
	return false
}
