package uri

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"
)

// parsed returns the parsed URI s.
func parsed(t testing.TB, s string) *URI {
	t.Helper()
	u := new(URI)
	if err := u.Parse(nil, []byte(s)); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return u
}

// text returns the whole URI.
func text(u *URI) string { return string(u.whole()) }

func (u *URI) whole() []byte { return u.AppendBytes(nil, nil, false) }

func isInvalidHost(err error) bool {
	var invalid InvalidHostError
	return errors.As(err, &invalid)
}

// FuzzURI checks that what is accepted is written as something that means the
// same and cannot leave its line.
func FuzzURI(f *testing.F) {
	for _, s := range []string{"http://u:p@h:80/a/../b?c=d#e", "//h/x", "/a%2Fb//c", "x?y", "http://[::1%25e]:1/", "http://[::1%25%5D%C3%A9]/", "HTTP://\xc3\xa9/", "*", "://", "/é\"?50%&<\xff"} {
		f.Add("", s)
		f.Add("h:80", s)
	}
	f.Fuzz(func(t *testing.T, host, s string) {
		var u, v URI
		if err := u.Parse([]byte(host), []byte(s)); err != nil {
			if text(&u) != "http:///" {
				t.Fatalf("%q leaves %q", s, text(&u))
			}
			return
		}
		written := text(&u)
		if !writable.Match(u.AppendRequestURI(nil, nil, false)) {
			t.Fatalf("%q, %q: the target is written as %q", host, s, u.AppendRequestURI(nil, nil, false))
		}
		for i := range len(written) {
			if written[i] <= ' ' || written[i] == 0x7f {
				t.Fatalf("%q, %q are written as %q", host, s, written)
			}
		}
		if strings.ContainsAny(string(u.Host()), "/?#@ \\") {
			t.Fatalf("%q, %q: host %q", host, s, u.Host())
		}
		if err := v.Parse(nil, []byte(written)); err != nil {
			t.Fatalf("%q, %q are written as %q: %v", host, s, written, err)
		}
		if text(&v) != written || !bytes.Equal(u.Path(), v.Path()) || !bytes.Equal(u.Host(), v.Host()) {
			t.Fatalf("%q, %q: %q, read again %q", host, s, written, text(&v))
		}
	})
}

// writable is path and query as RFC 3986 sections 3.3 and 3.4 allow them, with
// "[" and "]".
var writable = regexp.MustCompile(`^/([A-Za-z0-9\-._~!$&'()*+,;=:@/?\[\]]|%[0-9A-Fa-f]{2})*$`)

// FuzzURIUpdate checks that a relative reference never leaves the host.
func FuzzURIUpdate(f *testing.F) {
	for _, s := range []string{"https:x", "https:", "HTTPS:/x//y", "https:?k://x", "https:k://x", "http:x", "mailto:x", "x\n", "x", "../x", "//k/x", "?y#z", "http://k", ":80", "@k", "\\k", "/\\k", ".//k", "..//k", "/.//k"} {
		f.Add("/a/b%2F", s)
	}
	f.Fuzz(func(t *testing.T, path, reference string) {
		var u URI
		u.SetScheme([]byte(HTTPS))
		u.SetHost([]byte("h"))
		u.SetPath([]byte(path))
		before := text(&u)
		if len(reference) > 0 {
			if _, err := u.Update([]byte(reference)); err != nil && text(&u) != "http:///" && (err != ErrInvalid || text(&u) != before) {
				t.Fatalf("%q from %q leaves %q: %v", reference, path, text(&u), err)
			}
		}
		if rest, ok := strings.CutPrefix(reference, "https:"); ok && !strings.HasPrefix(rest, "//") {
			var v URI
			v.SetScheme([]byte(HTTPS))
			v.SetHost([]byte("h"))
			v.SetPath([]byte(path))
			// What looks like a scheme once more is part of a path.
			if rest != "" && !strings.Contains(rest, "://") && !strings.HasPrefix(strings.ToLower(rest), "https:") {
				_, _ = v.Update([]byte(rest))
				if text(&u) != text(&v) {
					t.Fatalf("%q from %q: %q, without its scheme %q", reference, path, text(&u), text(&v))
				}
			}
			if string(u.Host()) != "h" {
				t.Fatalf("%q from %q leads to %q", reference, path, text(&u))
			}
		}
		if strings.HasPrefix(reference, "//") || strings.Contains(reference, "://") {
			return
		}
		if host := string(u.Host()); host != "h" && text(&u) != "http:///" {
			t.Fatalf("%q from %q leads to host %q", reference, path, host)
		}
		if full := text(&u); u.Host() != nil && string(u.Host()) == "h" && !strings.HasPrefix(full, "https://h/") {
			t.Fatalf("%q from %q leads to %q", reference, path, full)
		}
	})
}

// TestSameOrigin: a port that the scheme implies is as none (RFC 9110 section 4.3.1).
func TestSameOrigin(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"http://h/a", "http://h:80/b", true},
		{"https://h/a", "https://h:443/b", true},
		{"http://h:443/", "http://h/", false},
		{"https://h:80/", "https://h/", false},
		{"http://h/", "https://h/", false},
		{"http://h/", "http://i/", false},
		{"http://h:81/", "http://h:81/x", true},
	} {
		var a, b URI
		if errA, errB := a.Parse(nil, []byte(tc.a)), b.Parse(nil, []byte(tc.b)); errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if a.IsSameOrigin(&b) != tc.want || b.IsSameOrigin(&a) != tc.want {
			t.Errorf("%s and %s: want %v", tc.a, tc.b, tc.want)
		}
	}
}

// TestParseOfItself: what is parsed may be a part of the URI.
func TestParseOfItself(t *testing.T) {
	parts := map[string]func(u *URI, s string) []byte{
		"query": func(u *URI, s string) []byte { u.SetQuery([]byte(s)); return u.Query() },
		"hash":  func(u *URI, s string) []byte { u.SetHash([]byte(s)); return u.Hash() },
		"path":  func(u *URI, s string) []byte { u.SetPath([]byte(s)); return u.Path() },
		"given": func(u *URI, s string) []byte { u.SetPath([]byte(s)); return u.PathOriginal() },
	}
	for _, reference := range []string{
		"/path/a?x=1#h", "/a?a-long-query=1&b=2#a-long-hash", "/%41/../b?x=%20#h", "?q", "/p#/q?r", "http://other.test/path?a=query-that-is-long",
		"https://u:p@Other.test:81/a%2fb?x=1#h",
	} {
		for name, set := range parts {
			u := parsed(t, "http://h/p?q#r")
			s := set(u, reference)
			want := new(URI)
			wantErr := want.Parse([]byte("h"), bytes.Clone(s))
			if err := u.Parse([]byte("h"), s); (err != nil) != (wantErr != nil) || text(u) != text(want) {
				t.Errorf("%q as %s: %q, %v, want %q, %v", reference, name, text(u), err, text(want), wantErr)
			}
		}
	}
}

// TestAppendRequestURI: a path as it was given stays in origin-form (RFC 9112 section 3.2.1), and
// the caller's pairs replace the query once they were parsed.
func TestAppendRequestURI(t *testing.T) {
	for _, test := range []struct{ path, query, normal, original, originalWhole string }{
		{"", "", "/", "/", "http://h/"},
		{"a/../b", "", "/b", "/a/../b", "http://h/a/../b"},
		{"/a//b", "x=1&y", "/a/b?x=1&y", "/a//b?x=1&y", "http://h/a//b?x=1&y"},
		{"/%41 ", "q ", "/A%20?q%20", "/%41%20?q%20", "http://h/%41%20?q%20"},
		{"*", "", "/%2A", "*", "http://h/*"},
		{"@k", "", "/@k", "/@k", "http://h/@k"},
	} {
		var u URI
		u.SetHost([]byte("h"))
		u.SetPath([]byte(test.path))
		u.SetQuery([]byte(test.query))
		if got := string(u.AppendRequestURI([]byte("x"), nil, false)); got != "x"+test.normal {
			t.Errorf("%q: %q, want %q", test.path, got, test.normal)
		}
		if got := string(u.AppendRequestURI([]byte("x"), nil, true)); got != "x"+test.original {
			t.Errorf("%q as it was given: %q, want %q", test.path, got, test.original)
		}
		if got := string(u.AppendBytes([]byte("x"), nil, true)); got != "x"+test.originalWhole {
			t.Errorf("%q as it was given: %q, want %q", test.path, got, test.originalWhole)
		}
	}
}

// TestParseQuery: the pairs are the query until it is set again.
func TestParseQuery(t *testing.T) {
	var args Args
	u := parsed(t, "http://h/p?a=1&b=%20#f")
	if u.HasArgs() {
		t.Error("the pairs were not parsed")
	}
	u.ParseQuery(&args)
	if got := string(args.QueryString()); got != "a=1&b=+" || !u.HasArgs() {
		t.Errorf("parsed: %q, %v", got, u.HasArgs())
	}
	args.Set([]byte("a"), []byte("2"), false)
	if got := string(u.AppendBytes(nil, &args, false)); got != "http://h/p?a=2&b=+#f" {
		t.Errorf("with pairs: %q", got)
	}
	args.Reset()
	if got := string(u.AppendBytes(nil, &args, false)); got != "http://h/p#f" {
		t.Errorf("without pairs: %q", got)
	}
	u.SetQuery([]byte("c"))
	if got := string(u.AppendBytes(nil, &args, false)); got != "http://h/p?c#f" || u.HasArgs() {
		t.Errorf("with another query: %q, %v", got, u.HasArgs())
	}
}

// TestCopyToItself changes nothing.
func TestCopyToItself(t *testing.T) {
	u := parsed(t, "http://u:p@h/p?q#f")
	u.CopyTo(u)
	if text(u) != "http://h/p?q#f" || string(u.Username()) != "u" {
		t.Errorf("%q", text(u))
	}
}

// TestURIHeldBytes: each part counts.
func TestURIHeldBytes(t *testing.T) {
	part := func(n int) []byte { return make([]byte, 0, n) }
	u := URI{
		scheme: part(1), username: part(2), password: part(4), host: part(8), pathOriginal: part(16), path: part(32), query: part(64), hash: part(128), scratch: part(256),
	}
	if got := u.HeldBytes(); got != 511 {
		t.Errorf("%d, want 511", got)
	}
}

// TestParseRefusesScheme: RFC 3986 section 3.1.
func TestParseRefusesScheme(t *testing.T) {
	for _, s := range []string{"1a://h/", "a b://h/", "+a://h/", "a_b://h/", "http://h/\x00", "http://h/\x7f"} {
		u := parsed(t, "http://earlier/x")
		if err := u.Parse(nil, []byte(s)); !errors.Is(err, ErrInvalid) || text(u) != "http:///" {
			t.Errorf("%q: %v, leaves %q", s, err, text(u))
		}
	}
	if got := text(parsed(t, "A+1-.://H/x")); got != "a+1-.://h/x" {
		t.Errorf("a valid scheme: %q", got)
	}
	if got := text(parsed(t, "://H/x")); got != "http://h/x" {
		t.Errorf("an empty scheme: %q", got)
	}
}

// A proxy writes path and query, also those of a copy, as they were given until they are changed, whether
// the pairs were looked at or not.
func TestAppendForwarded(t *testing.T) {
	for target, want := range map[string]string{
		"/a": "/a", "/a?": "/a?", "/a%20b?": "/a%20b?", "/a??": "/a??", "/a?b": "/a?b", "http://h/a?": "/a?", "http://h?#f": "/?",
		"/a?x=%41&&y=+;z": "/a?x=%41&&y=+;z", "//a/../b%2fc?x=%2f": "//a/../b%2fc?x=%2f",
	} {
		var parsed, received, lent URI
		if err := parsed.Parse([]byte("h"), []byte(target)); err != nil {
			t.Fatal(err)
		}
		all := []*URI{&parsed}
		if target[0] == '/' {
			if err := received.ParseTarget([]byte("h"), []byte(target), false); err != nil {
				t.Fatal(err)
			}
			lent.SetOrigin([]byte("h"), []byte(target), false)
			all = append(all, &received, &lent)
		}
		path, _, _ := strings.Cut(want, "?")
		for i, u := range all {
			var args Args
			var dst URI
			u.CopyTo(&dst)
			for _, u := range []*URI{u, &dst} {
				if got := string(u.AppendForwarded(nil, &args)); got != want {
					t.Errorf("%q, %d: %q, want %q", target, i, got, want)
				}
				u.ParseQuery(&args)
				if got := string(u.AppendForwarded(nil, &args)); got != want {
					t.Errorf("%q, %d, looked at: %q, want %q", target, i, got, want)
				}
				if text := u.AppendRequestURI(nil, &args, true); strings.Count(want, "?") == 1 && bytes.HasSuffix(text, []byte("?")) {
					t.Errorf("%q, %d: %q is written", target, i, text)
				}
				args.Parse([]byte("c=%41"))
				if got := string(u.AppendForwarded(nil, &args)); got != path+"?c=A" {
					t.Errorf("%q, %d, other pairs: %q", target, i, got)
				}
				u.SetQuery(nil)
				if got := string(u.AppendForwarded(nil, &args)); got != path {
					t.Errorf("%q, %d: the query was removed: %q", target, i, got)
				}
			}
		}
	}
}
