package message_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

func TestHeaderSetAddDel(t *testing.T) {
	var h sluice.RequestHeader
	h.Set("x-a", "1")
	h.Add("X-A", "2")
	h.Set("x-b", "3")
	h.Set("X-a", "4") // the first only
	h.AddBytesK([]byte("x-c"), "5")
	h.AddBytesV("x-c", []byte("6"))
	h.AddBytesKV([]byte("x-c"), []byte("7"))
	h.SetBytesK([]byte("x-d"), "8")
	h.SetBytesV("x-d", []byte("9"))
	h.SetBytesKV([]byte("x-e"), []byte("10"))
	if got, want := fieldsOf(h.All()), "X-A=4 X-A=2 X-B=3 X-C=5 X-C=6 X-C=7 X-D=9 X-E=10"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	h.Del("x-C")
	h.DelBytes([]byte("X-A"))
	if got, want := fieldsOf(h.All()), "X-B=3 X-D=9 X-E=10"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}

func TestHeaderSingleFields(t *testing.T) {
	for _, name := range []string{"Host", "Content-Type", "User-Agent"} {
		var h sluice.RequestHeader
		h.Add(name, "a")
		h.Add(strings.ToLower(name), "b")
		if got := h.PeekAll(name); len(got) != 1 || string(got[0]) != "b" {
			t.Errorf("%s: %q", name, got)
		}
		h.Set(name, "")
		if got := h.PeekAll(name); len(got) != 0 || h.Len() != 0 || h.String() != "GET / HTTP/1.1\r\n\r\n" {
			t.Errorf("%s is set and empty: %q, %q", name, got, h.String())
		}
		h.Set(name, "c")
		h.Del(strings.ToUpper(name))
		if h.Peek(name) != nil {
			t.Errorf("%s was not deleted", name)
		}
	}
}

// Fields that occur once are the same in both types; Set-Cookie adds in both.
func TestSingleFieldsOfBothTypes(t *testing.T) {
	for _, h := range []interface {
		Add(key, value string)
		Set(key, value string)
		PeekAll(key string) [][]byte
	}{new(sluice.RequestHeader), new(sluice.ResponseHeader)} {
		for _, name := range []string{"Host", "User-Agent", "Server", "Content-Type"} {
			h.Add(name, "a")
			h.Add(name, "b")
			if got := h.PeekAll(name); len(got) != 1 || string(got[0]) != "b" {
				t.Errorf("%T, %s: %q", h, name, got)
			}
		}
		h.Set("Set-Cookie", "a=1")
		h.Set("Set-Cookie", "b=2")
		if got := fmt.Sprint(h); !strings.Contains(got, "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n") {
			t.Errorf("%T: %s", h, got)
		}
	}
}

// TestValuesKeepTheirBlanks: white space at the ends is no part of a value for who
// receives it (RFC 9110 section 5.5); who sets it can read it.
func TestValuesKeepTheirBlanks(t *testing.T) {
	var h sluice.RequestHeader
	h.Set("x-a", " \t a b\t ")
	h.Add("x-b", " ")
	h.SetUserAgent(" me ")
	if got, want := fieldsOf(h.All()), "User-Agent= me  X-A= \t a b\t  X-B= "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestControlsAreNotSent: getters return control characters that were set; what is
// written has none (RFC 9110 section 5.5). CR and LF are never stored.
func TestControlsAreNotSent(t *testing.T) {
	const set, peeked, written = "a\x00b\x7fc\r\nd\te", "a\x00b\x7fc  d\te", "a b c  d\te"
	var req sluice.RequestHeader
	var resp sluice.ResponseHeader
	for _, h := range []interface {
		Set(key, value string)
		Peek(key string) []byte
		SetTrailer(names string) error
		TrailerHeader() []byte
		String() string
	}{&req, &resp} {
		h.SetTrailer("Late")
		h.Set("x-A", set)
		h.Set("Late", set)
		if got := string(h.Peek("x-a")); got != peeked {
			t.Errorf("%T: set to %q", h, got)
		}
		if got := h.String(); !strings.Contains(got, "\r\nX-A: "+written+"\r\n") {
			t.Errorf("%T: written %q", h, got)
		}
		if got := string(h.TrailerHeader()); got != "Late: "+written+"\r\n\r\n" {
			t.Errorf("%T: trailers %q", h, got)
		}
	}
	resp.SetStatusMessage([]byte(set))
	var copied sluice.ResponseHeader
	resp.CopyTo(&copied)
	if got := copied.String(); string(copied.StatusMessage()) != peeked || !strings.HasPrefix(got, "HTTP/1.1 200 "+written+"\r\n") ||
		!strings.Contains(got, "\r\nX-A: "+written+"\r\n") {
		t.Errorf("a copy: %q, %q", copied.StatusMessage(), got)
	}
	req.DisableSpecialHeader()
	if got := req.String(); !strings.Contains(got, "\r\nX-A: "+written+"\r\n") {
		t.Errorf("raw: %q", got)
	}
	for _, field := range []string{"Cookie", "Connection", "Trailer", "Content-Length"} {
		var plain, controls sluice.RequestHeader
		plain.Set(field, " 5")
		controls.Set(field, "\x015")
		if plain.String() != controls.String() || string(plain.Peek(field)) != string(controls.Peek(field)) {
			t.Errorf("%s means %q here, and is written as %q", field, controls.Peek(field), controls.String())
		}
	}
}

func TestHeaderSetCanonical(t *testing.T) {
	var h sluice.ResponseHeader
	h.SetCanonical([]byte("foo"), []byte("1"))
	h.SetCanonical([]byte("foo"), []byte("2"))
	h.SetCanonical([]byte("Bar"), []byte("3"))
	h.SetCanonical([]byte("refereR"), []byte("4"))
	h.SetCanonical([]byte("content-type"), []byte("ct"))
	h.SetCanonical([]byte("x y"), []byte("5"))
	if got, want := fieldsOf(h.All()), "Content-Type=ct foo=2 Bar=3 refereR=4"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for key, want := range map[string]string{"foo": "2", "Foo": "", "Bar": "3", "bar": "", "refereR": "4", "Referer": "", "Content-Type": "ct", "content-type": ""} {
		if got := string(h.PeekCanonical([]byte(key))); got != want {
			t.Errorf("PeekCanonical(%s) = %q, want %q", key, got, want)
		}
	}
	if string(h.Peek("foo")) != "2" {
		t.Errorf("Peek does not find what SetCanonical set: %q", h.Peek("foo"))
	}
	if h.Peek("Foo") != nil || string(h.Peek("bar")) != "3" {
		t.Error("Peek does not compare normalised names")
	}
}

// nasty texts each try to leave the place they are put in.
var nasty = []string{
	"", "a\r\nInjected: yes", "a\nInjected: yes", "a\rInjected: yes", "\x00", "a\x7f\x01b", "a b", "a:b", "\r\n\r\nGET /evil HTTP/1.1",
	" HTTP/1.1\r\nX: y", "é\xff", "\t x \t", "; a=b", "#f", "?q r", "\"", "a,b", "\u2028",
}

var requestSetters = map[string]func(h *sluice.RequestHeader, s string){
	"key": func(h *sluice.RequestHeader, s string) {
		h.Set(s, "v")
		h.Add("X"+s, "v")
		h.SetCanonical([]byte(s), nil)
	},
	"value": func(h *sluice.RequestHeader, s string) {
		h.Set("X", s)
		h.Add("X", s)
		h.SetCanonical([]byte("x"), []byte(s))
	},
	"method":     func(h *sluice.RequestHeader, s string) { h.SetMethod(s); h.SetMethod("X" + s) },
	"uri":        func(h *sluice.RequestHeader, s string) { h.SetRequestURI(s) },
	"path":       func(h *sluice.RequestHeader, s string) { h.SetRequestURI("/" + s) },
	"protocol":   func(h *sluice.RequestHeader, s string) { h.SetProtocol(s) },
	"host":       func(h *sluice.RequestHeader, s string) { h.SetHost(s) },
	"user agent": func(h *sluice.RequestHeader, s string) { h.SetUserAgent(s) },
	"referer":    func(h *sluice.RequestHeader, s string) { h.SetReferer(s) },
	"type":       func(h *sluice.RequestHeader, s string) { h.SetContentType(s) },
	"coding":     func(h *sluice.RequestHeader, s string) { h.SetContentEncoding(s) },
	"boundary":   func(h *sluice.RequestHeader, s string) { h.SetMultipartFormBoundary(s) },
	"cookie":     func(h *sluice.RequestHeader, s string) { h.SetCookie(s, s); h.SetCookie("a", s); h.SetCookie(s, "b") },
	"Cookie":     func(h *sluice.RequestHeader, s string) { h.Set("Cookie", s); h.Add("Cookie", s) },
	"connection": func(h *sluice.RequestHeader, s string) { h.Set("Connection", s); h.Set("Connection", "close, "+s) },
	"length":     func(h *sluice.RequestHeader, s string) { h.Set("Content-Length", s); h.Set("Transfer-Encoding", s) },
	"trailer": func(h *sluice.RequestHeader, s string) {
		h.SetTrailer(s)
		h.AddTrailer("X, " + s)
		h.Set("X", s)
		h.Set(s, "v")
	},
	"known, plain": func(h *sluice.RequestHeader, s string) { h.Set("Accept", s); h.Set("Date", s); h.Set("Server", s) },
}

var responseSetters = map[string]func(h *sluice.ResponseHeader, s string){
	"key":      func(h *sluice.ResponseHeader, s string) { h.Set(s, "v"); h.Add("X"+s, "v") },
	"value":    func(h *sluice.ResponseHeader, s string) { h.Set("X", s); h.Add("X", s) },
	"message":  func(h *sluice.ResponseHeader, s string) { h.SetStatusMessage([]byte(s)) },
	"protocol": func(h *sluice.ResponseHeader, s string) { h.SetProtocol([]byte(s)) },
	"server":   func(h *sluice.ResponseHeader, s string) { h.SetServer(s) },
	"type":     func(h *sluice.ResponseHeader, s string) { h.SetContentType(s) },
	"coding":   func(h *sluice.ResponseHeader, s string) { h.SetContentEncoding(s) },
	"delete":   func(h *sluice.ResponseHeader, s string) { h.DelClientCookie(s) },
	"cookie": func(h *sluice.ResponseHeader, s string) {
		var c sluice.Cookie
		c.SetKey(s)
		c.SetValue(s)
		c.SetPath(s)
		c.SetDomain(s)
		h.SetCookie(&c)
		h.Set("Set-Cookie", s)
		h.Add("Set-Cookie", s)
	},
	"trailer": func(h *sluice.ResponseHeader, s string) {
		h.SetTrailer(s)
		h.AddTrailer("X, " + s)
		h.Set("X", s)
		h.Set(s, "v")
	},
}

func FuzzSetters(f *testing.F) {
	for _, s := range nasty {
		f.Add(s, s, s)
	}
	f.Fuzz(func(t *testing.T, a, b, c string) {
		var q sluice.RequestHeader
		var r sluice.ResponseHeader
		for name, set := range requestSetters {
			_ = name
			set(&q, a)
		}
		q.Set(a, b)
		q.Add(b, c)
		q.SetCookie(b, c)
		q.Del(c)
		checkWire(t, q.String(), true)
		checkWire(t, "x\r\n"+string(q.TrailerHeader()), false)
		for _, set := range responseSetters {
			set(&r, b)
		}
		r.Set(a, b)
		r.Add(b, c)
		r.DelCookie(c)
		checkWire(t, r.String(), false)
	})
}
