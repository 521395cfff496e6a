//lint:file-ignore SA1019 what is deprecated works, too

package message_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

func TestRequestCookies(t *testing.T) {
	h := harness.ReadRequest(t, "GET / HTTP/1.1\r\nHost: h\r\nCookie: a=b; c = d ;; e; f=\"q q\"; =x; a=z\r\n\r\n")
	for key, want := range map[string]string{"a": "b", "c": "d", "f": "q q", "": "e"} {
		if got := string(h.Cookie(key)); got != want {
			t.Errorf("Cookie(%s) = %q, want %q", key, got, want)
		}
	}
	if h.Cookie("nope") != nil || h.CookieBytes([]byte("A")) != nil {
		t.Error("found a cookie that is not there")
	}
	if got, want := fieldsOf(h.Cookies()), "a=b c=d =e f=q q =x a=z"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	h.SetCookie("a", "new")
	h.SetCookieBytesK([]byte("n"), "1")
	h.DelCookie("c")
	if got, want := string(h.Peek("cookie")), "a=new; e; f=\"q q\"; =x; a=z; n=1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	h.DelCookieBytes([]byte("a"))
	h.DelCookie("nope")
	var visited []string
	h.VisitAllCookie(func(k, v []byte) { visited = append(visited, string(k)+"="+string(v)) })
	if got, want := strings.Join(visited, " "), "=e f=q q =x n=1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	h.DelAllCookies()
	if h.Peek("Cookie") != nil || h.Cookie("f") != nil {
		t.Error("cookies left")
	}
}

// TestRequestCookiesWithQuotes: user agents send what scripts have set, JSON for
// example. Such cookies are seen and forwarded.
func TestRequestCookiesWithQuotes(t *testing.T) {
	const text = `j={"a":1,"b":"c d"}; b=x\y; q="a"b"; o="z; k"=v; last=1`
	h := harness.ReadRequest(t, "GET / HTTP/1.1\r\nHost: h\r\nCookie: "+text+"\r\n\r\n")
	for key, want := range map[string]string{"j": `{"a":1,"b":"c d"}`, "b": `x\y`, "q": `a"b`, "o": `"z`, `k"`: "v", "last": "1"} {
		if got := string(h.Cookie(key)); got != want {
			t.Errorf("Cookie(%s) = %s, want %s", key, got, want)
		}
	}
	if got := string(h.Peek("Cookie")); got != text {
		t.Errorf("after reading: %s, want %s", got, text)
	}
}

func TestRequestCookieFieldsBecomeOne(t *testing.T) {
	h := harness.ReadRequest(t, "GET / HTTP/1.1\r\nCookie: a=b\r\nHost: h\r\nCookie: c=d\r\nX: y\r\nCookie:\r\n\r\n")
	h.Set("cookie", "e=f")
	h.Add("Cookie", " ")
	if got, want := h.String(), "GET / HTTP/1.1\r\nHost: h\r\nX: y\r\nCookie: a=b; c=d; e=f\r\n\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	h.DelCookie("a")
	h.DelCookie("c")
	h.DelCookie("e")
	if got, want := h.String(), "GET / HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Fields next to each other are joined as well.
func TestAdjacentCookieFields(t *testing.T) {
	for _, before := range []string{"", "X: y\r\n", "X: y\r\nZ: z\r\n"} {
		for fields, want := range map[string]string{
			"Cookie: a=b\r\nCookie: c=d\r\n":                "a=b; c=d",
			"Cookie: a=b\r\nCookie: c=d\r\nCookie: e=f\r\n": "a=b; c=d; e=f",
		} {
			h := harness.ReadRequest(t, "GET / HTTP/1.1\r\n"+before+fields+"Host: h\r\n\r\n")
			if got := string(h.Cookie("c")); got != "d" {
				t.Errorf("%q: c is %q", fields, got)
			}
			if got, all := h.PeekAll("Cookie"), fieldsOf(h.All()); len(got) != 1 || string(got[0]) != want || strings.Count(all, "Cookie=") != 1 {
				t.Errorf("%q: %q of %s", fields, got, all)
			}
		}
	}
}

func TestRequestSetCookieText(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{"k", "v", "k=v"}, {"k", "", "k="}, {"", "v", "v"}, {"k;=\r\n", " v;w\x00 ", "k=v w"}, {"k", "a b,c\"d\"", "k=a b,c\"d\""},
	} {
		var h sluice.RequestHeader
		h.SetCookie(c.key, c.value)
		if got := string(h.Peek("Cookie")); got != c.want {
			t.Errorf("%q, %q: %q, want %q", c.key, c.value, got, c.want)
		}
	}
	var h sluice.RequestHeader
	h.SetCookieBytesKV([]byte("k="), []byte("1"))
	h.SetCookie("k=", "2") // the same cookie
	if got := string(h.Peek("Cookie")); got != "k=2" {
		t.Errorf("got %q", got)
	}
}

func TestResponseCookies(t *testing.T) {
	h := harness.ReadResponse(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nset-cookie: a=b; path=/\r\nX: y\r\nSet-Cookie: c ; Secure\r\nSet-Cookie:\r\nSet-Cookie: a=2\r\n\r\n")
	if got, want := fieldsOf(h.Cookies()), "a=a=b; path=/ =c ; Secure = a=a=2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := fmt.Sprintf("%q %q", h.PeekCookie("a"), h.PeekCookie("")); got != `"a=b; path=/" "c ; Secure"` || h.PeekCookie("c") != nil || h.PeekCookie("z") != nil {
		t.Errorf("PeekCookie: %s", got)
	}
	var c sluice.Cookie
	c.SetKey("a")
	if !h.Cookie(&c) || string(c.Value()) != "b" || string(c.Path()) != "/" {
		t.Errorf("Cookie: %s", c.String())
	}
	c.Reset()
	c.SetKey("z")
	if h.Cookie(&c) || string(c.Key()) != "z" {
		t.Error("found a cookie that is not there")
	}
	c.SetKey("a")
	c.SetValue("new")
	h.SetCookie(&c)
	c.SetKey("n")
	h.SetCookie(&c)
	h.DelCookie("c")
	h.DelCookieBytes([]byte(""))
	if got, want := fieldsOf(h.Cookies()), "a=a=new a=a=2 n=n=new"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	h.DelClientCookie("a")
	if got, want := fieldsOf(h.Cookies()), "n=n=new a=a=; expires=Tue, 10 Nov 2009 23:00:00 GMT"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	h.DelAllCookies()
	if h.Peek("Set-Cookie") != nil {
		t.Error("cookies left")
	}
}

// Set-Cookie may be the first field, and come once or more often.
func TestPeekSetCookie(t *testing.T) {
	for _, values := range [][]string{{"a=1"}, {"a=1", "b=2"}, {"a=1", "b=2", "c=3"}} {
		for _, isFirst := range []bool{true, false} {
			var h sluice.ResponseHeader
			if !isFirst {
				h.Set("X-First", "1")
			}
			for i, value := range values {
				h.Add("Set-Cookie", value)
				if i == 0 {
					h.Set("X-Between", "1")
				}
			}
			if got, want := string(h.Peek("Set-Cookie")), strings.Join(values, "; "); got != want {
				t.Errorf("%q, first %v: %q, want %q", values, isFirst, got, want)
			}
		}
	}
}

func FuzzCookies(f *testing.F) {
	f.Add("a=b; c=d", "a", "x")
	f.Add(`a="b;c"; =; ;`, "", "")
	f.Add("\x10", "0", "0")
	f.Fuzz(func(t *testing.T, text, key, value string) {
		var h sluice.RequestHeader
		h.Set("Cookie", text)
		h.SetCookie(key, value)
		checkWire(t, h.String(), true)
		before := fieldsOf(h.Cookies())
		h2 := harness.ReadRequest(t, strings.Replace(h.String(), "\r\n", "\r\nHost: h\r\n", 1))
		if got := fieldsOf(h2.Cookies()); got != before {
			t.Fatalf("read %q, want %q", got, before)
		}
		h.DelCookie(key)
		if key != "" && h.Cookie(key) != nil {
			t.Fatalf("%q was not deleted from %q", key, h.Peek("Cookie"))
		}
	})
}
