package uri

import (
	"bytes"
	"testing"
)

func TestParseRequestTarget(t *testing.T) {
	for _, test := range []struct {
		host, target string
		isTLS        bool
		want         string
		path         string
	}{
		{"H.com", "/", false, "http://h.com/", "/"},
		{"h", "/", true, "https://h/", "/"},
		{"", "/a", false, "http:///a", "/a"},
		{"h:8080", "/a/../b?c=/../d", false, "http://h:8080/b?c=/../d", "/b"},
		{"[::1]:80", "/%2e%2e/a%20b", false, "http://[::1]:80/a%20b", "/a b"},
		{"h", "//x/y", false, "http://h/x/y", "/x/y"},
		{"h", "/a://b", false, "http://h/a:/b", "/a:/b"},
		{"h", "*", false, "http://h/%2A", "/*"},
		{"h", "http://X/y?z", true, "http://x/y?z", "/y"},
		{"h", "HTTPS://x:1", false, "https://x:1/", "/"},
		{"h", "http://x?q", false, "http://x/?q", "/"},
		{"h", "/é\"<>?q=50%&\xff", false, "http://h/%C3%A9%22%3C%3E?q=50%25&%FF", "/é\"<>"},
		{"h", "http://X/é?%", true, "http://x/%C3%A9?%25", "/é"},
		{"h", "x.com:443", false, "http://x.com:443/x.com:443", "/x.com:443"},
	} {
		var u URI
		if err := u.ParseTarget([]byte(test.host), []byte(test.target), test.isTLS); err != nil {
			t.Errorf("%q, %q: %v", test.host, test.target, err)
		}
		if got := text(&u); got != test.want || string(u.Path()) != test.path {
			t.Errorf("%q, %q: %q, path %q, want %q, %q", test.host, test.target, got, u.Path(), test.want, test.path)
		}
	}
}

func TestParseRequestTargetRefuses(t *testing.T) {
	for _, host := range []string{"u@x", "x<y>", "[::1", "::1", "x:80:80", "x:a", "x:99999", "x/y", "x y", "x\r\n", "é", "x%zz", ":80", "[]", "[x]", "[::1]x"} {
		var u URI
		if err := u.ParseTarget([]byte(host), []byte("/"), false); !isInvalidHost(err) {
			t.Errorf("host %q: %v", host, err)
		}
		if err := u.ParseTarget([]byte("h"), []byte("http://"+host+"/"), false); err == nil && host != "x/y" {
			t.Errorf("absolute-form with host %q is accepted", host)
		}
		if host != "x/y" && text(&u) != "http:///" {
			t.Errorf("host %q leaves %q", host, text(&u))
		}
	}
	for _, target := range []string{"", "a", "?q", "/a#b", "/a b", "/a\x00", "/\r\n", "/a?b c", "/a?\x7f", "ftp://x/", "http://u@x/", "http://u:p@x/",
		"http:///x", "http://", "http://x/#y", "://x/", "x/y", "x.com", "x:443/y", "http://é/", "é", "http://x\"/"} {
		var u URI
		if err := u.ParseTarget([]byte("h"), []byte(target), false); err == nil {
			t.Errorf("target %q is accepted as %q", target, text(&u))
		}
	}
}

// TestURIAfterTargetError is TestURIAfterError for the targets of requests.
func TestURIAfterTargetError(t *testing.T) {
	for _, test := range []struct{ host, target string }{
		{"host", "https://[::1/path?query"},
		{"host", "http://user@host/"},
		{"ho st", "/path?query"},
		{"host", "/path\x01?query"},
		{"host", ""},
		{"host", "ftp://host/"},
		{"host", "other:port"},
	} {
		u := parsed(t, "https://u:p@old/x?y#z")
		if err := u.ParseTarget([]byte(test.host), []byte(test.target), true); err == nil {
			t.Errorf("%q, %q: no error", test.host, test.target)
		}
		if text(u) != "http:///" || len(u.Username()) > 0 || len(u.PathOriginal()) > 0 {
			t.Errorf("%q, %q leaves %q, original path %q", test.host, test.target, text(u), u.PathOriginal())
		}
	}
}

// FuzzRequestTarget checks that what the server takes is also what Parse
// reads, and that both see the same host and path.
func FuzzRequestTarget(f *testing.F) {
	for _, s := range []string{"/", "/a?b", "//x/y", "http://h/x", "h:443", "*", "/a%2e%2e/", "/..", "/é?\"50%&<\xff"} {
		f.Add("h", s)
	}
	f.Add("WWW.Example.com:80", "/a")
	f.Fuzz(func(t *testing.T, host, target string) {
		var u, v URI
		if err := u.ParseTarget([]byte(host), []byte(target), false); err != nil {
			return
		}
		if target[0] != '/' || host == "" {
			return
		}
		if v.SetOrigin([]byte(host), []byte(target), false); text(&u) != text(&v) || !bytes.Equal(u.Path(), v.Path()) || !bytes.Equal(u.PathOriginal(), v.PathOriginal()) {
			t.Fatalf("%q, %q: %q, SetOrigin: %q", host, target, text(&u), text(&v))
		}
		var w URI
		w.SetOrigin([]byte("other"), []byte("/other?other"), true)
		if v.CopyTo(&w); text(&w) != text(&v) || !bytes.Equal(w.PathOriginal(), v.PathOriginal()) || !bytes.Equal(w.Query(), v.Query()) || w.target != nil {
			t.Fatalf("%q, %q: the copy of %q is %q", host, target, text(&v), text(&w))
		}
		if err := v.Parse([]byte(host), []byte(target)); err != nil {
			t.Fatalf("%q, %q: Parse: %v", host, target, err)
		}
		if written := u.AppendRequestURI(nil, nil, false); !writable.Match(written) {
			t.Fatalf("%q, %q: written as %q", host, target, written)
		}
		if !bytes.Equal(u.Path(), v.Path()) || !bytes.Equal(u.Query(), v.Query()) || !bytes.Equal(u.PathOriginal(), v.PathOriginal()) {
			t.Fatalf("%q, %q: %q, Parse: %q", host, target, text(&u), text(&v))
		}
	})
}

func BenchmarkURIRequestTarget(b *testing.B) {
	for name, target := range map[string]string{"root": "/", "path": "/api/v1/users/12345", "query": "/search?q=text&page=2", "escaped": "/a%20b/../c"} {
		b.Run(name, func(b *testing.B) {
			var u URI
			host, target := []byte("example.com"), []byte(target)
			for b.Loop() {
				if err := u.ParseTarget(host, target, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
