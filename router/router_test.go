package router

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice"
)

// named returns a handler that answers with the pattern and the parameters.
func named(names ...string) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		fmt.Fprint(ctx, Pattern(ctx))
		for _, name := range names {
			fmt.Fprintf(ctx, " %s=%s", name, Param(ctx, name))
		}
	}
}

// get returns status, Allow or Location, and body of the answer of r.
func get(r *Router, method, host, target string) string {
	ctx := request(method, host, target)
	r.Handler(ctx)
	h := &ctx.Response.Header
	return strings.TrimSpace(fmt.Sprintf("%d %s%s %s", ctx.Response.StatusCode(), h.Peek("Allow"), h.Peek("Location"), ctx.Response.Body()))
}

// refusal returns the error with which the registration of patterns ends.
func refusal(t *testing.T, register func(r *Router)) (err error) {
	t.Helper()
	defer func() {
		var ok bool
		if err, ok = recover().(error); !ok {
			t.Error("nothing is refused")
		}
	}()
	register(&Router{})
	return nil
}

func TestAnswers(t *testing.T) {
	r := &Router{}
	for _, p := range []string{
		"/{$}", "GET /users/{id}", "DELETE /users/{id}", "POST /users/me", "GET /files/", "HEAD /users/head",
		"api.example.com/", "[::1]/six", "PUT /a%2Fb/{id}", "/sub/{$}", "CONNECT /tunnel/../x",
	} {
		r.Handle(p, named("id"))
	}
	r.Handle("GET /tree/{path...}", named("path"))
	for _, c := range []struct{ method, host, target, want string }{
		{"GET", "x", "/", "200  /{$} id="},
		{"GET", "x", "/users/7", "200  GET /users/{id} id=7"},
		{"HEAD", "x", "/users/7", "200  GET /users/{id} id=7"},
		{"HEAD", "x", "/users/head", "200  HEAD /users/head id="},
		{"GET", "x", "/users/a%2Fb%20c", "200  GET /users/{id} id=a/b c"},
		{"GET", "x", "/users/%2e%2e", "200  GET /users/{id} id=.."},
		{"PUT", "x", "/users/7", "405 DELETE, GET, HEAD, OPTIONS Method Not Allowed"},
		{"PUT", "x", "/users/me", "405 DELETE, GET, HEAD, OPTIONS, POST Method Not Allowed"},
		{"OPTIONS", "x", "/users/7", "204 DELETE, GET, HEAD, OPTIONS"},
		{"OPTIONS", "x", "*", "204"},
		{"GET", "x", "*", "400  Bad Request"},
		{"GET", "x", "/users/", "404  404 Page not found"},
		{"OPTIONS", "x", "/users/", "404  404 Page not found"},
		{"GET", "x", "/users/7/", "404  404 Page not found"},
		{"GET", "x", "/files", "307 /files/"},
		{"GET", "x", "/files?a=%2F&b", "307 /files/?a=%2F&b"},
		{"POST", "x", "/files", "405 GET, HEAD, OPTIONS Method Not Allowed"},
		{"GET", "x", "/files//a", "307 /files/a"},
		{"GET", "x", "//evil.example/..", "307 /"},
		{"GET", "x", `/\evil.example//`, "307 /%5Cevil.example/"},
		{"GET", "x", "/none//%2Fa", "307 /none/%2Fa"},
		{"GET", "x", "/tree", "307 /tree/"},
		{"GET", "x", "/tree/", "200  GET /tree/{path...} path="},
		{"GET", "x", "/tree/a/b%2Fc/", "200  GET /tree/{path...} path=a/b/c/"},
		{"GET", "x", "/sub", "307 /sub/"},
		{"PUT", "x", "/a%2fb/1", "200  PUT /a%2Fb/{id} id=1"},
		{"PUT", "x", "/a/b/1", "404  404 Page not found"},
		{"GET", "api.example.com", "/users/7", "200  api.example.com/ id="},
		{"GET", "API.example.com:8080", "/x", "200  api.example.com/ id="},
		{"GET", "[::1]:80", "/six", "200  [::1]/six id="},
		{"GET", "[::1]", "/six", "200  [::1]/six id="},
		{"CONNECT", "x", "/tunnel/../x", "200  CONNECT /tunnel/../x id="},
		{"CONNECT", "x", "x:443", "404  404 Page not found"},
	} {
		if got := get(r, c.method, c.host, c.target); got != c.want {
			t.Errorf("%s %s %s: %s, want %s", c.method, c.host, c.target, got, c.want)
		}
	}
}

func TestAbsoluteTargets(t *testing.T) {
	r := &Router{}
	r.Handle("a.com/{$}", named())
	r.Handle("/", named())
	for target, want := range map[string]string{
		"http://a.com": "200  a.com/{$}", "http://a.com:80/": "200  a.com/{$}", "http://b.com?q": "200  /", "http://b.com/x": "200  /",
	} {
		if got := get(r, "GET", "other", target); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
}

func TestReplacedAnswers(t *testing.T) {
	r := &Router{
		NotFound:         func(ctx *sluice.RequestCtx) { ctx.Error("nothing here", 404) },
		MethodNotAllowed: func(ctx *sluice.RequestCtx) { ctx.Error("not so: "+string(ctx.Response.Header.Peek("Allow")), 405) },
	}
	r.Handle("POST /x", named())
	for target, want := range map[string]string{"/y": "404  nothing here", "/x": "405 OPTIONS, POST not so: OPTIONS, POST"} {
		if got := get(r, "GET", "h", target); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
}

// TestGroups: prefixes follow each other, and so does middleware, also for OPTIONS and 405.
func TestGroups(t *testing.T) {
	mark := func(name string) Middleware {
		return func(h sluice.RequestHandler) sluice.RequestHandler {
			return func(ctx *sluice.RequestCtx) {
				ctx.Response.Header.Add("Passed", name)
				h(ctx)
			}
		}
	}
	r := &Router{}
	api := r.Group("/api", mark("a"), mark("b"))
	api.Handle("GET /users/{id}", named("id"))
	org := api.Group("/orgs/{org}", mark("c"))
	org.Handle("/", named("org"))
	org.Group("", mark("d")).Handle("POST /members/{id}", named("org", "id"))
	api.Handle("PATCH", named())
	r.Group("/every").Handle("", named())
	r.Group("example.com").Handle("PUT  /x", named())
	r.Group("", mark("e")).Handle("GET a.com/x", named())
	for _, c := range []struct{ method, host, target, want, passed string }{
		{"GET", "x", "/api/users/1", "200  GET /api/users/{id} id=1", "a b"},
		{"OPTIONS", "x", "/api/users/1", "204 GET, HEAD, OPTIONS", "a b"},
		{"PUT", "x", "/api/users/1", "405 GET, HEAD, OPTIONS Method Not Allowed", ""},
		{"GET", "x", "/api/orgs/o/p", "200  /api/orgs/{org}/ org=o", "a b c"},
		{"POST", "x", "/api/orgs/o/members/m", "200  POST /api/orgs/{org}/members/{id} org=o id=m", "a b c d"},
		{"PATCH", "x", "/api", "200  PATCH /api", "a b"},
		{"BREW", "x", "/every", "200  /every", ""},
		{"PUT", "example.com", "/x", "200  PUT example.com/x", ""},
		{"GET", "a.com", "/x", "200  GET a.com/x", "e"},
		{"GET", "x", "/api/users/", "404  404 Page not found", ""},
	} {
		if got := get(r, c.method, c.host, c.target); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.method, c.target, got, c.want)
		}
		ctx := request(c.method, c.host, c.target)
		r.MethodNotAllowed = func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(405) }
		r.Handler(ctx)
		r.MethodNotAllowed = nil
		passed := []string{}
		for _, v := range ctx.Response.Header.PeekAll("Passed") {
			passed = append(passed, string(v))
		}
		if want := c.passed; c.method != "PUT" && strings.Join(passed, " ") != want {
			t.Errorf("%s %s passes %s, want %s", c.method, c.target, passed, want)
		}
		if c.method == "PUT" && c.host == "x" && len(passed) != 2 {
			t.Errorf("the 405 passes %s", passed)
		}
	}
	want := []string{"GET /api/users/{id}", "/api/orgs/{org}/", "POST /api/orgs/{org}/members/{id}", "PATCH /api", "/every", "PUT example.com/x", "GET a.com/x"}
	if got := r.Patterns(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestRefusedPatterns(t *testing.T) {
	h := named()
	for want, register := range map[string]func(r *Router){
		`sluice: pattern "GET": there is no path: it begins with a slash`:                                                       func(r *Router) { r.Handle("GET", h) },
		`sluice: pattern "G,T /": the method "G,T" is not a token`:                                                              func(r *Router) { r.Handle("G,T /", h) },
		`sluice: pattern "{h}/": a host has no wildcards`:                                                                       func(r *Router) { r.Handle("{h}/", h) },
		`sluice: pattern "GET /a/../b": no request matches it, because paths are cleaned first: /b`:                             func(r *Router) { r.Handle("GET /a/../b", h) },
		`sluice: pattern "/a{x}": a wildcard is a whole segment: "a{x}"`:                                                        func(r *Router) { r.Handle("/a{x}", h) },
		`sluice: pattern "/{x}/{x}": there are two wildcards named x`:                                                           func(r *Router) { r.Handle("/{x}/{x}", h) },
		`sluice: pattern "/{1}": the name of a wildcard is not an identifier: "1"`:                                              func(r *Router) { r.Handle("/{1}", h) },
		`sluice: pattern "/{x...}/": {x...} is not at the end`:                                                                  func(r *Router) { r.Handle("/{x...}/", h) },
		`sluice: pattern "/{$}/": {$} is not at the end`:                                                                        func(r *Router) { r.Handle("/{$}/", h) },
		`sluice: pattern "GET POST /a": a host has no spaces: "POST "`:                                                          func(r *Router) { r.Handle("GET POST /a", h) },
		`sluice: pattern "/": the handler is nil`:                                                                               func(r *Router) { r.Handle("/", nil) },
		`sluice: pattern "/a/": the prefix of a group ends with a slash`:                                                        func(r *Router) { r.Group("/a/") },
		`sluice: pattern "GET /ahost/": the path of a pattern in a group with a prefix begins with a slash`:                     func(r *Router) { r.Group("/a").Handle("GET host/", h) },
		`sluice: pattern "/a/{y}" conflicts with "/a/{x}": both match the same requests`:                                        func(r *Router) { r.Handle("/a/{x}", h); r.Handle("/a/{y}", h) },
		`sluice: pattern "/b" conflicts with "GET /": both match GET /b, and each matches requests that the other one does not`: func(r *Router) { r.Handle("GET /", h); r.Handle("/b", h) },
		`sluice: pattern "/{x}/a" conflicts with "HEAD /b/": both match HEAD /b/a, and each matches requests that the other one does not`: func(r *Router) {
			r.Handle("HEAD /b/", h)
			r.Handle("/{x}/a", h)
		},
		`sluice: pattern "a.com/{x}/{z...}" conflicts with "a.com/{y}/{x...}": both match the same requests`: func(r *Router) {
			r.Group("a.com").Handle("/{y}/{x...}", h)
			r.Group("a.com").Handle("/{x}/{z...}", h)
		},
	} {
		err := refusal(t, register)
		var conflict *ConflictError
		var malformed *PatternError
		if err == nil || err.Error() != want || !errors.As(err, &conflict) && !errors.As(err, &malformed) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestRefusedPatternsChangeNothing: what was registered before works.
func TestRefusedPatternsChangeNothing(t *testing.T) {
	r := &Router{}
	r.Handle("/a/{x}", named("x"))
	err := refusal(t, func(*Router) { r.Handle("/a/{y}", named("y")) })
	if got := get(r, "GET", "h", "/a/1"); got != "200  /a/{x} x=1" || len(r.Patterns()) != 1 {
		t.Errorf("after %v: %s", err, got)
	}
}

// TestValues: parameters are user values, and stay what they are when the handler changes the
// URI and when the request ends.
func TestValues(t *testing.T) {
	r := &Router{}
	var kept any
	var seen []string
	r.Handle("/{a}/{b...}", func(ctx *sluice.RequestCtx) {
		ctx.URI().SetPath("/other")
		ctx.Request.SetRequestURI("/third/fourth")
		ctx.SetUserValue("b", 5)
		kept = ctx.UserValue("a")
		if v := ctx.UserValueBytes([]byte("a")); v != kept || ctx.UserValue([]byte("a")) != kept || ctx.Value("a") != kept {
			t.Errorf("%v", v)
		}
		if got := string(Param(ctx, "b")); got != "two/three" && got != "y" {
			t.Errorf("b is %s", got)
		}
		if Param(ctx, "c") != nil || ctx.UserValue("c") != nil || ctx.UserValueBytes([]byte("c")) != nil || ctx.UserValue(5) != nil {
			t.Error("c is there")
		}
		ctx.VisitUserValues(func(key []byte, value any) { seen = append(seen, fmt.Sprint(string(key), "=", value)) })
	})
	ctx := request("GET", "x", "/one/two%2Fthree")
	r.Handler(ctx)
	if kept != "one" || fmt.Sprint(seen) != "[b=5 a=one]" {
		t.Errorf("%v, %v", kept, seen)
	}
	ctx.ResetUserValues()
	if Pattern(ctx) != "" || Param(ctx, "a") != nil || ctx.UserValue("a") != nil {
		t.Error("the route is there after ResetUserValues")
	}
	ctx.Request.SetRequestURI("/x/y")
	r.Handler(ctx)
	if kept != "x" {
		t.Errorf("%v", kept)
	}
	ctx.Request.Reset()
	if Pattern(ctx) != "" {
		t.Error("the route is there after Reset")
	}
	if ctx = request("GET", "x", "/"); Pattern(ctx) != "" || Param(ctx, "a") != nil {
		t.Error("there is a route before Handler")
	}
}

// TestRouterWithinRouter: the inner one finds other parameters; where it finds no route, those
// of the outer one stay.
func TestRouterWithinRouter(t *testing.T) {
	inner := &Router{}
	inner.Handle("GET /outer/{b}/x", named("a", "b"))
	inner.NotFound = named("a")
	outer := &Router{}
	outer.Handle("/outer/{a...}", inner.Handler)
	for target, want := range map[string]string{"/outer/1/x": "200  GET /outer/{b}/x a= b=1", "/outer/1/y": "200  /outer/{a...} a=1/y"} {
		if got := get(outer, "GET", "h", target); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
}

// TestManyWildcards: a pattern may have more wildcards than what needs no allocation.
func TestManyWildcards(t *testing.T) {
	pattern, path, want := "", "", ""
	var names []string
	for i := range 3 * stackSpans {
		names = append(names, fmt.Sprint("p", i))
		pattern, path, want = pattern+"/{"+names[i]+"}", path+fmt.Sprint("/", i), want+fmt.Sprintf(" p%d=%d", i, i)
	}
	r := &Router{}
	r.Handle(pattern, named(names...))
	if got := get(r, "GET", "h", path); got != "200  "+pattern+want {
		t.Error(got)
	}
}

// TestAdversarialTables: patterns that share all beginnings, and paths that fit them up to the
// last segment, cost as many steps as there are nodes. With one for each choice between a
// literal and a wildcard, the test would not end.
func TestAdversarialTables(t *testing.T) {
	const depth = 40
	r := &Router{}
	for i := range depth {
		for j := range i {
			segments := slices.Repeat([]string{"{x}"}, depth)
			for k := range segments {
				segments[k] = fmt.Sprintf("{x%d}", k)
			}
			segments[i], segments[j] = "a", "a"
			r.Handle(fmt.Sprintf("/%s/end%d-%d", strings.Join(segments, "/"), i, j), named("x0"))
		}
	}
	path := strings.Repeat("/a", depth)
	for target, want := range map[string]string{
		path + "/end5-3":                   "200",
		path + "/none":                     "404",
		path:                               "404",
		path + "/end5-3/":                  "404",
		strings.Repeat("/%61", 4000):       "404",
		strings.Repeat("/a", 30_000) + "/": "404",
	} {
		if got, _, _ := strings.Cut(get(r, "GET", "h", target), " "); got != want {
			t.Errorf("%.100s: %s, want %s", target, got, want)
		}
	}
}

// TestConcurrentRequests: many goroutines route at once.
func TestConcurrentRequests(t *testing.T) {
	r := &Router{}
	r.Handle("GET /{a}/{b...}", named("a", "b"))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 100 {
				if got, want := get(r, "GET", "h", fmt.Sprintf("/%d/%%2F%d", i, j)), fmt.Sprintf("200  GET /{a}/{b...} a=%d b=/%d", i, j); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
		})
	}
	wg.Wait()
}
