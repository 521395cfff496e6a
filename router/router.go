// Package router routes requests by the patterns of net/http's ServeMux:
//
//	r := &router.Router{}
//	r.Handle("GET /{$}", home)
//	r.Handle("GET /files/{path...}", files)
//	api := r.Group("/api", requireToken)
//	api.Handle("GET /users/{id}", showUser)
//	server := &sluice.Server{Handler: r.Handler}
//
//	func showUser(ctx *sluice.RequestCtx) { id := router.Param(ctx, "id") … }
//
// [METHOD ][HOST]/[PATH] is a pattern; method and host are optional. In the path, {name}
// matches one segment, {name...} at the end all that are left, and {$} the end of a path with
// a slash. A pattern that ends with "/" matches all paths below it. GET stands for HEAD, too.
// Of several patterns that match a request, the most specific one is used, whatever the order
// of registration was. The documentation of net/http.ServeMux has all rules; docs/guide/router.md
// lists what differs here.
//
// A request costs no allocation, and at most as many steps as the patterns have segments.
package router

import (
	"slices"
	"strings"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/server/route"
)

// A Router calls the handlers of routes. The zero value has none. Handle and Group must not
// be called while Handler runs; Handler may run on many goroutines. A Router must not be
// copied.
type Router struct {
	// NotFound handles the requests that no pattern matches; nil: ctx.NotFound.
	NotFound sluice.RequestHandler
	// MethodNotAllowed handles the requests whose path is that of a route, with a method that
	// none has; nil: a 405. The response has the field Allow when it is called.
	MethodNotAllowed sluice.RequestHandler

	every     node             // the routes of every host
	hosts     map[string]*node // the routes of a host
	patterns  []string
	wildcards int // as many as a pattern has, at most; one more for the rest
}

// A Middleware returns a handler that does something before and after h, or in place of it.
type Middleware = func(h sluice.RequestHandler) sluice.RequestHandler

// Handle registers the handler of a pattern. It panics with a *PatternError if the pattern is
// malformed, and with a *ConflictError if there is another pattern so that for some requests
// neither of them is more specific. Nothing is registered then.
func (r *Router) Handle(pattern string, handler sluice.RequestHandler) {
	r.handle(pattern, handler, nil)
}

func (r *Router) handle(text string, handler sluice.RequestHandler, group *Group) {
	p, err := parse(text)
	if err != nil {
		panic(err)
	}
	if handler == nil {
		panic(p.refuse("the handler is nil"))
	}
	tree := &r.every
	if p.host != "" {
		if tree = r.hosts[p.host]; tree == nil {
			tree = &node{}
		}
	}
	tree.overlapping(p.segments, func(l *leaf) bool {
		switch p.compare(l.pattern) {
		case equal:
			panic(&ConflictError{p.text, l.text, p.common(l.pattern), true})
		case overlaps:
			panic(&ConflictError{p.text, l.text, p.common(l.pattern), false})
		}
		return true
	})
	tree.add(leaf{p.method, p.text, p.names, handler, group, p})
	if p.host != "" {
		if r.hosts == nil {
			r.hosts = map[string]*node{}
		}
		r.hosts[p.host] = tree
	}
	r.patterns = append(r.patterns, p.text)
	r.wildcards = max(r.wildcards, len(p.names)+1)
}

// Patterns returns the patterns of all routes, with the prefixes of their groups, in the order
// of registration.
func (r *Router) Patterns() []string { return slices.Clone(r.patterns) }

// A Group is a part of a Router: its patterns have a prefix, and its handlers a Middleware.
type Group struct {
	router     *Router
	prefix     string
	middleware []Middleware
	refuse     sluice.RequestHandler // Router.refuse, within the middleware
}

// Group returns a Group whose patterns begin with prefix, [HOST][/PATH] without a slash at the
// end, possibly with wildcards: "/api" is a path, "api" a host. The first Middleware is the outermost. The answers to OPTIONS,
// and the 405, for the paths of a group's routes pass its middleware, too; those of NotFound
// and redirects do not.
func (r *Router) Group(prefix string, middleware ...Middleware) *Group {
	return r.group(prefix, middleware)
}

// Group returns a Group within g: its prefix follows that of g, and its middleware is called by
// that of g.
func (g *Group) Group(prefix string, middleware ...Middleware) *Group {
	return g.router.group(g.prefix+prefix, slices.Concat(g.middleware, middleware))
}

func (r *Router) group(prefix string, middleware []Middleware) *Group {
	if strings.HasSuffix(prefix, "/") {
		panic(&PatternError{prefix, "the prefix of a group ends with a slash"})
	}
	g := &Group{router: r, prefix: prefix, middleware: middleware}
	g.refuse = g.wrap(r.refuse)
	return g
}

func (g *Group) wrap(h sluice.RequestHandler) sluice.RequestHandler {
	for _, m := range slices.Backward(g.middleware) {
		h = m(h)
	}
	return h
}

// Handle is Router.Handle for [METHOD][ ][/PATH]. The path follows the prefix; without one, the
// pattern is that of the prefix alone, so that "GET" of the group "/users" is "GET /users". With an
// empty prefix, the pattern is as that of Router.Handle.
func (g *Group) Handle(pattern string, handler sluice.RequestHandler) {
	method, path := "", pattern
	if i := strings.IndexAny(pattern, " \t"); i >= 0 {
		method, path = pattern[:i], strings.TrimLeft(pattern[i:], " \t")
	} else if g.prefix != "" && !strings.HasPrefix(pattern, "/") {
		method, path = pattern, ""
	}
	text := g.prefix + path
	if method != "" {
		text = method + " " + text
	}
	if g.prefix != "" && path != "" && path[0] != '/' {
		panic(&PatternError{text, "the path of a pattern in a group with a prefix begins with a slash"})
	}
	if handler != nil {
		handler = g.wrap(handler)
	}
	g.router.handle(text, handler, g)
}

// Param returns the part of the path that a wildcard of the route matches, decoded. It is nil
// if there is no such wildcard, and empty but not nil if it matches nothing, which only
// {name...} does. Like every slice of ctx, it is valid until the handler returns. A part may
// have any bytes, and be "..". ctx.UserValue(name) returns it as a string, which may be kept.
func Param(ctx *sluice.RequestCtx, name string) []byte {
	if m, ok := ctx.UserValue(route.Key{}).(*route.Match); ok {
		value, _ := m.Param(name)
		return value
	}
	return nil
}

// Pattern returns the pattern of the route that handles the request, with the prefix of its
// group, and empty if there is none. It has few values, and may be kept: it is for logs,
// metrics and traces. Middleware around Handler calls it after Handler.
func Pattern(ctx *sluice.RequestCtx) string {
	if m, ok := ctx.UserValue(route.Key{}).(*route.Match); ok {
		return m.Pattern()
	}
	return ""
}
