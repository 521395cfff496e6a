package message_test

import (
	"bufio"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// TestURIOutlivesItsHeader: path and query that URI takes from the received head stay,
// whatever becomes of the header and of the URI, until the request is reset.
func TestURIOutlivesItsHeader(t *testing.T) {
	const head = "GET /first/path?query=1&second=2 HTTP/1.1\r\nHost: Example.com\r\nX-Field: value\r\n\r\n"
	refill := func(h *sluice.RequestHeader) {
		for range 100 {
			h.Add("X-Overwritten", "################")
		}
	}
	for name, change := range map[string]func(r *sluice.Request){
		"nothing": func(*sluice.Request) {},
		"reset":   func(r *sluice.Request) { r.Header.Reset(); refill(&r.Header) },
		"read": func(r *sluice.Request) {
			if err := r.Header.Read(bufio.NewReader(strings.NewReader(strings.ToUpper(head)))); err != nil {
				t.Error(err)
			}
			refill(&r.Header)
		},
		"copied over": func(r *sluice.Request) {
			var h sluice.RequestHeader
			h.SetRequestURI(strings.Repeat("#", 200))
			refill(&h)
			h.CopyTo(&r.Header)
		},
		"set": func(r *sluice.Request) {
			r.Header.SetRequestURI("/x")
			r.Header.SetHost("h")
			r.Header.Del("Host")
			refill(&r.Header)
		},
		"again": func(r *sluice.Request) { r.Header.Reset(); refill(&r.Header); r.Header.Reset(); refill(&r.Header) },
	} {
		var r sluice.Request
		if err := r.Read(bufio.NewReader(strings.NewReader(head))); err != nil {
			t.Fatal(err)
		}
		u := r.URI()
		path, query := u.Path(), u.QueryString()
		change(&r)
		if got := u.String(); got != "http://example.com/first/path?query=1&second=2" || string(r.URI().Path()) != "/first/path" {
			t.Errorf("%s: %q", name, got)
		}
		u.SetPath("/second/path/that/is/longer")
		u.SetQueryString("other=3&and=4&more=567890123456789012345")
		if got := string(path) + "?" + string(query); got != "/first/path?query=1&second=2" {
			t.Errorf("%s: what was returned before is %q", name, got)
		}
		if u.SetPath("/p"); string(u.FullURI()) != "http://example.com/p?other=3&and=4&more=567890123456789012345" {
			t.Errorf("%s: then set, %q", name, u.FullURI())
		}
	}
}

// TestURIAppendedTo: who appends to a slice that a getter has returned changes nothing
// else.
func TestURIAppendedTo(t *testing.T) {
	ctx := received(t, "/path?query=1&b=2")
	for _, b := range [][]byte{ctx.Path(), ctx.URI().PathOriginal(), ctx.URI().QueryString(), ctx.QueryArgs().Peek("query")} {
		_ = append(b, "########"...)
	}
	if got := string(ctx.RequestURI()) + " " + ctx.URI().String() + " " + string(ctx.QueryArgs().Peek("b")); got != "/path?query=1&b=2 http://www.example.com/path?query=1&b=2 2" {
		t.Errorf("%q", got)
	}
}
