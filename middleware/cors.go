package middleware

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// CORSOptions say which pages of other origins may read responses (CORS, the Fetch standard).
// With the zero value none may.
type CORSOptions struct {
	// Origins are as browsers send them, "https://app.example.com" or
	// "http://localhost:3000". "https://*.example.com" is all subdomains of example.com, and
	// "*" alone is every origin. "null", which each sandboxed frame may send, is refused.
	Origins []string
	// Credentials lets pages send cookies and client certificates along, and read the answer.
	// "*" is refused then: every page on the web could act for its visitors.
	Credentials bool
	// Methods are those beside GET, HEAD and POST that pages may use.
	Methods []string
	// Headers are the fields that pages may set, such as Content-Type for JSON, and
	// Authorization.
	Headers []string
	// Expose are the fields of responses that pages may read beside those that are harmless.
	Expose []string
	// MaxAge is how long browsers need not ask again. Zero: as they like, which is 5 s.
	MaxAge time.Duration
}

// CORS returns a middleware that answers preflights, and adds the fields of CORS to the
// responses of h: it replaces those that h has set, as a proxy may have. It panics if an option
// is wrong.
//
// CORS allows, it does not protect: requests from other origins reach h in any case. CSRF
// refuses them. Put CORS outside authentication, because preflights have no credentials.
func CORS(o CORSOptions) func(sluice.RequestHandler) sluice.RequestHandler {
	c := newCORS(&o)
	return func(h sluice.RequestHandler) sluice.RequestHandler {
		return func(ctx *sluice.RequestCtx) {
			origin := peek(ctx, sluice.HeaderOrigin)
			allowed := c.allowed(origin)
			set := func(h *sluice.ResponseHeader) { c.set(h, allowed) }
			if ctx.IsOptions() && len(origin) > 0 && len(peek(ctx, sluice.HeaderAccessControlRequestMethod)) > 0 {
				ctx.SetStatusCode(sluice.StatusNoContent)
				set(&ctx.Response.Header)
				if allowed != "" {
					put(&ctx.Response.Header, sluice.HeaderAccessControlAllowMethods, c.methods)
					put(&ctx.Response.Header, sluice.HeaderAccessControlAllowHeaders, c.headers)
					put(&ctx.Response.Header, sluice.HeaderAccessControlMaxAge, c.maxAge)
				}
				return
			}
			set(&ctx.Response.Header)
			h(ctx)
			settle(ctx, set)
		}
	}
}

// cors is CORSOptions as they are used.
type cors struct {
	any            bool // every origin
	exact          []string
	subdomains     [][2]string // "https://" and ".example.com"
	hasCredentials bool

	methods, headers, expose, maxAge string // values of fields
}

func newCORS(o *CORSOptions) *cors {
	c := &cors{hasCredentials: o.Credentials}
	c.methods, c.headers, c.expose = strings.Join(o.Methods, ", "), strings.Join(o.Headers, ", "), strings.Join(o.Expose, ", ")
	if o.MaxAge > 0 {
		c.maxAge = strconv.Itoa(int(o.MaxAge.Seconds()))
	}
	if o.Credentials && strings.Contains(c.methods+c.headers+c.expose, "*") {
		panic("sluice: CORSOptions: * has no meaning with Credentials: name the methods and fields")
	}
	for _, member := range slices.Concat(o.Methods, o.Headers, o.Expose) {
		for name := range strings.SplitSeq(member, ",") {
			if name = strings.TrimSpace(name); name != "" && !h1.IsToken([]byte(name)) {
				panic(fmt.Sprintf("sluice: CORSOptions: %q is no method and no name of a field", name))
			}
		}
	}
	for _, origin := range o.Origins {
		scheme, host, _ := strings.Cut(origin, "://")
		parent, isWildcard := strings.CutPrefix(host, "*.")
		switch {
		case origin == "*" && !o.Credentials:
			c.any = true
		case origin == "*":
			panic("sluice: CORSOptions: every page could act for its visitors: name the Origins, or switch Credentials off")
		case !isOrigin(scheme, parent):
			panic(fmt.Sprintf("sluice: CORSOptions: %q is no origin, such as https://example.com", origin))
		case isWildcard:
			c.subdomains = append(c.subdomains, [2]string{scheme + "://", "." + parent})
		default:
			c.exact = append(c.exact, origin)
		}
	}
	return c
}

// isOrigin reports whether a browser may send scheme://host: in lower case and ASCII, without a path,
// and with a port only if it is not the scheme's.
func isOrigin(scheme, host string) bool {
	for _, c := range []byte(scheme + host) {
		if c <= ' ' || c >= 0x7f || 'A' <= c && c <= 'Z' || strings.IndexByte(`/*@?#,"\`, c) >= 0 {
			return false
		}
	}
	port := host[strings.LastIndexByte(host, ':')+1:]
	return scheme != "" && host != "" && port != "" && (scheme != "https" || port != "443") && (scheme != "http" || port != "80")
}

// allowed returns the value of Access-Control-Allow-Origin, empty if origin is not allowed.
func (c *cors) allowed(origin []byte) string {
	if c.any {
		return "*"
	}
	for _, exact := range c.exact {
		if string(origin) == exact {
			return exact
		}
	}
	for _, w := range c.subdomains {
		if rest, ok := strings.CutPrefix(string(origin), w[0]); ok {
			if label, ok := strings.CutSuffix(rest, w[1]); ok && isOrigin("https", label) && !strings.Contains(label, ":") {
				return string(origin)
			}
		}
	}
	return ""
}

// set makes the fields those for an allowed origin.
func (c *cors) set(h *sluice.ResponseHeader, allowed string) {
	credentials, expose := "", ""
	if allowed != "" {
		expose = c.expose
		if c.hasCredentials {
			credentials = "true"
		}
	}
	put(h, sluice.HeaderAccessControlAllowOrigin, allowed)
	put(h, sluice.HeaderAccessControlAllowCredentials, credentials)
	put(h, sluice.HeaderAccessControlExposeHeaders, expose)
	if !c.any { // also without an Origin: a cache must not answer other pages with this
		h.AddVary(sluice.HeaderOrigin)
	}
}

// put sets a field, and removes it if value is empty.
func put(h *sluice.ResponseHeader, name, value string) {
	if h.Del(name); value != "" {
		h.Set(name, value)
	}
}
