package message

import (
	"math"
	"strconv"
	"testing"
	"time"
)

var someDate = time.Date(1994, time.November, 6, 8, 49, 37, 0, time.UTC)

// TestCookieContent: the content of a Set-Cookie field (RFC 6265 section 4.1.1).
func TestCookieContent(t *testing.T) {
	for _, test := range []struct {
		want string
		set  func(c *Cookie)
	}{
		{"", func(*Cookie) {}},
		{"v", func(c *Cookie) { c.SetKey(nil); c.SetValue([]byte("v")) }},
		{"k=", func(c *Cookie) { c.SetValue(nil) }},
		{"k=v", func(c *Cookie) { c.SetValue([]byte("v")) }},
		{"k=a b c", func(c *Cookie) { c.SetValue([]byte("a;b\rc")) }},
		{"k=a\tb=\xff", func(c *Cookie) { c.SetValue([]byte("a\tb=\xff")) }},
		{"a b c=", func(c *Cookie) { c.SetKey([]byte("a=b\x7fc")) }},
		{"k=; max-age=5", func(c *Cookie) { c.MaxAge, c.Expire = 5, someDate }},
		{"k=; max-age=0", func(c *Cookie) { c.MaxAge = -1 }},
		{"k=; expires=Sun, 06 Nov 1994 08:49:37 GMT", func(c *Cookie) { c.Expire = someDate }},
		{"k=; domain=a b.test", func(c *Cookie) { c.SetDomain([]byte("a;b.test")) }},
		{"k=; path=/b", func(c *Cookie) { c.SetPath([]byte("a/..//b")) }},
		{"k=; path=/a b", func(c *Cookie) { c.SetPath([]byte("/a%3Bb")) }},
		{"k=; HttpOnly", func(c *Cookie) { c.IsHTTPOnly = true }},
		{"k=; secure", func(c *Cookie) { c.IsSecure = true }},
		{"k=; SameSite", func(c *Cookie) { c.SetSameSite(sameSiteDefault) }},
		{"k=; SameSite=Lax", func(c *Cookie) { c.SetSameSite(sameSiteLax) }},
		{"k=; SameSite=Strict", func(c *Cookie) { c.SetSameSite(sameSiteStrict) }},
		{"k=; secure; SameSite=None", func(c *Cookie) { c.SetSameSite(sameSiteNone) }},
		{"k=; secure; SameSite=Lax", func(c *Cookie) { c.SetSameSite(sameSiteNone); c.SetSameSite(sameSiteLax) }},
		{"k=; path=/; secure; Partitioned", func(c *Cookie) { c.SetPath([]byte("/x")); c.SetPartitioned(true) }},
		{"k=; path=/; secure", func(c *Cookie) { c.SetPartitioned(true); c.SetPartitioned(false) }},
		{"k=v; max-age=1; domain=d; path=/p; HttpOnly; secure; SameSite=Strict", func(c *Cookie) {
			c.SetValue([]byte("v"))
			c.SetPath([]byte("p"))
			c.SetDomain([]byte("d"))
			c.IsSecure, c.IsHTTPOnly, c.MaxAge = true, true, 1
			c.SetSameSite(sameSiteStrict)
		}},
	} {
		var c Cookie
		c.SetKey([]byte("earlier"))
		c.SetDomain([]byte("earlier"))
		c.Reset()
		if test.want != "" {
			c.SetKey([]byte("k"))
		}
		test.set(&c)
		if got := string(c.AppendBytes([]byte("x"))); got != "x"+test.want {
			t.Errorf("%q, want %q", got, "x"+test.want)
		}
		if got := string(c.Content()); got != test.want {
			t.Errorf("Content: %q, want %q", got, test.want)
		}
		var copied Cookie
		copied.SetValue([]byte("earlier"))
		copied.IsHTTPOnly = true
		c.CopyTo(&copied)
		c.SetValue([]byte("another"))
		if got := string(copied.Content()); got != test.want {
			t.Errorf("the copy is %q, want %q", got, test.want)
		}
	}
}

// TestCookiesCopiedByAssignmentAreApart: a change of one is not seen in the other.
func TestCookiesCopiedByAssignmentAreApart(t *testing.T) {
	const before = "k=v; domain=d; path=/p"
	for name, change := range map[string]func(c *Cookie){
		"SetKey":         func(c *Cookie) { c.SetKey([]byte("x")) },
		"SetValue":       func(c *Cookie) { c.SetValue([]byte("x")) },
		"SetDomain":      func(c *Cookie) { c.SetDomain([]byte("x")) },
		"SetPath":        func(c *Cookie) { c.SetPath([]byte("/x")) },
		"SetPartitioned": func(c *Cookie) { c.SetPartitioned(true) },
		"Parse":          func(c *Cookie) { _ = c.Parse([]byte("x=x; domain=x; path=/x")) },
	} {
		var c Cookie
		if err := c.Parse([]byte(before)); err != nil {
			t.Fatal(err)
		}
		copied := c
		change(&copied)
		if got := string(c.Content()); got != before {
			t.Errorf("%s of a copy changes the original to %q", name, got)
		}
		if got := string(copied.Content()); got == before {
			t.Errorf("%s does not change the copy", name)
		}
	}
}

func TestCookieHeldBytes(t *testing.T) {
	part := func(n int) []byte { return make([]byte, 0, n) }
	c := Cookie{Key: part(1), Value: part(2), Domain: part(4), Path: part(8), text: part(16)}
	if got := c.HeldBytes(); got != 31 {
		t.Errorf("%d, want 31", got)
	}
}

// TestCookieAllocations: a cookie that is used again needs no new memory.
func TestCookieAllocations(t *testing.T) {
	var c Cookie
	src, key, value := []byte("k=v; path=/a; domain=d; max-age=5; secure"), []byte("key"), []byte("value")
	if n := testing.AllocsPerRun(100, func() {
		if c.Parse(src) != nil {
			t.Fatal("a valid cookie is refused")
		}
		c.SetKey(key)
		c.SetValue(value)
		_ = c.Content()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// maxInt is the largest int in decimal.
var maxInt = strconv.Itoa(math.MaxInt)
