package message_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

func parsedURI(t testing.TB, s string) *sluice.URI {
	t.Helper()
	var u sluice.URI
	if err := u.Parse(nil, []byte(s)); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return &u
}

func TestURIZeroValue(t *testing.T) {
	var u sluice.URI
	if string(u.Scheme()) != "http" || string(u.Path()) != "/" || u.String() != "http:///" || string(u.RequestURI()) != "/" ||
		len(u.Host())+len(u.PathOriginal())+len(u.QueryString())+len(u.Hash())+len(u.LastPathSegment()) > 0 || u.QueryArgs().Len() > 0 {
		t.Errorf("%q", u.String())
	}
}

func TestURISettersEncodeWhenWritten(t *testing.T) {
	const evil = "x\r\nEvil: 1\x00 @/?#"
	for name, test := range map[string]struct {
		set func(*sluice.URI)
		get func(*sluice.URI) []byte
		raw string
		uri string
	}{
		"scheme": {func(u *sluice.URI) { u.SetScheme(evil) }, (*sluice.URI).Scheme, strings.ToLower(evil), "x%0D%0Aevil%3A%201%00%20%40%2F%3F%23://h/p?q=r#f"},
		"host":   {func(u *sluice.URI) { u.SetHost(evil) }, (*sluice.URI).Host, strings.ToLower(evil), "http://x%0D%0Aevil:%201%00%20%40%2F%3F%23/p?q=r#f"},
		"path":   {func(u *sluice.URI) { u.SetPath(evil) }, (*sluice.URI).PathOriginal, evil, "http://h/x%0D%0AEvil:%201%00%20@/%3F%23?q=r#f"},
		"query":  {func(u *sluice.URI) { u.SetQueryString(evil) }, (*sluice.URI).QueryString, evil, "http://h/p?x%0D%0AEvil:%201%00%20@/?%23#f"},
		"hash":   {func(u *sluice.URI) { u.SetHash(evil) }, (*sluice.URI).Hash, evil, "http://h/p?q=r#x%0D%0AEvil:%201%00%20@/?#"},
		"user":   {func(u *sluice.URI) { u.SetUsername(evil) }, (*sluice.URI).Username, evil, "http://h/p?q=r#f"},
		"secret": {func(u *sluice.URI) { u.SetPassword(evil) }, (*sluice.URI).Password, evil, "http://h/p?q=r#f"},
	} {
		u := parsedURI(t, "http://h/p?q=r#f")
		test.set(u)
		if got := string(test.get(u)); got != test.raw {
			t.Errorf("%s: getter returns %q", name, got)
		}
		if got := u.String(); got != test.uri {
			t.Errorf("%s: written as %q, want %q", name, got, test.uri)
		}
	}
}

func TestURIWithoutNormalising(t *testing.T) {
	for path, want := range map[string]string{
		"/a/../b//c%2Fd": "/a/../b//c%2Fd", "": "/", "x": "/x", "*": "*", "/a b\r\n": "/a%20b%0D%0A", "/é": "/%C3%A9", "/x?y": "/x?y", "@evil": "/@evil",
	} {
		u := parsedURI(t, "http://h")
		u.DisablePathNormalizing = true
		u.SetPath(path)
		if got := string(u.RequestURI()); got != want {
			t.Errorf("%q: RequestURI %q, want %q", path, got, want)
		}
		if got := u.String(); !strings.HasPrefix(got, "http://h/") {
			t.Errorf("%q: %q", path, got)
		}
	}
	u := parsedURI(t, "http://h")
	u.DisablePathNormalizing = true
	if err := u.Parse(nil, []byte("http://h/a/../b")); err != nil || u.DisablePathNormalizing || string(u.RequestURI()) != "/b" {
		t.Errorf("after Parse: %v, %q", err, u.RequestURI())
	}
}

func TestURIQueryArgsStandForTheQuery(t *testing.T) {
	u := parsedURI(t, "http://h/p?a=%7e&&b")
	if got := string(u.RequestURI()); got != "/p?a=%7e&&b" {
		t.Errorf("before QueryArgs: %q", got)
	}
	u.QueryArgs().Add("c", "d e")
	if got := string(u.RequestURI()); got != "/p?a=~&b&c=d+e" {
		t.Errorf("after Add: %q", got)
	}
	if got := string(u.QueryString()); got != "a=%7e&&b" {
		t.Errorf("QueryString: %q", got)
	}
	u.QueryArgs().Reset()
	if got := string(u.RequestURI()); got != "/p" {
		t.Errorf("emptied: %q", got)
	}
	u.SetQueryString("z=1")
	if got := string(u.RequestURI()); got != "/p?z=1" || !u.QueryArgs().Has("z") {
		t.Errorf("after SetQueryString: %q", got)
	}
	u.Reset()
	if u.QueryArgs().Len() != 0 {
		t.Error("pairs are left after Reset")
	}
}

func TestURICopiesAreIndependent(t *testing.T) {
	const text = "https://h/a/../b?c=d#e"
	u, v := parsedURI(t, text), parsedURI(t, "ftp://old/x%20y?z#w")
	u.SetUsername("u")
	u.DisablePathNormalizing = true
	u.QueryArgs().Add("f", "g")
	u.CopyTo(v)
	u.CopyTo(u)
	want := u.String()
	u.SetPath("/q")
	u.SetHost("other")
	u.QueryArgs().Reset()
	if v.String() != want || string(v.Username()) != "u" || want != "https://h/a/../b?c=d&f=g#e" {
		t.Errorf("%q, want %q", v.String(), want)
	}
}

func TestURIPathsMayBeSetFromOwnParts(t *testing.T) {
	u := parsedURI(t, "http://h/abc/def%20g")
	u.SetPathBytes(u.Path()[4:])
	if got := string(u.RequestURI()); got != "/def%20g" {
		t.Errorf("%q", got)
	}
	u.SetPathBytes(u.PathOriginal()[1:])
	if got := string(u.RequestURI()); got != "/def%20g" {
		t.Errorf("%q", got)
	}
}

func TestURILastPathSegment(t *testing.T) {
	for path, want := range map[string]string{"": "", "/": "", "/foo/bar/baz.html": "baz.html", "/foo/bar/": "", "/foobar.js": "foobar.js", "x": "x"} {
		var u sluice.URI
		u.SetPath(path)
		if got := string(u.LastPathSegment()); got != want {
			t.Errorf("%q: %q", path, got)
		}
	}
}

func BenchmarkURIPath(b *testing.B) {
	u := parsedURI(b, "http://h/")
	for b.Loop() {
		u.Path()
	}
}

func BenchmarkURIRequestURI(b *testing.B) {
	u := parsedURI(b, "http://example.com/api/v1/users?id=12345")
	for b.Loop() {
		u.RequestURI()
	}
}

func isInvalidHost(err error) bool {
	var invalid sluice.InvalidHostError
	return errors.As(err, &invalid)
}
