package message

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
)

// requestCookies returns the cookies of h as text.
func requestCookies(h *RequestHeader) string {
	var all []string
	for key, value := range h.VisitCookies {
		all = append(all, fmt.Sprintf("%s=%s", key, value))
	}
	return strings.Join(all, "|")
}

// TestRequestCookies: several fields are one list, joined with "; " (RFC 6265 section 5.4).
func TestRequestCookies(t *testing.T) {
	for _, test := range []struct {
		fields      []string
		text, pairs string
	}{
		{nil, "", ""},
		{[]string{""}, "", ""},
		{[]string{"a=1"}, "a=1", "a=1"},
		{[]string{"a=1", "b=2", "", "c"}, "a=1; b=2; c", "a=1|b=2|=c"},
		{[]string{` a = "1" ;; "x";b=2=3;`}, `a = "1" ;; "x";b=2=3;`, `a=1|=x|b=2=3`},
		{[]string{"=v; a="}, "=v; a=", "=v|a="},
	} {
		var set, received RequestHeader
		for _, value := range test.fields {
			set.Put("Cookie", []byte(value), Adds)
			received.Table.Add(field.Cookie, []byte("Cookie"), []byte(value))
		}
		for name, h := range map[string]*RequestHeader{"set": &set, "received": &received} {
			if name == "received" && len(test.fields) == 1 && strings.HasPrefix(test.fields[0], " ") {
				continue // a parser leaves out the blanks around a value
			}
			if got := string(h.Peek([]byte("cookie"))); got != test.text {
				t.Errorf("%s %q: %q, want %q", name, test.fields, got, test.text)
			}
			if got := requestCookies(h); got != test.pairs {
				t.Errorf("%s %q: %s, want %s", name, test.fields, got, test.pairs)
			}
		}
	}
}

// TestRequestCookie: the first cookie of a name counts, and names are case-sensitive.
func TestRequestCookie(t *testing.T) {
	var h RequestHeader
	h.Put("Cookie", []byte(`a=1; A="2"; a=3; nameless; b=`), Sets)
	for key, want := range map[string]string{"a": "1", "A": "2", "": "nameless", "b": "", "c": "none"} {
		if got := h.Cookie([]byte(key)); string(got) != want && want != "none" || (got == nil) != (want == "none") {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
}

// TestSetAndDelRequestCookie: the first cookie of a name is replaced, at its place.
func TestSetAndDelRequestCookie(t *testing.T) {
	for _, test := range []struct {
		before, want string
		change       func(h *RequestHeader)
	}{
		{"", "a=1", func(h *RequestHeader) { h.SetCookie([]byte("a"), []byte("1")) }},
		{"b=2", "b=2; a=1", func(h *RequestHeader) { h.SetCookie([]byte("a"), []byte("1")) }},
		{"a=0; b=2; a=3", "a=1; b=2; a=3", func(h *RequestHeader) { h.SetCookie([]byte("a"), []byte("1")) }},
		{"a=0", "a=0; b c=d e", func(h *RequestHeader) { h.SetCookie([]byte("b=c"), []byte("d;e\n")) }},
		{"a=0; v", "a=0; w", func(h *RequestHeader) { h.SetCookie(nil, []byte("w")) }},
		{"a=1; b=2; a=3", "b=2", func(h *RequestHeader) { h.DelCookie([]byte("a")) }},
		{"a=1; b=2", "a=1; b=2", func(h *RequestHeader) { h.DelCookie([]byte("A")) }},
		{"a=1", "", func(h *RequestHeader) { h.DelCookie([]byte("a")) }},
		{"", "", func(h *RequestHeader) { h.DelCookie([]byte("a")) }},
		{"v; a=1", "a=1", func(h *RequestHeader) { h.DelCookie(nil) }},
		{"a=1; v", "v", func(h *RequestHeader) { h.DelCookie([]byte("a")) }},
		{"", "a=1", func(h *RequestHeader) { h.SetCookie([]byte(" a "), []byte(" 1 ")) }},
	} {
		var h RequestHeader
		h.Put("Cookie", []byte(test.before), Sets)
		test.change(&h)
		want := "GET / HTTP/1.1\r\n\r\n"
		if test.want != "" {
			want = "GET / HTTP/1.1\r\nCookie: " + test.want + "\r\n\r\n"
		}
		if got := string(h.AppendHead(nil, Framing{Length: -2})); got != want {
			t.Errorf("%q: %q, want %q", test.before, got, want)
		}
		if test.want == "" && test.before != "" && h.Table.Len() > 0 {
			t.Errorf("%q: a field without cookies is left", test.before)
		}
	}
	var h RequestHeader
	h.Put("Cookie", []byte("a=1; b=2; c=3"), Sets)
	n := 0
	for key := range h.VisitCookies {
		n++
		if string(key) == "b" {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d cookies are yielded", n)
	}
}

// TestResponseCookies: each is a field of its own (RFC 6265 section 3), and one with the same key
// replaces the earlier one.
func TestResponseCookies(t *testing.T) {
	var h ResponseHeader
	set := func(key, value string) {
		var c Cookie
		c.SetKey([]byte(key))
		c.SetValue([]byte(value))
		h.SetCookie(&c)
	}
	check := func(step, peeked string, want ...string) {
		t.Helper()
		var got []string
		for key, value := range h.VisitCookies {
			got = append(got, fmt.Sprintf("%s:%s", key, value))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %q, want %q", step, got, want)
		}
		if got := h.Peek([]byte("Set-Cookie")); string(got) != peeked || (got == nil) != (len(want) == 0) {
			t.Errorf("%s: Peek: %q, want %q", step, got, peeked)
		}
	}
	check("none", "")
	set("a", "1")
	check("one", "a=1", "a:a=1")
	set("b", "2")
	set("a", "3")
	check("replaced", "a=3; b=2", "a:a=3", "b:b=2")
	h.Put("set-cookie", []byte("a = 4; path=/"), Sets)
	h.Put("Set-Cookie", []byte("nameless; x=y"), Sets)
	check("added", "a=3; b=2; a = 4; path=/; nameless; x=y", "a:a=3", "b:b=2", "a:a = 4; path=/", ":nameless; x=y")
	if got, ok := h.PeekCookie([]byte("b")); !ok || string(got) != "b=2" {
		t.Errorf("b is %q, %v", got, ok)
	}
	if got, ok := h.PeekCookie([]byte("x")); ok || got != nil {
		t.Errorf("x is %q, %v", got, ok)
	}
	const want = "HTTP/1.1 200 OK\r\nSet-Cookie: a=3\r\nSet-Cookie: b=2\r\nSet-Cookie: a = 4; path=/\r\nSet-Cookie: nameless; x=y\r\n\r\n"
	if got := string(h.AppendHead(nil, Framing{Length: -2, OmitDefaultType: true})); got != want {
		t.Errorf("written: %q, want %q", got, want)
	}
	for range h.VisitCookies {
		break
	}
	h.DelCookie([]byte("a"))
	check("deleted", "b=2; nameless; x=y", "b:b=2", ":nameless; x=y")
	h.DelCookie(nil)
	check("the nameless deleted", "b=2", "b:b=2")
	h.Del([]byte("Set-Cookie"))
	check("all deleted", "")
}
