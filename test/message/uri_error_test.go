package message_test

import (
	"testing"
)

// TestURIAfterError: an error of Parse leaves nothing of what came before it,
// neither of the old URI nor of the new one.
func TestURIAfterError(t *testing.T) {
	for _, test := range []struct{ host, uri string }{
		{"", "https://us\"er@host/path?query#hash"},
		{"", "https://user:password@ho st/path?query#hash"},
		{"", "ftp://user@[::1/path"},
		{"", "//user:password@host:port:port/path"},
		{"ho st", "/path?query#hash"},
		{"host", "https://host/\x01"},
	} {
		u := parsedURI(t, "https://u:p@old/x?y#z")
		if err := u.Parse([]byte(test.host), []byte(test.uri)); err == nil {
			t.Errorf("%q, %q: no error", test.host, test.uri)
		}
		for name, part := range map[string][]byte{
			"user name": u.Username(), "password": u.Password(), "host": u.Host(),
			"query": u.QueryString(), "hash": u.Hash(), "original path": u.PathOriginal(),
		} {
			if len(part) > 0 {
				t.Errorf("%q, %q leaves the %s %q", test.host, test.uri, name, part)
			}
		}
		if u.String() != "http:///" {
			t.Errorf("%q, %q leaves %q", test.host, test.uri, u.String())
		}
	}
}
