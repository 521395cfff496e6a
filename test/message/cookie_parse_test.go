package message_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

func TestCookieParse(t *testing.T) {
	for s, want := range map[string]string{
		"a=b": "a=b", "a": "a", "=b": "b", "=": "", ";": "", "; a=b": "", " a = b ": "a=b", "a=b=c": "a=b=c", "a=": "a=",
		"a=\"b\"": "a=b", "a=\"b c\"": "a=b c", "a=\"\"": "a=", "a=b c,d": "a=b c,d", "a=\xc3\xa9": "a=\xc3\xa9", "a\nb=c\r\nd": "a b=c  d",
		"a=b; Path=/x; DOMAIN=D": "a=b; domain=D; path=/x", "a=b;\tpath\t=\t/x\t": "a=b; path=/x", "a=b; path=\"/x\"": "a=b; path=/x", "a=b; path=/x y~": "a=b; path=/x y~", "a=b; path": "a=b",
		"a=b; path=/x; path=/y": "a=b; path=/y", "a=b; path=/x; path=": "a=b", "a=b; unknown=1; =x; ;secure": "a=b; secure",
		"a=b; Secure=no; HttpOnly=1; Partitioned=": "a=b; HttpOnly; secure; Partitioned",
		"a=b; SameSite": "a=b; SameSite", "a=b; SameSite=lAx": "a=b; SameSite=Lax", "a=b; samesite=strict": "a=b; SameSite=Strict",
		"a=b; samesite=none": "a=b; SameSite=None", "a=b; samesite=x": "a=b", "a=b; samesite=lax; samesite=x": "a=b; SameSite=Lax",
		"a=b; max-age=10": "a=b; max-age=10", "a=b; max-age=010": "a=b; max-age=10", "a=b; max-age=0": "a=b; max-age=0", "a=b; max-age=-7": "a=b; max-age=0",
		"a=b; max-age=x": "a=b", "a=b; max-age=": "a=b", "a=b; max-age=-": "a=b", "a=b; max-age=1.5": "a=b", "a=b; max-age=+1": "a=b",
		"a=b; max-age=5; max-age=x":                  "a=b; max-age=5",
		"a=b; expires=Tue, 10 Nov 2009 23:00:00 GMT": "a=b; expires=Tue, 10 Nov 2009 23:00:00 GMT", "a=b; expires=never": "a=b", "a=b; expires=": "a=b",
		"a=b; max-age=5; expires=Tue, 10 Nov 2009 23:00:00 GMT": "a=b; max-age=5",
	} {
		var c sluice.Cookie
		c.SetDomain("left over")
		if err := c.Parse(s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
		if got := c.String(); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
	var c sluice.Cookie
	const expires = "Tue, 10 Nov 2009 23:00:00 GMT"
	if err := c.Parse("a=b; expires=" + expires); err != nil || c.Expire().Format(time.RFC1123) != expires {
		t.Errorf("Expire: %v, %v", c.Expire(), err)
	}
	if err := c.Parse("a=b; max-age=99999999999999999999"); err != nil || c.MaxAge() != 0 {
		t.Errorf("a huge Max-Age: %d, %v", c.MaxAge(), err)
	}
	if err := c.Parse("a=b; max-age=-99999999999999999999"); err != nil || c.MaxAge() != 0 {
		t.Errorf("a very negative Max-Age: %d, %v", c.MaxAge(), err)
	}
}

func TestCookieParseRefuses(t *testing.T) {
	for s, want := range map[string]error{
		"": sluice.ErrNoCookies, "a=\"b": sluice.ErrInvalidCookieValue, "a=\"": sluice.ErrInvalidCookieValue, "a=b\"c": sluice.ErrInvalidCookieValue, "a=b\\c": sluice.ErrInvalidCookieValue,
		"a=\"b\"c\"": sluice.ErrInvalidCookieValue, "a\x00=b": sluice.ErrInvalidCookieValue, "a=\x00": sluice.ErrInvalidCookieValue, "a=\x7f": sluice.ErrInvalidCookieValue,
	} {
		var c sluice.Cookie
		c.SetKey("left over")
		if err := c.Parse(s); err != want {
			t.Errorf("%q: %v, want %v", s, err, want)
		}
		if c.String() != "" {
			t.Errorf("%q leaves %q", s, c.String())
		}
	}
}

// TestCookieParseLeavesOutAttributes: a Domain or Path that cannot be used says
// nothing, and what is around it counts (RFC 6265 section 5.2). Line ends in them
// become spaces, as in key and value.
func TestCookieParseLeavesOutAttributes(t *testing.T) {
	for attributes, want := range map[string]string{
		"path=/\x01": "", "path=/\x7f": "", "path=/a\tb": "", "path=/\xc3\xa9": "", "path=\"/\t\"": "", "path=/\x00; path=/b": "; path=/b",
		"path=/a; path=/\x01": "; path=/a", "path=/a; path=\xff; secure": "; path=/a; secure",
		"domain=\x01": "", "domain=a\x7f": "", "domain=a\"b": "", "domain=\"": "", "domain=a\\": "", "domain=\"a\"b\"": "", "domain=\"\"a\"\"": "",
		"domain=d; domain=a\\": "; domain=d", "domain=\\; domain=d; httponly": "; domain=d; HttpOnly", "domain=\x00; path=/\x00; max-age=1": "; max-age=1",
		"path=/a\r\nb": "; path=/a  b", "path=\n/": "; path= /", "path=\"\r/\"": "; path= /", "domain=a\nb": "; domain=a b", "domain=\ra": "; domain= a",
		"path=/\"a\\": "; path=/\"a\\", "domain=a\tb": "; domain=a\tb", "domain=\xc3\xa9": "; domain=\xc3\xa9", "domain=\"d\"": "; domain=d",
	} {
		var c sluice.Cookie
		c.SetDomain("left over")
		if err := c.Parse("a=b; " + attributes); err != nil || c.String() != "a=b"+want {
			t.Errorf("%q: %q, %v, want %q", attributes, c.String(), err, "a=b"+want)
		}
	}
}

// FuzzCookieParse checks that what was parsed is written as something that
// reads the same.
func FuzzCookieParse(f *testing.F) {
	for _, s := range []string{"a=b; path=/x; domain=d; max-age=5; secure", "a=\"b c\"; expires=Tue, 10-Nov-09 23:00:00 GMT", "; x", "a=b; max-age=-1; samesite", "=;partitioned",
		"a=b; path=/x; path=/\x00; domain=\\", "a=b; domain=\rd\n; path=\"/\r\n\""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var c, d sluice.Cookie
		if err := c.Parse(s); err != nil {
			if c.String() != "" {
				t.Fatalf("%q leaves %q", s, c.String())
			}
			return
		}
		written := c.String()
		if strings.ContainsFunc(written, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) || strings.ContainsAny(string(c.Domain()), "\"\\") {
			t.Fatalf("%q is written as %q", s, written)
		}
		// Quotes and what they protect are read once: white space that stood in
		// quotes is lost the second time, and further quotes are removed.
		if written == "" || strings.Contains(s, "\"") || hasOuterBlanks(&c) {
			return
		}
		// A value that is written without a name must not look like one with.
		if len(c.Key()) == 0 && strings.Contains(string(c.Value()), "=") {
			return
		}
		if err := d.Parse(written); err != nil || d.String() != written {
			t.Fatalf("%q, written %q, read again %q, %v", s, written, d.String(), err)
		}
	})
}

// hasOuterBlanks reports whether a part begins or ends with white space: CR and
// LF were there.
func hasOuterBlanks(c *sluice.Cookie) bool {
	for _, part := range []string{string(c.Key()), string(c.Value()), string(c.Domain()), string(c.Path())} {
		if strings.Trim(part, " \t") != part {
			return true
		}
	}
	return false
}

func BenchmarkCookieParse(b *testing.B) {
	var c sluice.Cookie
	src := []byte("session=0123456789abcdef; path=/; domain=example.com; max-age=3600; HttpOnly; secure; SameSite=Lax")
	for b.Loop() {
		if err := c.ParseBytes(src); err != nil {
			b.Fatal(err)
		}
	}
}

// TestCookieAttributesByTheirNames: what is in quotes, or stands after an empty
// name, is no attribute (RFC 6265 section 5.2). A path or domain without "=" says
// nothing.
func TestCookieAttributesByTheirNames(t *testing.T) {
	for text, want := range map[string]string{
		`k=v; "secure"; "HttpOnly" ; "samesite"`: "k=v",
		"k=v; =secure; = httponly":               "k=v",
		"k=v; path=/a; path":                     "k=v; path=/a",
		"k=v; path; path=/a; secure":             "k=v; path=/a; secure",
		"k=v; domain=d; domain":                  "k=v; domain=d",
	} {
		var c sluice.Cookie
		if err := c.Parse(text); err != nil || c.String() != want {
			t.Errorf("%s: %s, %v, want %s", text, c.String(), err, want)
		}
	}
}
