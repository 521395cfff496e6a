package message_test

import (
	"errors"
	"testing"

	"github.com/sluicehttp/sluice"
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
		{"h", "//x/p?u=a://b", "http://h/x/p?u=a://b", ":"},
		{"h", "//u:p@x#a://b", "http://h/u:p@x#a://b", ":"},
		{"h", "//x/a://b", "http://h/x/a:/b", ":"},
		{"", "//x/p?u=a://b", "http://x/p?u=a://b", ":"},
		{"", "//x/y", "http://x/y", ":"},
		{"", "///y", "http:///y", ":"},
		{"h", "HTTPS://X.com/Y", "https://x.com/Y", ":"},
		{"h", "://x", "http://x/", ":"},
		{"", "http://x?y/z", "http://x/?y/z", ":"},
		{"", "http://x#y", "http://x/#y", ":"},
		{"", "http://u:p:q@x/", "http://x/", "u:p:q"},
		{"", "http://u@v@x", "http://x/", "u@v:"},
		{"", "http://%41%zz:%40%@x", "http://x/", "A%zz:@%"},
		{"", "http://x/u@y", "http://x/u@y", ":"},
		{"h", "/x?u=http://k/", "http://h/x?u=http://k/", ":"},
		{"h", "/http://x", "http://h/http:/x", ":"},
		{"h", "x:80", "http://h/x:80", ":"},
		{"H:80", "/", "http://h:80/", ":"},
	} {
		var u sluice.URI
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
		if err := u.Parse([]byte("h"), []byte(uri)); !errors.Is(err, sluice.ErrorInvalidURI) {
			t.Errorf("%q: %v", uri, err)
		}
		if u.String() != "http:///" || len(u.Username()) > 0 {
			t.Errorf("%q leaves %q", uri, u.String())
		}
	}
}
