package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/proxy"
	"github.com/sluicehttp/sluice/shared"
)

// A gateway has the proxies of routes, in the order in which a request looks for its own.
type gateway struct {
	routes   []servedRoute
	hasHosts bool         // some routes are for a host
	only     *proxy.Proxy // it gets all requests; nil: host and path decide
}

type servedRoute struct {
	route
	proxy *proxy.Proxy
}

// newGateway makes the proxies of routes.
func newGateway(routes []route) (*gateway, error) {
	g := &gateway{}
	for _, r := range routes {
		p, err := proxy.New(r.options)
		if err != nil {
			g.close()
			text := strings.TrimPrefix(err.Error(), "sluice: proxy: ")
			if len(routes) > 1 {
				text = fmt.Sprintf("the route of host %q, path %q: %s", r.host, r.path, text)
			}
			return nil, errors.New(text)
		}
		g.routes = append(g.routes, servedRoute{r, p})
		g.hasHosts = g.hasHosts || r.host != ""
	}
	slices.SortStableFunc(g.routes, func(a, b servedRoute) int {
		return cmp.Or(cmp.Compare(b.rank(), a.rank()), cmp.Compare(len(b.host), len(a.host)), cmp.Compare(len(b.path), len(a.path)))
	})
	if first := &g.routes[0]; first.host == "" && first.path == "/" { // no route is more specific
		g.only = first.proxy
	}
	return g, nil
}

// rank orders the kinds of hosts.
func (r *route) rank() int {
	switch {
	case r.host == "":
		return 0
	case r.host[0] == '.':
		return 1
	}
	return 2
}

// close ends what the proxies do by themselves.
func (g *gateway) close() {
	for _, r := range g.routes {
		r.proxy.Close()
	}
}

// find returns the proxy for a request, nil if there is none. The path is the normal form of
// that of the request, so that "/a/../b" has the route of "/b".
func (g *gateway) find(ctx *sluice.RequestCtx) *proxy.Proxy {
	if g.only != nil {
		return g.only
	}
	host, path := "", ctx.Path()
	if g.hasHosts {
		host = hostName(ctx.Host())
	}
	for i := range g.routes {
		if r := &g.routes[i]; r.matches(host, path) {
			return r.proxy
		}
	}
	return nil
}

// matches reports whether the route is for a host and a path.
func (r *route) matches(host string, path []byte) bool {
	switch r.rank() {
	case 1:
		if !strings.HasSuffix(host, r.host) {
			return false
		}
	case 2:
		if host != r.host {
			return false
		}
	}
	n := len(r.path)
	// "/api" is a prefix of "/api/x" and not of "/apix".
	return len(path) >= n && string(path[:n]) == r.path && (r.path[n-1] == '/' || len(path) == n || path[n] == '/')
}

// hostName returns a host in lower case, without a port and a dot at its end.
func hostName(host []byte) string {
	name := strings.ToLower(string(host))
	if i := strings.LastIndexByte(name, ':'); i >= 0 && !strings.HasSuffix(name, "]") {
		name = name[:i]
	}
	return strings.TrimSuffix(name, ".")
}

// A gatewayHandler answers with the gateway that it has now.
type gatewayHandler struct{ current atomic.Pointer[gateway] }

// load makes the gateway of the options the current one.
func (h *gatewayHandler) load(o *gatewayOptions, logger sluice.Logger) error {
	routes, err := o.routes()
	if err != nil {
		return err
	}
	for i := range routes {
		options := &routes[i].options
		options.Logger = logger
		// A Proxy would make its own, which workers and new routes do not know.
		if options.Balance == proxy.Sticky && options.StickyKey == "" {
			if options.StickyKey, err = stickyKey(); err != nil {
				return fmt.Errorf("the key for the cookies of sticky: %w", err)
			}
		}
	}
	g, err := newGateway(routes)
	if err != nil {
		return err
	}
	if old := h.current.Swap(g); old != nil {
		old.close()
	}
	return nil
}

// stickyKey returns the random key of this process and the other workers.
func stickyKey() (string, error) {
	keys, err := shared.Default().TicketKeys("sluice.sticky") // they never rotate here
	if err != nil {
		return "", err
	}
	return string(keys.Keys()[0][:]), nil
}

func (h *gatewayHandler) close() {
	if g := h.current.Load(); g != nil {
		g.close()
	}
}

func (h *gatewayHandler) serve(ctx *sluice.RequestCtx) {
	if p := h.current.Load().find(ctx); p != nil {
		p.Handle(ctx)
		return
	}
	ctx.Error("there is no route for this host and path", sluice.StatusNotFound)
}
