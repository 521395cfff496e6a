package middleware

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// SecureHeaders returns a middleware that sets fields by which browsers protect the users of a
// site. nil is:
//
//	Content-Security-Policy: base-uri 'self'; frame-ancestors 'none'; object-src 'none'
//	Cross-Origin-Opener-Policy: same-origin
//	Cross-Origin-Resource-Policy: same-origin
//	Referrer-Policy: same-origin
//	X-Content-Type-Options: nosniff
//	X-Frame-Options: DENY
//
// own replaces these values, adds fields, and removes those with an empty value: for instance a
// Content-Security-Policy that fits your pages, or Strict-Transport-Security, if the site will
// stay with HTTPS. What the handler sets has precedence. SecureHeaders panics if a name is no token,
// or a value has a control character.
func SecureHeaders(own map[string]string) func(sluice.RequestHandler) sluice.RequestHandler {
	values := map[string]string{
		sluice.HeaderContentSecurityPolicy:     "base-uri 'self'; frame-ancestors 'none'; object-src 'none'",
		"Cross-Origin-Opener-Policy":           "same-origin",
		sluice.HeaderCrossOriginResourcePolicy: "same-origin",
		sluice.HeaderReferrerPolicy:            "same-origin",
		sluice.HeaderXContentTypeOptions:       "nosniff",
		sluice.HeaderXFrameOptions:             "DENY",
	}
	for name, value := range own {
		maps.DeleteFunc(values, func(known, _ string) bool { return strings.EqualFold(known, name) })
		if value != "" {
			if !h1.IsToken([]byte(name)) || !h1.IsValue([]byte(value)) {
				panic("sluice: SecureHeaders: there is no field " + strconv.Quote(name) + " with this value")
			}
			values[name] = value
		}
	}
	names := slices.Sorted(maps.Keys(values))
	type field struct{ name, value string }
	fields := make([]field, 0, len(names))
	for _, name := range names {
		fields = append(fields, field{name, values[name]})
	}
	set := func(h *sluice.ResponseHeader) {
		for _, f := range fields {
			if len(h.Peek(f.name)) == 0 {
				h.Set(f.name, f.value)
			}
		}
	}
	return func(h sluice.RequestHandler) sluice.RequestHandler {
		return func(ctx *sluice.RequestCtx) {
			set(&ctx.Response.Header)
			h(ctx)
			settle(ctx, set)
		}
	}
}
