package message_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

func TestCookieWriting(t *testing.T) {
	var c sluice.Cookie
	if c.String() != "" {
		t.Errorf("the zero value is written as %q", c.String())
	}
	c.SetKey("k")
	c.SetValue("v")
	c.SetDomain("example.com")
	c.SetPath("/a/../b")
	c.SetExpire(time.Date(2030, 1, 2, 3, 4, 5, 6, time.FixedZone("x", 3600)))
	c.SetHTTPOnly(true)
	c.SetSecure(true)
	c.SetSameSite(sluice.CookieSameSiteStrictMode)
	const want = "k=v; expires=Wed, 02 Jan 2030 02:04:05 GMT; domain=example.com; path=/b; HttpOnly; secure; SameSite=Strict"
	if got := c.String(); got != want {
		t.Errorf("%q", got)
	}
	if got := string(c.Cookie()); got != want {
		t.Errorf("Cookie: %q", got)
	}
	if got := string(c.AppendBytes([]byte("Set-Cookie: "))); got != "Set-Cookie: "+want {
		t.Errorf("AppendBytes: %q", got)
	}
	var w bytes.Buffer
	if n, err := c.WriteTo(&w); n != int64(len(want)) || err != nil || w.String() != want {
		t.Errorf("WriteTo: %d, %v, %q", n, err, w.String())
	}
	c.Reset()
	if c.String() != "" || !c.Expire().IsZero() || c.HTTPOnly() || c.Secure() || c.SameSite() != sluice.CookieSameSiteDisabled {
		t.Errorf("after Reset: %q", c.String())
	}
}

func TestCookieParts(t *testing.T) {
	for want, set := range map[string]func(*sluice.Cookie){
		"v":              func(c *sluice.Cookie) { c.SetKey("") },
		"k=":             func(c *sluice.Cookie) { c.SetValueBytes(nil) },
		"k=v; max-age=5": func(c *sluice.Cookie) { c.SetExpire(sluice.CookieExpireDelete); c.SetMaxAge(5) },
		"k=v; max-age=0": func(c *sluice.Cookie) { c.SetMaxAge(-5) },
		"k=v":            func(c *sluice.Cookie) { c.SetMaxAge(5); c.SetMaxAge(0) },
		"k=v; expires=Tue, 10 Nov 2009 23:00:00 GMT": func(c *sluice.Cookie) { c.SetExpire(sluice.CookieExpireDelete) },
		"k=v; path=/":                      func(c *sluice.Cookie) { c.SetExpire(sluice.CookieExpireUnlimited); c.SetPath("") },
		"k=v; path=/a b":                   func(c *sluice.Cookie) { c.SetPathBytes([]byte("a%20b")) },
		"k=v; domain=D":                    func(c *sluice.Cookie) { c.SetDomainBytes([]byte("D")) },
		"k=v; SameSite":                    func(c *sluice.Cookie) { c.SetSameSite(sluice.CookieSameSiteDefaultMode) },
		"k=v; SameSite=Lax":                func(c *sluice.Cookie) { c.SetSameSite(sluice.CookieSameSiteLaxMode) },
		"k=v; secure; SameSite=None":       func(c *sluice.Cookie) { c.SetSameSite(sluice.CookieSameSiteNoneMode) },
		"k=v; HttpOnly":                    func(c *sluice.Cookie) { c.SetSameSite(99); c.SetHTTPOnly(true) },
		"k=v; path=/; secure; Partitioned": func(c *sluice.Cookie) { c.SetPath("/x"); c.SetPartitioned(true) },
		"k=v; path=/; secure":              func(c *sluice.Cookie) { c.SetPartitioned(true); c.SetPartitioned(false) },
	} {
		var c sluice.Cookie
		c.SetKey("k")
		c.SetValue("v")
		set(&c)
		if got := c.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestCookieSettersKeepToTheirPart(t *testing.T) {
	const evil = "a;b\r\nc\x00d\x7fe=f\tg"
	var c sluice.Cookie
	c.SetKey(evil)
	c.SetValue(evil)
	c.SetDomain(evil)
	c.SetPath("/" + evil + "%3B%0D%0A%00")
	const want = "a b  c d e f\tg=a b  c d e=f\tg; domain=a b  c d e=f\tg; path=/a b  c d e=f\tg    "
	if got := c.String(); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
}

func TestCookieCopiesAreIndependent(t *testing.T) {
	var c, d sluice.Cookie
	d.SetKey("old")
	_ = d.Cookie()
	if err := c.Parse("k=v; path=/p; domain=d; max-age=3; secure; httponly; partitioned; samesite=lax"); err != nil {
		t.Fatal(err)
	}
	want := c.String()
	d.CopyTo(&c) // the receiver becomes the copy, unlike with other types
	c.CopyTo(&c)
	if c.String() != want {
		t.Errorf("copied to itself: %q", c.String())
	}
	c.SetKey("x")
	c.SetValue("y")
	c.SetPath("/z")
	c.SetDomain("w")
	if got := d.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCookieDoesNotAllocateWhenUsedAgain(t *testing.T) {
	var c, d sluice.Cookie
	src := []byte("session=0123456789abcdef; path=/; domain=example.com; max-age=3600; HttpOnly; secure; SameSite=Lax; expires=Tue, 10 Nov 2009 23:00:00 GMT")
	work := func() {
		if err := c.ParseBytes(src); err != nil {
			t.Fatal(err)
		}
		c.SetPath("/x")
		d.CopyTo(&c)
		_ = d.Cookie()
	}
	work()
	if n := testing.AllocsPerRun(100, work); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzCookieSetters checks that no setter can end the part that it sets.
func FuzzCookieSetters(f *testing.F) {
	f.Add("k", "v", "d", "/p")
	f.Add("a;b", "\r\nSet-Cookie: x=y", "\x00", "/%3b%0d%0a")
	f.Fuzz(func(t *testing.T, key, value, domain, path string) {
		var c sluice.Cookie
		c.SetKey(key)
		c.SetValue(value)
		c.SetDomain(domain)
		c.SetPath(path)
		written := c.String()
		if strings.ContainsAny(written, "\r\n\x00") {
			t.Fatalf("%q", written)
		}
		wantParts := 2 // pair and path, which is never empty
		if domain != "" {
			wantParts = 3
		}
		if parts := strings.Split(written, ";"); len(parts) != wantParts {
			t.Fatalf("%d parts: %q", len(parts), written)
		}
		if key != "" && strings.IndexByte(written, '=') != len(c.Key()) {
			t.Fatalf("key %q: %q", c.Key(), written)
		}
	})
}

func BenchmarkCookieAppend(b *testing.B) {
	var c sluice.Cookie
	c.SetKey("session")
	c.SetValue("0123456789abcdef")
	c.SetPath("/")
	c.SetHTTPOnly(true)
	buf := make([]byte, 0, 256)
	for b.Loop() {
		buf = c.AppendBytes(buf[:0])
	}
}
