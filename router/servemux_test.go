package router

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// An answer is what became of a request.
type answer struct {
	pattern  string // of the handler that was called; empty: none
	values   string // of the wildcards
	status   int    // if no handler was called
	location string
	allow    string
}

// A pair is a Router and a ServeMux with the same patterns.
type pair struct {
	router   Router
	mux      http.ServeMux
	accepted []string
	ours     answer // of the last request
	theirs   answer
}

var wildcardNames = []string{"x", "y", "z", "r"}

// handle registers a pattern with both, and returns their errors.
func (p *pair) handle(pattern string) (ours, theirs error) {
	register := func(handle func()) (err error) {
		defer func() {
			if v := recover(); v != nil {
				if e, ok := v.(error); ok {
					err = e
				} else {
					err = fmt.Errorf("%v", v)
				}
			}
		}()
		handle()
		return nil
	}
	if path := pattern[strings.IndexByte(pattern, '/')+1:]; strings.HasPrefix(path, "/") || strings.Contains(path, "//") {
		if _, err := parse(pattern); err == nil {
			return nil, errors.New("empty segments are for ServeMux as wildcards")
		}
		return nil, nil
	}
	if _, err := parse(pattern); err != nil && strings.Contains(err.Error(), "a host has no spaces") {
		return nil, nil // no request matches it
	}
	theirs = register(func() {
		p.mux.HandleFunc(pattern, func(_ http.ResponseWriter, r *http.Request) {
			p.theirs.pattern = r.Pattern
			defer func() { // PathValue panics if a {name} has matched an empty segment of CONNECT
				if recover() != nil {
					p.theirs.values = "panic"
				}
			}()
			for _, name := range wildcardNames {
				if strings.Contains(r.Pattern, "{"+name) {
					p.theirs.values += fmt.Sprintf("%s=%q ", name, r.PathValue(name))
				}
			}
		})
	})
	ours = register(func() {
		p.router.Handle(pattern, func(ctx *sluice.RequestCtx) {
			p.ours.pattern = Pattern(ctx)
			for _, name := range wildcardNames {
				if value := Param(ctx, name); value != nil {
					p.ours.values += fmt.Sprintf("%s=%q ", name, value)
				}
			}
		})
	})
	if ours == nil && theirs == nil {
		p.accepted = append(p.accepted, pattern)
	}
	return ours, theirs
}

// ask sends a request to both. ok is false if one of the servers would refuse it before.
func (p *pair) ask(method, host, target string) (ok bool) {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return false
	}
	if method == http.MethodConnect { // whose target is the host
		u.Host = host
	}
	p.ours, p.theirs = answer{}, answer{}
	w := httptest.NewRecorder()
	p.mux.ServeHTTP(w, &http.Request{Method: method, Host: host, URL: u, RequestURI: target, ProtoMajor: 1, ProtoMinor: 1})
	if p.theirs.pattern == "" {
		p.theirs.status, p.theirs.location, p.theirs.allow = w.Code, w.Header().Get("Location"), w.Header().Get("Allow")
	}

	ctx := request(method, host, target)
	p.router.Handler(ctx)
	if p.ours.pattern == "" {
		h := &ctx.Response.Header
		p.ours.status, p.ours.location, p.ours.allow = ctx.Response.StatusCode(), string(h.Peek("Location")), string(h.Peek("Allow"))
	}
	return true
}

// request returns a ctx with a request.
func request(method, host, target string) *sluice.RequestCtx {
	ctx := &sluice.RequestCtx{}
	ctx.Request.Header.SetMethod(method)
	ctx.Request.Header.SetHost(host)
	ctx.Request.SetRequestURI(target)
	return ctx
}

// differs reports whether the answers to the last request differ, but for what
// docs/guide/router.md lists.
func (p *pair) differs(method, target string) bool {
	ours, theirs := p.ours, p.theirs
	if theirs.values == "panic" && method == http.MethodConnect {
		ours.values = theirs.values
	}
	if method == "OPTIONS" && ours.status == http.StatusNoContent { // OPTIONS is answered
		ours.status = http.StatusMethodNotAllowed
	}
	allow := strings.Split(ours.allow, ", ")
	if !slices.Contains(strings.Split(theirs.allow, ", "), "OPTIONS") { // and so it is allowed
		ours.allow = strings.Join(slices.DeleteFunc(allow, func(m string) bool { return m == "OPTIONS" }), ", ")
	}
	if ours.location != theirs.location && ours.status == theirs.status {
		u, _ := url.ParseRequestURI(target)
		path, query, _ := strings.Cut(ours.location, "?")
		for _, other := range []string{path, clean(clean(u.Path) + "/")} { // encoded twice, or decoded
			if redirect := (&url.URL{Path: other, RawQuery: query}).String(); redirect == theirs.location {
				ours.location = theirs.location
			}
		}
	}
	return ours != theirs
}

var (
	someMethods  = []string{"", "", "GET", "GET", "POST", "HEAD", "CONNECT", "PUT", "OPTIONS"}
	someHosts    = []string{"", "", "", "a.com", "b.com", "a.com:80"}
	someSegments = []string{"a", "b", "a", "b", "{x}", "{y}", "{z}", "%61", "a%2Fb", "a%2fb", "%2e%2e", "..", "", "x"}
	someEnds     = []string{"", "", "/", "/{$}", "/{r...}"}

	askedMethods  = []string{"GET", "GET", "GET", "POST", "HEAD", "CONNECT", "PUT", "OPTIONS", "BREW"}
	askedHosts    = []string{"a.com", "b.com", "c.com", "a.com:80", "b.com:443"}
	askedSegments = []string{"a", "b", "c", "a", "b", "%61", "a%2Fb", "a%2fb", "%2e%2e", "..", ".", "", "x", "%25", "a+b", "%20"}
	askedEnds     = []string{"", "", "/", "//", "/..", "?q=1", "/?q=%2F"}
)

func pick(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }

func somePath(r *rand.Rand, segments, ends []string, most int) string {
	text := ""
	for range r.IntN(most + 1) {
		text += "/" + pick(r, segments)
	}
	if text += pick(r, ends); text == "" || text[0] != '/' {
		text = "/" + text
	}
	return text
}

// TestServeMux: made patterns conflict as they do in net/http's ServeMux, and made requests
// get the same handlers, values, redirects and statuses.
func TestServeMux(t *testing.T) {
	tables := 3000
	if testing.Short() {
		tables = 300
	}
	patterns, conflicts, requests, handled := 0, 0, 0, 0
	for seed := range tables {
		r := rand.New(rand.NewPCG(uint64(seed), 41))
		var p pair
		segments := someSegments[:4+r.IntN(len(someSegments)-3)]
		for range 2 + r.IntN(12) {
			method := pick(r, someMethods)
			if method != "" {
				method += " "
			}
			pattern := method + pick(r, someHosts) + somePath(r, segments, someEnds, 3)
			ours, theirs := p.handle(pattern)
			if (ours == nil) != (theirs == nil) {
				t.Fatalf("seed %d, after %q: %q: %v, ServeMux: %v", seed, p.accepted, pattern, ours, theirs)
			}
			patterns++
			if _, ok := ours.(*ConflictError); ok {
				conflicts++
			}
		}
		for range 60 {
			method, host, target := pick(r, askedMethods), pick(r, askedHosts), somePath(r, askedSegments, askedEnds, 4)
			if !p.ask(method, host, target) {
				continue
			}
			requests++
			if p.ours.pattern != "" {
				handled++
			}
			if p.differs(method, target) {
				t.Errorf("seed %d, %q: %s %s %s: %+v, ServeMux: %+v", seed, p.accepted, method, host, target, p.ours, p.theirs)
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d patterns, %d conflicts; %d requests, %d handled", patterns, conflicts, requests, handled)
}

// TestServeMuxSyntax: ServeMux accepts the same patterns.
func TestServeMuxSyntax(t *testing.T) {
	for _, pattern := range []string{
		"", " ", "/", " /", "GET /", "GET  \t /", "GET/", "GET", "get /", "G,T /", "GÉT /", "\t/", "a.com", "a.com/", "A.com/", "a.com:80/", "[::1]/", "{h}/", "GET a.com/x", "GET a b/x", "a{b/",
		"//", "/a//b", "GET /a//b", "GET /a/./b", "GET /..", "/..", "CONNECT /a/../b", "CONNECT //", "GET //a", "GET /a/%2e%2e/b", "GET /a/", "GET a.com//",
		"/{", "/}", "/a}", "/{}", "/{$}", "/{$}/", "/{$", "/$", "/{$$}", "/{$...}", "/{x}", "/{x}/", "/{x", "/x}", "/a{x}", "/{x}a", "/{x}{y}", "/{x}/{x}", "/{x}/{x...}", "/{x...}", "/{x...}/",
		"/{x...}/{$}", "/{...}", "/{....}", "/{x....}", "/{x..}", "/{1}", "/{_}", "/{x1}", "/{é}", "/{type}", "/{a b}", "/{a-b}", "/{x }", "/{x.y}", "/{٣}", "/{a٣}", "/{a\xff}",
		"/%", "/%zz", "/%61", "/a%2Fb", "/a b", "/é", "/a?b", "/a#b", "/\x00", "/*", "*", "GET *", "/a/{x}/b/{y...}", "http://a.com/", "/a/{x}//", "GET /{x}//", "GET /{x...}",
	} {
		var p pair
		ours, theirs := p.handle(pattern)
		if (ours == nil) != (theirs == nil) {
			t.Errorf("%q: %v, ServeMux: %v", pattern, ours, theirs)
		}
	}
}

// FuzzServeMux compares patterns, one a line, and a request with ServeMux.
func FuzzServeMux(f *testing.F) {
	f.Add("GET /a/{x}\n/a/b/{r...}\na.com/{$}", "GET", "a.com", "/a/b%2Fc?d")
	f.Add("/{x}/{$}\nPOST /a/\nCONNECT /a//b", "HEAD", "b.com", "/a//b/..")
	f.Add("GET /%61/{x...}\nHEAD /a/\n/{", "OPTIONS", "a.com", "/%61")
	f.Fuzz(func(t *testing.T, patterns, method, host, target string) {
		if len(patterns) > 500 || len(target) > 500 || method == "" || !isMethod(method) || !strings.HasPrefix(target, "/") {
			t.Skip()
		}
		var p pair
		for pattern := range strings.Lines(patterns) {
			pattern = strings.TrimSuffix(pattern, "\n")
			if q, err := parse(pattern); err == nil && !strings.Contains(pattern, q.host+"/") {
				t.Skip() // a host with capitals
			}
			ours, theirs := p.handle(pattern)
			if (ours == nil) != (theirs == nil) {
				t.Fatalf("after %q: %q: %v, ServeMux: %v", p.accepted, pattern, ours, theirs)
			}
		}
		if !isPlainHost(host) || !isPlainTarget(target) || !p.ask(method, host, target) {
			t.Skip()
		}
		if p.differs(method, target) {
			t.Fatalf("%q: %s %s %s: %+v, ServeMux: %+v", p.accepted, method, host, target, p.ours, p.theirs)
		}
	})
}

func isPlainHost(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789.-") == ""
}

// isPlainTarget reports whether RFC 3986 allows the bytes of s.
func isPlainTarget(s string) bool {
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=:@/?%") == ""
}

// TestDifferencesFromServeMux: what docs/guide/router.md lists, and still so.
func TestDifferencesFromServeMux(t *testing.T) {
	for _, c := range []struct{ pattern, method, host, target, theirs, ours string }{
		{"Example.com/", "GET", "example.com", "/", "404", "Example.com/"},
		{"[::1]/", "GET", "[::1]", "/", "[::1]/", "[::1]/"},
		{"[::1]/", "GET", "[::1]:80", "/", "404", "[::1]/"},
		{"::1/", "GET", "[::1]:80", "/", "::1/", "404"},
		{"GET /a", "OPTIONS", "h", "/a", "405 GET, HEAD", "204 GET, HEAD, OPTIONS"},
		{"GET /", "PUT", "h", "/a", "405 GET, HEAD", "405 GET, HEAD, OPTIONS"},
		{"/", "GET", "h", "/a%20b//", "307 /a%2520b/", "307 /a%20b/"},
		{"/{x}/", "GET", "h", "/a%2Fb", "307 /a/b/", "307 /a%2Fb/"},
		{"/{$}", "GET", "h", "http://h", "307 /", "/{$}"},
		{"/{x}", "GET", "h", "/a%2Fb|", "404", `/{x} x="a/b|" `},
		{"/{x}/", "CONNECT", "h", "//", "/{x}/ panic", `/{x}/ x="" `},
	} {
		var p pair
		if ours, theirs := p.handle(c.pattern); ours != nil || theirs != nil {
			t.Fatal(ours, theirs)
		}
		if !p.ask(c.method, c.host, c.target) {
			t.Fatal(c.target)
		}
		for _, side := range []struct {
			answer
			want string
		}{{p.theirs, c.theirs}, {p.ours, c.ours}} {
			got := strings.TrimSpace(side.pattern + " " + side.values)
			if side.pattern == "" {
				got = strings.TrimSpace(fmt.Sprint(side.status, " ", side.location, side.allow))
			}
			if got != strings.TrimSpace(side.want) {
				t.Errorf("%s: %s %s %s: %s, want %s", c.pattern, c.method, c.host, c.target, got, side.want)
			}
		}
	}
}
