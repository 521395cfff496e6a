package message

import "testing"

// TestCookieParse: user agents ignore attributes that they cannot use, and the last of several
// counts (RFC 6265 section 5.2).
// long: a table of cases
func TestCookieParse(t *testing.T) {
	for src, want := range map[string]string{
		"k=v":        "k=v",
		" k = v ":    "k=v",
		`k="v w"`:    "k=v w",
		`k=""`:       "k=",
		"v":          "v",
		`"v"`:        "v",
		"=v":         "v",
		";":          "",
		"k=v=w;":     "k=v=w",
		"k=a\r\nb":   "k=a  b",
		"k\n=":       "k =",
		"k=\xc3\xa9": "k=\xc3\xa9",

		"k=; Expires=Sun, 06 Nov 1994 08:49:37 GMT":  "k=; expires=Sun, 06 Nov 1994 08:49:37 GMT",
		"k=; expires=Sunday, 06-Nov-94 08:49:37 GMT": "k=; expires=Sun, 06 Nov 1994 08:49:37 GMT",
		"k=; expires=soon":                           "k=",
		"k=; expires":                                "k=",

		"k=; Max-Age=5":                    "k=; max-age=5",
		"k=; max-age=\"5\"":                "k=; max-age=5",
		"k=; max-age=5; max-age=6":         "k=; max-age=6",
		"k=; max-age=5; max-age=x":         "k=; max-age=5",
		"k=; max-age=0":                    "k=; max-age=0",
		"k=; max-age=-5":                   "k=; max-age=0",
		"k=; max-age=-":                    "k=",
		"k=; max-age=":                     "k=",
		"k=; max-age=+5":                   "k=",
		"k=; max-age=5s":                   "k=",
		"k=; max-age=" + maxInt:            "k=; max-age=" + maxInt,
		"k=; max-age=99999999999999999999": "k=",
		"k=; max-age=7; expires=Sun, 06 Nov 1994 08:49:37 GMT": "k=; max-age=7",

		"k=; Domain=.Example.test":  "k=; domain=.Example.test",
		"k=; domain=\"d\"":          "k=; domain=d",
		"k=; domain":                "k=",
		"k=; domain=d; domain":      "k=; domain=d",
		"k=; domain=d; domain=\x01": "k=; domain=d",
		"k=; domain=d; domain=a\"b": "k=; domain=d",
		"k=; domain=d; domain=a\\b": "k=; domain=d",
		"k=; domain=d\n":            "k=; domain=d ",

		"k=; PATH=/a//b":          "k=; path=/a//b",
		"k=; path":                "k=",
		"k=; path=/a; path=/\x7f": "k=; path=/a",
		"k=; path=/a; path=/\xc3": "k=; path=/a",
		"k=; path=/a\rb":          "k=; path=/a b",

		"k=; SECURE; httponly=x; partitioned": "k=; HttpOnly; secure; Partitioned",
		"k=; samesite":                        "k=; SameSite",
		"k=; samesite=LAX":                    "k=; SameSite=Lax",
		"k=; samesite=strict":                 "k=; SameSite=Strict",
		"k=; samesite=none":                   "k=; SameSite=None",
		"k=; samesite=lax; samesite=x":        "k=; SameSite=Lax",
		"k=; unknown=x; ; =y":                 "k=",
	} {
		var c Cookie
		if err := c.Parse([]byte("x=y; secure; domain=z; partitioned; samesite; httponly; max-age=1; path=/p")); err != nil {
			t.Fatal(err)
		}
		in := []byte(src)
		if err := c.Parse(in); err != nil {
			t.Errorf("%q: %v", src, err)
		}
		if string(in) != src {
			t.Errorf("%q is changed to %q", src, in)
		}
		clear(in)
		if got := string(c.Content()); got != want {
			t.Errorf("%q: %q, want %q", src, got, want)
		}
	}
}

// TestCookieParseRefuses: after an error the cookie is empty.
func TestCookieParseRefuses(t *testing.T) {
	for src, want := range map[string]error{
		"": ErrNoCookies, "k=\x00": ErrInvalidCookieValue, "k\x7f=v": ErrInvalidCookieValue, `k=a"b`: ErrInvalidCookieValue, `k="`: ErrInvalidCookieValue,
		`k=a\b; secure`: ErrInvalidCookieValue, `k="a""`: ErrInvalidCookieValue, "\x01": ErrInvalidCookieValue,
	} {
		var c Cookie
		_ = c.Parse([]byte("x=y; secure; domain=z"))
		if err := c.Parse([]byte(src)); err != want {
			t.Errorf("%q: %v, want %v", src, err, want)
		}
		if got := string(c.Content()); got != "" {
			t.Errorf("%q leaves %q", src, got)
		}
	}
}
