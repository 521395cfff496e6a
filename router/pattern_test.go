package router

import (
	"strings"
	"testing"
)

// TestCompare: how two patterns relate, in both directions.
func TestCompare(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want relation
	}{
		{"/a", "/a", equal},
		{"/a", "/%61", equal},
		{"/{x}/b", "/{y}/b", equal},
		{"/a/{x...}", "/a/", equal},
		{"/a", "/b", disjoint},
		{"/a", "/a/", disjoint},
		{"/a/{$}", "/a/{x}", disjoint},
		{"/a/{$}", "/a", disjoint},
		{"GET /a", "POST /a", disjoint},
		{"HEAD /a", "POST /a", disjoint},
		{"/a", "/{x}", narrower},
		{"/a/{$}", "/a/", narrower},
		{"/a/{x}", "/a/", narrower},
		{"/a/b/", "/a/{x...}", narrower},
		{"HEAD /a", "GET /a", narrower},
		{"HEAD /a", "GET /{x}", narrower},
		{"GET /a", "/a", narrower},
		{"GET /a", "/", narrower},
		{"/a/{x}", "/{x}/b", overlaps},
		{"GET /", "/a", overlaps},
		{"GET /a", "HEAD /{x}", overlaps},
		{"/{x}/", "/a/{y...}", wider},
		{"/{x}/b/", "/a/", overlaps},
	} {
		p, err := parse(c.a)
		if err != nil {
			t.Fatal(err)
		}
		q, err := parse(c.b)
		if err != nil {
			t.Fatal(err)
		}
		back := map[relation]relation{narrower: wider, wider: narrower}
		want, ok := back[c.want]
		if !ok {
			want = c.want
		}
		if got := p.compare(q); got != c.want {
			t.Errorf("%s with %s: %d, want %d", c.a, c.b, got, c.want)
		}
		if got := q.compare(p); got != want {
			t.Errorf("%s with %s: %d, want %d", c.b, c.a, got, want)
		}
	}
}

// FuzzPatterns parses two patterns. If both are accepted, the request that an error about them
// names is one that both match.
func FuzzPatterns(f *testing.F) {
	f.Add("GET /a/{x}/", "/{y}/b/{z...}")
	f.Add("HEAD a.com/{$}", "GET a.com/")
	f.Add("/a%2Fb/{", "/%zz/{é}")
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a)+len(b) > 1000 {
			t.Skip()
		}
		p, err := parse(a)
		q, err2 := parse(b)
		if err != nil || err2 != nil {
			return
		}
		if p.compare(p) != equal || q.compare(q) != equal {
			t.Fatalf("%q or %q are not equal to themselves", a, b)
		}
		if p.host != q.host || p.compare(q) == disjoint {
			return
		}
		common := p.common(q)
		if strings.ContainsAny(common[strings.IndexByte(common, '/'):], "%{}") || strings.Contains(a+b, "%") {
			return // a request has another form of it
		}
		for _, text := range []string{a, b} {
			r, err := parse(common)
			if err != nil {
				return // it is not clean, or no token
			}
			with, _ := parse(text)
			// common ends with "/" as a pattern for all below it; {$} makes it one path.
			if last := len(r.segments) - 1; r.segments[last].kind == rest {
				r.segments[last] = segment{}
			}
			if got := r.compare(with); got != equal && got != narrower {
				t.Fatalf("%q and %q: %q is not matched by %q: %d", a, b, common, text, got)
			}
		}
	})
}
