package middleware

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/sluicehttp/sluice"
)

// CSRFOptions may be zero.
type CSRFOptions struct {
	// Origins are those whose pages may send requests, exactly as browsers name them:
	// "https://app.example.com".
	Origins []string
	// Bypass reports whether a request needs no check, such as one to an endpoint that browsers
	// do not use. nil: all are checked.
	Bypass func(ctx *sluice.RequestCtx) bool
	// Deny answers requests that are refused. nil answers 403.
	Deny sluice.RequestHandler
}

// CSRF returns a middleware that refuses requests which a page of another origin has made a
// browser send (cross-site request forgery), with the user's cookies. Its rules are those of
// net/http's CrossOriginProtection, and need no tokens:
//
//   - GET, HEAD and OPTIONS are let through: they must not change anything.
//   - Sec-Fetch-Site, which browsers have sent since 2023, must be same-origin or none.
//   - Without it, the host in Origin must be that of the request.
//   - Without both, the request is not from a browser, or from an old one and the same origin.
//
// The proxies in front must pass on the Host. CSRF panics if one of Origins is none.
func CSRF(o CSRFOptions) func(sluice.RequestHandler) sluice.RequestHandler {
	for _, origin := range o.Origins {
		if scheme, host, _ := strings.Cut(origin, "://"); !isOrigin(scheme, host) {
			panic(fmt.Sprintf("sluice: CSRFOptions: %q is no origin, such as https://example.com", origin))
		}
	}
	deny := o.Deny
	if deny == nil {
		deny = func(ctx *sluice.RequestCtx) {
			ctx.Error("a page of another origin has sent this request", sluice.StatusForbidden)
		}
	}
	return func(h sluice.RequestHandler) sluice.RequestHandler {
		return func(ctx *sluice.RequestCtx) {
			if o.allows(ctx) {
				h(ctx)
				return
			}
			deny(ctx)
		}
	}
}

func (o *CSRFOptions) allows(ctx *sluice.RequestCtx) bool {
	request := &ctx.Request.Header
	if request.IsGet() || request.IsHead() || request.IsOptions() {
		return true
	}
	origin := peek(ctx, sluice.HeaderOrigin)
	switch site := peek(ctx, "Sec-Fetch-Site"); string(site) {
	case "same-origin", "none":
		return true
	case "":
		_, host, ok := bytes.Cut(origin, []byte("://"))
		if len(origin) == 0 || ok && bytes.Equal(host, ctx.Host()) {
			return true
		}
	}
	return slices.ContainsFunc(o.Origins, func(trusted string) bool { return trusted == string(origin) }) ||
		o.Bypass != nil && o.Bypass(ctx)
}
