package sluice

import (
	"errors"
	"testing"
)

func TestURIParse(t *testing.T) {
	for _, test := range []struct{ host, uri, want, userinfo string }{
		{"", "", "http:///", ":"},
		{"h", "", "http://h/", ":"},
		{"h", "/a/b?c=d#e", "http://h/a/b?c=d#e", ":"},
		{"h", "a", "http://h/a", ":"},
		{"h", "?a", "http://h/?a", ":"},
		{"h", "#a?b", "http://h/#a?b", ":"},
		{"h", "//x/y", "http://h/x/y", ":"},
		{"", "//x/y", "http://x/y", ":"},
		{"", "///y", "http:///y", ":"},
		{"h", "HTTPS://X.com/Y", "https://x.com/Y", ":"},
		{"h", "://x", "http://x/", ":"},
		{"", "http://x?y/z", "http://x/?y/z", ":"},
		{"", "http://x#y", "http://x/#y", ":"},
		{"", "http://u:p:q@x/", "http://x/", "u:p:q"},
		{"", "http://u@v@x", "http://x/", "u@v:"},
		{"", "http://%41:@x", "http://x/", "%41:"},
		{"", "http://x/u@y", "http://x/u@y", ":"},
		{"h", "/x?u=http://k/", "http://h/x?u=http://k/", ":"},
		{"h", "/http://x", "http://h/http:/x", ":"},
		{"h", "x:80", "http://h/x:80", ":"},
		{"H:80", "/", "http://h:80/", ":"},
	} {
		var u URI
		if err := u.Parse([]byte(test.host), []byte(test.uri)); err != nil {
			t.Errorf("%q, %q: %v", test.host, test.uri, err)
		}
		if got := u.String(); got != test.want {
			t.Errorf("%q, %q: %q, want %q", test.host, test.uri, got, test.want)
		}
		if got := string(u.Username()) + ":" + string(u.Password()); got != test.userinfo {
			t.Errorf("%q, %q: user information %q, want %q", test.host, test.uri, got, test.userinfo)
		}
	}
}

func TestURIParseRefuses(t *testing.T) {
	for _, uri := range []string{"/a\r\nb", "/\x00", "/\t", "/\x7f", "/?\n", "/#\n", "http://x\n/", "1a://x", "a b://x", "?a://x", "-://x",
		"http://u\"@x/", "http://\xc3\xa9@x/", "http://u @x/", "http://[u]@x/"} {
		u := parsedURI(t, "https://u:p@old/x?y#z")
		if err := u.Parse([]byte("h"), []byte(uri)); !errors.Is(err, ErrorInvalidURI) {
			t.Errorf("%q: %v", uri, err)
		}
		if u.String() != "http:///" || len(u.Username()) > 0 {
			t.Errorf("%q leaves %q", uri, u.String())
		}
	}
}

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
		if err := u.parseRequestTarget([]byte(test.host), []byte(test.target), test.isTLS); err != nil {
			t.Errorf("%q, %q: %v", test.host, test.target, err)
		}
		if got := u.String(); got != test.want || string(u.Path()) != test.path {
			t.Errorf("%q, %q: %q, path %q, want %q, %q", test.host, test.target, got, u.Path(), test.want, test.path)
		}
	}
}

func TestParseRequestTargetRefuses(t *testing.T) {
	for _, host := range []string{"u@x", "x<y>", "[::1", "::1", "x:80:80", "x:a", "x:99999", "x/y", "x y", "x\r\n", "é", "x%zz", ":80", "[]", "[x]", "[::1]x"} {
		var u URI
		if err := u.parseRequestTarget([]byte(host), []byte("/"), false); !isInvalidHost(err) {
			t.Errorf("host %q: %v", host, err)
		}
		if err := u.parseRequestTarget([]byte("h"), []byte("http://"+host+"/"), false); err == nil && host != "x/y" {
			t.Errorf("absolute-form with host %q is accepted", host)
		}
		if host != "x/y" && u.String() != "http:///" {
			t.Errorf("host %q leaves %q", host, u.String())
		}
	}
	for _, target := range []string{"", "a", "?q", "/a#b", "/a b", "/a\x00", "/\r\n", "/a?b c", "/a?\x7f", "ftp://x/", "http://u@x/", "http://u:p@x/",
		"http:///x", "http://", "http://x/#y", "://x/", "x/y", "x.com", "x:443/y", "http://é/", "é", "http://x\"/"} {
		var u URI
		if err := u.parseRequestTarget([]byte("h"), []byte(target), false); err == nil {
			t.Errorf("target %q is accepted as %q", target, u.String())
		}
	}
}
