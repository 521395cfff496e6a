package router

import (
	"bytes"
	"slices"
	"strings"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/server/route"
)

// stackSpans is how many wildcards of a pattern need no allocation.
const stackSpans = 12

// Handler calls the handler of the most specific pattern that matches the request, or
// answers as http.ServeMux does: with a redirect (307) to the path without empty segments and
// dot segments, or with a slash at the end; with 405 and the field Allow; or with 404. It
// answers OPTIONS with 204 and Allow for the paths of routes that have no handler for it.
func (r *Router) Handler(ctx *sluice.RequestCtx) {
	var spans [stackSpans]route.Span
	uri := ctx.URI()
	s := search{method: ctx.Request.Header.Method(), path: uri.PathOriginal(), spans: spans[:]}
	if r.wildcards > len(spans) {
		s.spans = make([]route.Span, r.wildcards)
	}
	if path := uri.Path(); len(s.path) == len(path) && s.path[0] == '/' { // nothing to clean or to decode
		r.serve(ctx, &s)
		return
	}
	r.serveUnusual(ctx, &s)
}

// serveUnusual is serve for a path that may have percent-encodings, or is not clean.
func (r *Router) serveUnusual(ctx *sluice.RequestCtx, s *search) {
	s.isEscaped = bytes.IndexByte(s.path, '%') >= 0
	isConnect := string(s.method) == "CONNECT"
	switch {
	case len(s.path) == 0 && !isConnect:
		s.path = []byte{'/'}
	case string(s.path) == "*":
		answerAsterisk(ctx)
		return
	case len(s.path) == 0 || s.path[0] != '/':
		r.notFound(ctx)
		return
	case !isConnect:
		if cleaned := clean(string(s.path)); cleaned != string(s.path) {
			s.path, s.isCleaned = []byte(cleaned), true
		}
	}
	r.serve(ctx, s)
}

// serve answers a request whose path is clean or, after that, was cleaned.
func (r *Router) serve(ctx *sluice.RequestCtx, s *search) {
	own := r.hostTree(ctx, s)
	l := s.findIn(own, &r.every)
	switch {
	case s.slash && (l == nil || s.rest > 0) && r.redirectsToSlash(s, own):
		redirect(ctx, clean(string(s.path)+"/")) // that of CONNECT is not clean
		return
	case s.isCleaned:
		redirect(ctx, string(s.path))
		return
	case l == nil:
		r.answerOther(ctx, s, own)
		return
	}
	m := ctx.UserValue(route.Key{Makes: true}).(*route.Match)
	m.Set(l.text, l.names, s.path, s.spans)
	if s.isEscaped {
		m.Decode()
	}
	l.handler(ctx)
}

// hostTree returns the tree of the request's host, nil if no pattern has it. The host is that
// of the target, otherwise of the field Host, without its port; but with it for CONNECT, whose
// target is a host and a port.
func (r *Router) hostTree(ctx *sluice.RequestCtx, s *search) *node {
	if r.hosts == nil {
		return nil
	}
	host := ctx.URI().Host()
	if port := bytes.LastIndexByte(host, ':'); port > bytes.IndexByte(host, ']') && string(s.method) != "CONNECT" {
		host = host[:port]
	}
	return r.hosts[string(host)]
}

// findIn returns the most specific route of the tree of the host or, if there is none, of that
// for every host.
func (s *search) findIn(own, every *node) *leaf {
	if own != nil {
		if l := s.find(own, 1); l != nil {
			return l
		}
	}
	return s.find(every, 1)
}

// redirectsToSlash reports whether the route of the path with a slash at its end is for just
// this path, not for one above it.
func (r *Router) redirectsToSlash(s *search, own *node) bool {
	with := search{method: s.method, path: append(slices.Clip(s.path), '/'), isEscaped: s.isEscaped, spans: make([]route.Span, r.wildcards)}
	l := with.findIn(own, &r.every)
	return l != nil && (with.rest == 0 || with.rest == len(with.path))
}

// redirect redirects to a path, which is not decoded, with the query of the request.
func redirect(ctx *sluice.RequestCtx, path string) {
	u := sluice.AcquireURI()
	defer sluice.ReleaseURI(u)
	u.SetPath(path)
	u.SetQueryStringBytes(ctx.URI().QueryString())
	u.DisablePathNormalizing = true
	ctx.Response.Header.SetBytesV(sluice.HeaderLocation, u.RequestURI())
	ctx.SetStatusCode(sluice.StatusTemporaryRedirect)
}

// answerOther answers a request that no route takes.
func (r *Router) answerOther(ctx *sluice.RequestCtx, s *search, own *node) {
	allow, group := r.allowed(s, own)
	if allow == "" {
		r.notFound(ctx)
		return
	}
	ctx.Response.Header.Set(sluice.HeaderAllow, allow)
	if group != nil {
		group.refuse(ctx)
	} else {
		r.refuse(ctx)
	}
	if ctx.LastTimeoutErrorResponse() == nil && ctx.Response.StatusCode() == sluice.StatusMethodNotAllowed {
		ctx.Response.Header.Set(sluice.HeaderAllow, allow) // ctx.Error has removed it
	}
}

// allowed returns the methods of the routes for the path, as the field Allow has them, and the
// group of the most specific one. They are empty if there is no route.
func (r *Router) allowed(s *search, own *node) (allow string, group *Group) {
	var methods []string
	with := search{path: s.path, isEscaped: s.isEscaped}
	add := func(l *leaf) {
		if len(methods) == 0 {
			group = l.group
		}
		methods = append(methods, l.method)
		if l.method == "GET" {
			methods = append(methods, "HEAD")
		}
	}
	for range 2 {
		if own != nil {
			with.all(own, 1, add)
		}
		with.all(&r.every, 1, add)
		if s.path[len(s.path)-1] == '/' {
			break
		}
		with.path = append(slices.Clip(s.path), '/') // a redirect to it may find a route
	}
	if len(methods) == 0 {
		return "", nil
	}
	methods = append(methods, "OPTIONS")
	slices.Sort(methods)
	return strings.Join(slices.Compact(methods), ", "), group
}

// refuse answers a request with a method that no route for its path has. The response has
// Allow.
func (r *Router) refuse(ctx *sluice.RequestCtx) {
	switch {
	case ctx.IsOptions():
		ctx.SetStatusCode(sluice.StatusNoContent)
	case r.MethodNotAllowed != nil:
		r.MethodNotAllowed(ctx)
	default:
		ctx.Error(sluice.StatusMessage(sluice.StatusMethodNotAllowed), sluice.StatusMethodNotAllowed)
	}
}

func (r *Router) notFound(ctx *sluice.RequestCtx) {
	if r.NotFound != nil {
		r.NotFound(ctx)
		return
	}
	ctx.NotFound()
}

// answerAsterisk answers a request for "*": OPTIONS asks about the server (RFC 9110 section
// 9.3.7), and no other method has it.
func answerAsterisk(ctx *sluice.RequestCtx) {
	if ctx.IsOptions() {
		ctx.SetStatusCode(sluice.StatusNoContent)
		return
	}
	ctx.Error(sluice.StatusMessage(sluice.StatusBadRequest), sluice.StatusBadRequest)
}
