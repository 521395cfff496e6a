package message_test

import (
	"errors"
	"testing"

	"github.com/sluicehttp/sluice"
)

func TestURIHosts(t *testing.T) {
	for host, want := range map[string]string{
		"x": "x", "X.Com:80": "x.com:80", "x:": "x:", ":80": ":80", "x_y": "x_y", "a..b.": "a..b.", "x:65535": "x:65535", "x:0080": "x:0080",
		"!$&'()*+,;=": "!$&'()*+,;=", "é.com": "é.com", "x%C3%A9": "xé", "É": "É", "x%80": "x\x80",
		"[::1]": "[::1]", "[::1]:80": "[::1]:80", "[::1]:": "[::1]:", "[FE80::A%25En0]:1": "[fe80::a%en0]:1", "[::ffff:1.2.3.4]": "[::ffff:1.2.3.4]",
		"[v1.x]": "[v1.x]", "[::1%25%65th]": "[::1%eth]", "[::1%25%5D]": "[::1%]]",
	} {
		var u sluice.URI
		if err := u.Parse(nil, []byte("http://"+host+"/")); err != nil || string(u.Host()) != want {
			t.Errorf("%q: %q, %v, want %q", host, u.Host(), err, want)
		}
	}
}

func TestURIHostsRefused(t *testing.T) {
	for _, host := range []string{"x y", "x<y>", "x\"", "x|", "x\\y", "x^", "x`", "x{}", "::1", "x:80:80", "x:a", "x:-1", "x:+1", "x:65536",
		"x:99999999999999999999", "[::1", "[::1]]", "[::1]x", "[::1]:a", "[::1]:80:80", "x[::1]", "[]", "[x]", "[1.2.3.4]", "[:::]", "[::1%]", "[::1%en0]",
		"[::1%25]", "[::1%25a%20b]", "[::1%25a%25b]", "[::1%25a]b]", "]", "["} {
		var u sluice.URI
		if err := u.Parse(nil, []byte("http://"+host+"/")); !isInvalidHost(err) {
			t.Errorf("%q: %q, %v", host, u.Host(), err)
		}
		if len(u.Host()) > 0 {
			t.Errorf("%q leaves %q", host, u.Host())
		}
	}
	for host, want := range map[string]sluice.EscapeError{"x%": "%", "x%4": "%4", "x%41": "%41", "x%2Fy": "%2F", "x%zz": "%zz", "%00": "%00", "x%40y": "%40", "x%7f": "%7f"} {
		var u sluice.URI
		var got sluice.EscapeError
		if err := u.Parse(nil, []byte("http://"+host+"/")); !errors.As(err, &got) || got != want {
			t.Errorf("%q: %v, want %v", host, err, want)
		}
	}
}

func TestURIHostOfTheFieldHasNoUserinfo(t *testing.T) {
	for _, host := range []string{"u@x", "u:p@x", "@x", "x@", "@", "x/", "x?y", "x#y"} {
		var u sluice.URI
		if err := u.Parse([]byte(host), []byte("/")); !isInvalidHost(err) {
			t.Errorf("%q: %v", host, err)
		}
	}
}
