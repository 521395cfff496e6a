package sluice

import (
	"bufio"
	"strings"
	"testing"
)

func TestRequestURIAndHost(t *testing.T) {
	for name, test := range map[string]struct {
		set                   func(r *Request)
		uri, host, requestURI string
	}{
		"nothing":        {func(*Request) {}, "http:///", "", "/"},
		"absolute":       {func(r *Request) { r.SetRequestURI("http://Host/p?q#h") }, "http://host/p?q#h", "host", "/p?q"},
		"path and Host":  {func(r *Request) { r.Header.SetHost("h"); r.SetRequestURI("/p?q") }, "http://h/p?q", "h", "/p?q"},
		"over TLS":       {func(r *Request) { r.connection = overHTTPS; r.Header.SetHost("h"); r.SetRequestURI("/p") }, "https://h/p", "h", "/p"},
		"no slash, TLS":  {func(r *Request) { r.connection = overHTTPS; r.Header.SetHost("h"); r.SetRequestURI("p") }, "https://h/p", "h", "/p"},
		"absolute, TLS":  {func(r *Request) { r.connection = overHTTPS; r.SetRequestURI("http://h/p") }, "http://h/p", "h", "/p"},
		"two slashes":    {func(r *Request) { r.Header.SetHost("h"); r.SetRequestURI("//evil/p") }, "http://h/evil/p", "h", "/evil/p"},
		"reference":      {func(r *Request) { r.SetRequestURI("//Other/p?q") }, "http://other/p?q", "other", "/p?q"},
		"reference, TLS": {func(r *Request) { r.connection = overHTTPS; r.SetRequestURI("//other/p") }, "https://other/p", "other", "/p"},
		"SetHost":        {func(r *Request) { r.SetRequestURI("http://a/p"); r.SetHost("B") }, "http://b/p", "b", "/p"},
		"CONNECT":        {func(r *Request) { r.Header.SetMethod("CONNECT"); r.SetRequestURI("a:443") }, "http://a:443/a:443", "a:443", "a:443"},
		"CONNECT, URI": {func(r *Request) { r.Header.SetMethod("CONNECT"); r.SetRequestURI("a:443"); r.URI().SetPath("/x") },
			"http://a:443/x", "a:443", "a:443"},
		"bytes": {func(r *Request) { r.SetRequestURIBytes([]byte("http://a/p")); r.SetHostBytes([]byte("b")) },
			"http://b/p", "b", "/p"},
		"changed": {func(r *Request) { r.SetRequestURI("http://a/p?q"); r.URI().SetPath("/new") }, "http://a/new?q", "a", "/new?q"},
		"SetURI": {func(r *Request) {
			var u URI
			u.Parse(nil, []byte("http://u/p"))
			r.SetRequestURI("http://a/")
			r.SetURI(&u)
			u.SetHost("changed")
		}, "http://u/p", "u", "/p"},
		"SetURI(nil)": {func(r *Request) {
			r.SetRequestURI("http://a/p")
			r.URI().SetHost("b")
			r.SetURI(nil)
		}, "http://a/p", "a", "/p"},
		"malformed": {func(r *Request) { r.SetRequestURI("http://[/p") }, "http:///", "", "/"},
	} {
		var r Request
		test.set(&r)
		if got := r.URI().String(); got != test.uri {
			t.Errorf("%s: URI %q, want %q", name, got, test.uri)
		}
		if got := string(r.Host()); got != test.host {
			t.Errorf("%s: host %q", name, got)
		}
		if got := string(r.RequestURI()); got != test.requestURI {
			t.Errorf("%s: request URI %q", name, got)
		}
	}
}

// TestURIOfReceived: what was received is taken as it was checked; what is set later
// is checked again.
func TestURIOfReceived(t *testing.T) {
	for _, c := range []struct {
		name, head string
		change     func(*RequestHeader)
		want       string // of FullURI
		fails      bool
	}{
		{"origin", "GET /a?b HTTP/1.1\r\nHost: EXAMPLE.com:80\r\n\r\n", func(*RequestHeader) {}, "http://example.com:80/a?b", false},
		{"dots", "GET /a//b/../c?b?c HTTP/1.1\r\nHost: h\r\n\r\n", func(*RequestHeader) {}, "http://h/a/c?b?c", false},
		{"escape", "GET /a%2fb HTTP/1.1\r\nHost: h\r\n\r\n", func(*RequestHeader) {}, "http://h/a/b", false},
		{"no host", "GET / HTTP/1.0\r\n\r\n", func(*RequestHeader) {}, "http:///", false},
		{"no host, two slashes", "GET //evil/p HTTP/1.0\r\n\r\n", func(*RequestHeader) {}, "http:///evil/p", false},
		{"host set", "GET /a HTTP/1.1\r\nHost: h\r\n\r\n", func(h *RequestHeader) { h.SetHost("Other") }, "http://other/a", false},
		{"bad host set", "GET /a HTTP/1.1\r\nHost: h\r\n\r\n", func(h *RequestHeader) { h.SetHost("a b") }, "", true},
		{"bad host in the place of one", "GET /a HTTP/1.1\r\nHost: abcd\r\n\r\n", func(h *RequestHeader) { h.Del("Host"); h.SetHost("a b") }, "", true},
		{"host deleted", "GET /a HTTP/1.1\r\nHost: h\r\n\r\n", func(h *RequestHeader) { h.Del("Host") }, "http:///a", false},
		{"target set", "GET /a HTTP/1.1\r\nHost: h\r\n\r\n", func(h *RequestHeader) { h.SetRequestURI("/x?y") }, "http://h/x?y", false},
		{"bad target set", "GET /a HTTP/1.1\r\nHost: h\r\n\r\n", func(h *RequestHeader) { h.SetRequestURI("/x\x01") }, "", true},
	} {
		var r Request
		if err := r.Read(bufio.NewReader(strings.NewReader(c.head))); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		c.change(&r.Header)
		r.SetURI(nil) // parse it now
		u := r.URI()
		if got := string(u.FullURI()); (r.uriError != nil) != c.fails || !c.fails && got != c.want {
			t.Errorf("%s: %q, error %v; want %q", c.name, got, r.uriError, c.want)
		}
	}
}

// TestURIOutlivesItsHeader: path and query that URI takes from the received head stay,
// whatever becomes of the header and of the URI, until the request is reset.
func TestURIOutlivesItsHeader(t *testing.T) {
	const head = "GET /first/path?query=1&second=2 HTTP/1.1\r\nHost: Example.com\r\nX-Field: value\r\n\r\n"
	refill := func(h *RequestHeader) {
		for range 100 {
			h.Add("X-Overwritten", "################")
		}
	}
	for name, change := range map[string]func(r *Request){
		"nothing": func(*Request) {},
		"reset":   func(r *Request) { r.Header.Reset(); refill(&r.Header) },
		"read": func(r *Request) {
			if err := r.Header.Read(bufio.NewReader(strings.NewReader(strings.ToUpper(head)))); err != nil {
				t.Error(err)
			}
			refill(&r.Header)
		},
		"copied over": func(r *Request) {
			var h RequestHeader
			h.SetRequestURI(strings.Repeat("#", 200))
			refill(&h)
			h.CopyTo(&r.Header)
		},
		"set": func(r *Request) {
			r.Header.SetRequestURI("/x")
			r.Header.SetHost("h")
			r.Header.Del("Host")
			refill(&r.Header)
		},
		"again": func(r *Request) { r.Header.Reset(); refill(&r.Header); r.Header.Reset(); refill(&r.Header) },
	} {
		var r Request
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
