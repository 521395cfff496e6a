package files_test

import (
	"bytes"
	"path"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// requested is a ctx with a request for a target of a host.
func requested(host, target string) *sluice.RequestCtx {
	ctx := &sluice.RequestCtx{}
	ctx.Request.Header.SetHost(host)
	ctx.Request.SetRequestURI(target)
	return ctx
}

func TestNewPathSlashesStripper(t *testing.T) {
	for _, c := range []struct {
		target string
		count  int
		want   string
	}{
		{"/a/b/c.txt", -1, "/a/b/c.txt"}, {"/a/b/c.txt", 0, "/a/b/c.txt"}, {"/a/b/c.txt", 1, "/b/c.txt"}, {"/a/b/c.txt", 2, "/c.txt"},
		{"/a/b/c.txt", 3, ""}, {"/a/b/c.txt", 99, ""}, {"/a/", 1, "/"}, {"/a/", 2, ""}, {"/a", 1, ""}, {"/", 0, "/"}, {"/", 1, ""},
		{"//a//b", 1, "/b"}, {"/a%2Fb/c", 1, "/b/c"}, {"/x/../a/b", 1, "/b"}, {"/a%20b/c", 1, "/c"}, {"*", 1, ""}, {"/a/b?c/d", 1, "/b"},
	} {
		ctx := requested("h", c.target)
		got := sluice.NewPathSlashesStripper(c.count)(ctx)
		if string(got) != c.want {
			t.Errorf("%q without %d segments: %q, want %q", c.target, c.count, got, c.want)
		}
		checkPathStays(t, ctx, c.target)
	}
}

func TestNewPathPrefixStripper(t *testing.T) {
	for _, c := range []struct {
		target string
		size   int
		want   string
	}{
		{"/abc/d", -1, "/abc/d"}, {"/abc/d", 0, "/abc/d"}, {"/abc/d", 1, "abc/d"}, {"/abc/d", 4, "/d"}, {"/abc/d", 5, "d"}, {"/abc", 4, ""},
		{"/abc", 5, "/abc"}, {"/", 1, ""}, {"/", 2, "/"}, {"/a%20c/d", 4, "/d"}, {"/abc//d", 4, "/d"}, {"/abc/../defg/h", 5, "/h"},
	} {
		ctx := requested("h", c.target)
		if got := sluice.NewPathPrefixStripper(c.size)(ctx); string(got) != c.want {
			t.Errorf("%q without %d bytes: %q, want %q", c.target, c.size, got, c.want)
		}
		checkPathStays(t, ctx, c.target)
	}
}

// checkPathStays fails if rewriting changed what the request asks for.
func checkPathStays(t *testing.T, ctx *sluice.RequestCtx, target string) {
	t.Helper()
	var u sluice.URI
	if err := u.Parse([]byte("h"), []byte(target)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(ctx.Path(), u.Path()) {
		t.Errorf("%q: the path has become %q", target, ctx.Path())
	}
}

func TestNewVHostPathRewriter(t *testing.T) {
	for _, c := range []struct {
		host, target string
		count        int
		want         string
	}{
		{"h", "/a/b", 0, "/h/a/b"}, {"h", "/a/b", -1, "/h/a/b"}, {"h", "/a/b", 1, "/h/b"}, {"h", "/a/b", 2, "/h"}, {"h", "/", 0, "/h/"},
		{"h", "/a/../b%20c//d", 0, "/h/b c/d"}, {"h", "/../../x", 0, "/h/x"}, {"h", "/%2e%2e/x", 0, "/h/x"}, {"other", "http://h/a", 0, "/h/a"},
		{"Example.COM", "/a", 0, "/example.com/a"}, {"h:8080", "/a", 0, "/h:8080/a"}, {"[::1]:80", "/a", 0, "/[::1]:80/a"}, {"h.", "/a", 0, "/h./a"},
		{"%c3%bc", "/a", 0, "/%c3%bc/a"},
	} {
		ctx := requested(c.host, c.target)
		if got := sluice.NewVHostPathRewriter(c.count)(ctx); string(got) != c.want {
			t.Errorf("host %q, %q without %d segments: %q, want %q", c.host, c.target, c.count, got, c.want)
		}
		checkPathStays(t, ctx, c.target)
	}
}

// TestNewVHostPathRewriterConfines has no host lead anywhere but to one folder
// below the root that is not hidden.
func TestNewVHostPathRewriterConfines(t *testing.T) {
	rewrite := sluice.NewVHostPathRewriter(0)
	for _, host := range []string{
		"", ".", "..", "...", ".hidden", "/", "a/b", "../b", "a/../../b", `a\b`, `..\b`, "a%2fb", "%2e%2e", "%2e%2e%2fb", "a%5cb", "a\x00", "a%00", "a b", "a\tb", "a\r\nb",
		"u@..", "u@h/", "..:80", ":80", "[..]", "[::1%25../..]", "a?b", "a#b", "\x7f", "\x80", "\xff..",
	} {
		ctx := requested(host, "/a/b")
		checkConfined(t, host, rewrite(ctx))
		ctx.URI().SetHost(host) // as a handler may, which checks nothing
		checkConfined(t, host, rewrite(ctx))
	}
	if got := rewrite(requested("..", "/a")); string(got) != "/invalid-host/a" {
		t.Errorf("host ..: %q", got)
	}
}

func checkConfined(t *testing.T, host string, got []byte) {
	t.Helper()
	folder, rest, ok := strings.Cut(strings.TrimPrefix(string(got), "/"), "/")
	isOdd := func(r rune) bool { return r <= ' ' || r == 0x7F || r == '\\' }
	if !ok || rest != "a/b" && rest != "" || folder == "" || folder[0] == '.' || strings.ContainsFunc(folder, isOdd) ||
		path.Clean(string(got)) != strings.TrimSuffix(string(got), "/") {
		t.Errorf("host %q: %q", host, got)
	}
}

// TestVHostPathRewriterMemory has a result live in the request's own memory, for
// as long as is documented.
func TestVHostPathRewriterMemory(t *testing.T) {
	for _, target := range []string{"/plain/path", "/not//plain/path"} {
		ctx := requested("h", target)
		first := sluice.NewVHostPathRewriter(0)(ctx)
		want := string(first)
		ctx.Path()
		ctx.QueryArgs().Set("a", "b")
		ctx.Redirect("/else/where", sluice.StatusFound)
		_ = append(first, "more than there is"...)
		if string(first) != want || string(sluice.NewVHostPathRewriter(0)(ctx)) != want {
			t.Errorf("%q: the result has become %q", target, first)
		}
		checkPathStays(t, ctx, target)
	}
}

func TestPathRewritersDontAllocate(t *testing.T) {
	ctx := requested("example.com", "/static/css/a.css")
	for name, rewrite := range map[string]sluice.PathRewriteFunc{
		"slashes": sluice.NewPathSlashesStripper(1), "prefix": sluice.NewPathPrefixStripper(7), "vhost": sluice.NewVHostPathRewriter(1),
	} {
		rewrite(ctx)
		if n := testing.AllocsPerRun(100, func() { rewrite(ctx) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
