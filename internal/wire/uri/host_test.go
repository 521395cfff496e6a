package uri

import (
	"errors"
	"testing"
)

// TestParseUnusualHost: a name may have percent-encoded bytes above 0x7F only, because others
// could decode to a delimiter, and a port is at most 65535 (RFC 3986 section 3.2).
func TestParseUnusualHost(t *testing.T) {
	for _, test := range []struct{ host, want string }{
		{"B\xc3\xbcCHER.de", "b\xc3\xbccher.de"},
		{"b%C3%BCcher", "b\xc3\xbccher"},
		{"%c3%bc:80", "\xc3\xbc:80"},
		{"h:", "h:"},
		{"H:65535", "h:65535"},
		{"h:00080", "h:00080"},
	} {
		var u URI
		if err := u.Parse(nil, []byte("http://"+test.host+"/")); err != nil || string(u.Host()) != test.want {
			t.Errorf("%q: %q, %v, want %q", test.host, u.Host(), err, test.want)
		}
		u.Reset(nil)
		if err := u.Parse([]byte(test.host), []byte("/")); err != nil || string(u.Host()) != test.want {
			t.Errorf("%q as Host: %q, %v, want %q", test.host, u.Host(), err, test.want)
		}
	}
}

func TestParseRefusesHost(t *testing.T) {
	for _, test := range []struct {
		host string
		want error
	}{
		{"%41", EscapeError("%41")},
		{"a%2Fb", EscapeError("%2F")},
		{"a%zzb", EscapeError("%zz")},
		{"a%C", EscapeError("%C")},
		{"a%", EscapeError("%")},
		{"h:65536", InvalidHostError("h:65536")},
		{"h:8a", InvalidHostError("h:8a")},
		{"h:1:2", InvalidHostError("h:1:2")},
		{"a b", InvalidHostError("a b")},
		{"a<b", InvalidHostError("a<b")},
		{"[::1", InvalidHostError("[::1")},
		{"[::1%25a%2Fb]", InvalidHostError("[::1%25a%2Fb]")},
		{"[::1%25a%20b]", InvalidHostError("[::1%25a%20b]")},
	} {
		var u URI
		for name, parse := range map[string]func() error{
			"absolute":  func() error { return u.Parse(nil, []byte("http://"+test.host+"/p")) },
			"authority": func() error { return u.Parse(nil, []byte("//"+test.host+"/p")) },
			"Host":      func() error { return u.Parse([]byte(test.host), []byte("/p")) },
		} {
			if err := parse(); !errors.Is(err, test.want) {
				t.Errorf("%s %q: %v, want %v", name, test.host, err, test.want)
			}
			if text(&u) != "http:///" {
				t.Errorf("%s %q leaves %q", name, test.host, text(&u))
			}
		}
	}
}

// TestWithoutZone: only an IPv6 address has a zone (RFC 6874 section 2).
func TestWithoutZone(t *testing.T) {
	for host, want := range map[string]string{
		"": "", "h:80": "h:80", "a%b": "a%b", "[::1]:80": "[::1]:80", "[::1%25": "[::1%25", "[::1%a]": "[::1]", "[::1%a]:80": "[::1]:80", "[::1%a]b]": "[::1]",
	} {
		in := []byte(host)
		if got := string(WithoutZone(in)); got != want || string(in) != host {
			t.Errorf("%q: %q, want %q; the argument is now %q", host, got, want, in)
		}
	}
}
