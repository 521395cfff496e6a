package sluice

import (
	"bufio"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/invariants"
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

// TestHost: Host is the same before and after the URI is asked for.
func TestHost(t *testing.T) {
	for field, want := range map[string]string{
		"a:80": "a:80", "A.b": "a.b", "a%c3": "a%c3", "[::1]:8": "[::1]:8", "[FE80::1]": "[fe80::1]", "[fe80::1%25en0]": "[fe80::1%en0]",
	} {
		var ctx RequestCtx
		if err := ctx.Request.Read(bufio.NewReader(strings.NewReader("GET / HTTP/1.1\r\nHost: " + field + "\r\n\r\n"))); err != nil {
			t.Fatal(err)
		}
		if before, after := string(ctx.Host()), string(ctx.URI().Host()); before != want || after != want {
			t.Errorf("Host %s: %q, and %q by the URI, want %q", field, before, after, want)
		}
	}
}

// readings are what handlers read of a request, each with a target.
var readings = []struct {
	name, target string
	read         func(ctx *RequestCtx) int
}{
	{"Nothing", "/articles", func(*RequestCtx) int { return 1 }},
	{"Path", "/articles", func(ctx *RequestCtx) int { return len(ctx.Path()) }},
	{"PathAndQuery", "/articles?page=2", func(ctx *RequestCtx) int { return len(ctx.Path()) + len(ctx.QueryArgs().Peek("page")) }},
	{"EncodedPathAndQuery", "/art%69cles?p%61ge=2+3", func(ctx *RequestCtx) int { return len(ctx.Path()) + len(ctx.QueryArgs().Peek("page")) }},
	{"LongPathAndQuery", "/api/v1/users/12345/articles?page=2&limit=50&order=created&token=0123456789abcdef0123456789abcdef", func(ctx *RequestCtx) int {
		return len(ctx.Path()) + len(ctx.QueryArgs().Peek("token"))
	}},
	{"Host", "/articles", func(ctx *RequestCtx) int { return len(ctx.Host()) }},
	{"URI", "/articles?page=2", func(ctx *RequestCtx) int {
		u := ctx.URI()
		return len(u.PathOriginal()) + len(u.QueryString()) + len(u.Scheme())
	}},
	{"Fields", "/articles", func(ctx *RequestCtx) int { return len(ctx.UserAgent()) + len(ctx.Request.Header.Peek(HeaderAccept)) }},
	{"OtherField", "/articles", func(ctx *RequestCtx) int { return len(ctx.Request.Header.Peek("X-Request-Id")) }},
	{"MethodAndTarget", "/articles", func(ctx *RequestCtx) int {
		if !ctx.IsGet() || len(ctx.PostBody()) > 0 {
			return 0
		}
		return len(ctx.Method()) + len(ctx.RequestURI())
	}},
}

// usualGet is what a client other than a browser sends.
const usualGet = "GET /articles?page=2 HTTP/1.1\r\nHost: www.example.com\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n" +
	"Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n\r\n"

// received returns a context with a request for target, as handlers get it.
func received(tb testing.TB, target string) *RequestCtx {
	ctx := new(RequestCtx)
	head := strings.Replace(usualGet, "/articles?page=2", target, 1)
	head = strings.Replace(head, "\r\n\r\n", "\r\nX-Request-Id: 0123456789abcdef\r\n\r\n", 1)
	if err := ctx.Request.Read(bufio.NewReader(strings.NewReader(head))); err != nil {
		tb.Fatal(err)
	}
	return ctx
}

// BenchmarkRequestReading is what a handler reads of a request, with what the next
// request has to reset because of it.
func BenchmarkRequestReading(b *testing.B) {
	for _, r := range readings {
		b.Run(r.name, func(b *testing.B) {
			ctx := received(b, r.target)
			b.ReportAllocs()
			for b.Loop() {
				if r.read(ctx) == 0 {
					b.Fatal("nothing was read")
				}
				ctx.Request.resetContent()
			}
		})
	}
}

func TestRequestReadingDoesNotAllocate(t *testing.T) {
	for _, r := range readings {
		ctx := received(t, r.target)
		if n := testing.AllocsPerRun(10, func() { r.read(ctx); ctx.Request.resetContent() }); n != 0 && !invariants.Enabled {
			t.Errorf("%s: %v allocations", r.name, n)
		}
	}
}
