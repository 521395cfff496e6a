package message_test

import (
	"bufio"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// messageChanges are series of calls for a message, of which each is on the stack.
var messageChanges = []func() string{
	func() string {
		var h sluice.RequestHeader
		h.SetMethod("PUT")
		h.SetRequestURI("/a?b")
		h.Set("X-A", "1")
		h.Add("X-A", "2")
		h.Set("X-B", "1")
		h.SetCookie("c", "d")
		h.Set("X-B", strings.Repeat("long", 20))
		h.Del("X-A")
		h.SetHost("h")
		_ = h.SetTrailer("Sum")
		h.Set("Sum", "3")
		return h.String() + string(h.TrailerHeader())
	},
	func() string {
		var h sluice.ResponseHeader
		_ = h.Read(bufio.NewReader(strings.NewReader("HTTP/1.1 201 Made\r\nVary: a\r\nvary: b\r\nset-cookie: a=b\r\nx-lower: 1\r\nContent-Length: 3\r\n\r\n")))
		h.Set("Vary", "c")
		h.Add("Vary", string(h.Peek("X-Lower")))
		h.SetContentType("t/t")
		h.SetServer("s")
		h.SetStatusMessage([]byte("Done"))
		h.SetDate("now") // not the time of this call
		return h.String()
	},
	func() string {
		var r sluice.Request
		r.SetRequestURI("http://u:p@h/a/../b?c=d&e#f")
		r.URI().QueryArgs().Set("e", "long value")
		r.URI().Update("g/h?i")
		r.AppendBodyString("a")
		r.AppendBodyString(strings.Repeat("b", 100))
		r.PostArgs().Set("x", "y")
		r.Header.SetContentType("application/x-www-form-urlencoded")
		return r.String() + string(r.URI().FullURI())
	},
	func() string {
		var r sluice.Response
		r.SetBodyString("first")
		r.AppendBodyString(strings.Repeat("more", 30))
		_, _ = fmt.Fprintf(r.BodyWriter(), "%s", "last")
		r.Header.Set("Date", "now")
		text := string(r.Body())
		r.Reset()
		r.AppendBodyString("again")
		return text + string(r.Body())
	},
	func() string {
		var r sluice.Response
		r.SetBodyStream(strings.NewReader("stream"), -1)
		old := string(r.SwapBody([]byte("swapped")))
		return old + string(r.Body())
	},
	func() string {
		var a sluice.Args
		a.Parse("a=1&b=2&a=3&c")
		a.Set("a", "a longer value")
		a.Add("d", "4")
		a.Del("b")
		a.SetUint("e", 5)
		a.Sort(func(x, y []byte) int { return strings.Compare(string(y), string(x)) })
		return a.String()
	},
	func() string {
		var c sluice.Cookie
		_ = c.Parse("k=v; Path=/a/../b; Domain=d; Secure")
		c.SetValue("another value")
		c.SetPath("/c//d")
		c.SetPartitioned(true)
		return c.String()
	},
	func() string {
		var u sluice.URI
		_ = u.Parse([]byte("h"), []byte("/a/b?c=d"))
		u.QueryArgs().Add("e", "f")
		u.SetScheme("https")
		u.Update("../g")
		u.SetHash("i")
		u.SetUsername("user")
		return u.String()
	},
}

// TestMessagesWhileTheStackMoves: a message on a stack is taken for a copy when the stack moves,
// which may be at any call. Its content does not change.
func TestMessagesWhileTheStackMoves(t *testing.T) {
	for i, change := range messageChanges {
		want := change()
		for depth := range 1000 {
			got := make(chan string)
			go func() { got <- atDepth(depth, change) }()
			if got := <-got; got != want {
				t.Fatalf("change %d at depth %d:\n got %q\nwant %q", i, depth, got, want)
			}
		}
	}
}

//go:noinline
func atDepth(depth int, f func() string) string {
	if depth == 0 {
		return f()
	}
	return atDepth(depth-1, f) + ""
}
