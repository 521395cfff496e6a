package middleware

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

func TestETag(t *testing.T) {
	sum := sha256.Sum256([]byte("hello"))
	strong := `"` + hex.EncodeToString(sum[:16]) + `"`
	hello := func(ctx *sluice.RequestCtx) {
		ctx.SetBodyString("hello")
		ctx.Response.Header.Set("Cache-Control", "private")
	}
	own := func(tag string) sluice.RequestHandler {
		return func(ctx *sluice.RequestCtx) { hello(ctx); ctx.Response.Header.Set("ETag", tag) }
	}
	for _, c := range []struct {
		line, ifNoneMatch string
		handler           sluice.RequestHandler
		status            int
		tag               string
	}{
		{"GET / HTTP/1.1", "", hello, 200, strong},
		{"GET / HTTP/1.1", strong, hello, 304, strong},
		{"HEAD / HTTP/1.1", strong, hello, 304, strong},
		{"GET / HTTP/1.1", `"x", W/` + strong, hello, 304, strong},
		{"GET / HTTP/1.1", `*`, hello, 304, strong},
		{"GET / HTTP/1.1", `"x"`, hello, 200, strong},
		{"GET / HTTP/1.1", strings.ToUpper(strong), hello, 200, strong},
		{"GET / HTTP/1.1", `"x`, hello, 200, strong},
		{"GET / HTTP/1.1", `W/"v1"`, own(`W/"v1"`), 304, `W/"v1"`},
		{"GET / HTTP/1.1", strong, own(`"v1"`), 200, `"v1"`},
		{"POST / HTTP/1.1", `*`, hello, 200, ""},
		{"GET / HTTP/1.1", `*`, func(ctx *sluice.RequestCtx) { ctx.Error("no", 404) }, 404, ""},
		{"GET / HTTP/1.1", `*`, func(*sluice.RequestCtx) {}, 200, ""},
		{"GET / HTTP/1.1", `*`, func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(strings.NewReader("hello"), -1) }, 200, ""},
		{"GET / HTTP/1.1", `*`, func(ctx *sluice.RequestCtx) { ctx.SetBodyString("late"); ctx.TimeoutError("late") }, 200, ""},
	} {
		ctx := request(t, c.line)
		if c.ifNoneMatch != "" {
			ctx.Request.Header.Set("If-None-Match", c.ifNoneMatch)
		}
		ETag(c.handler)(ctx)
		if ctx.Response.StatusCode() != c.status || field(ctx, "ETag") != c.tag {
			t.Errorf("%s, %q: %s", c.line, c.ifNoneMatch, &ctx.Response.Header)
		}
		if c.status == 304 && (len(ctx.Response.Body()) > 0 || field(ctx, "Cache-Control") != "private") {
			t.Errorf("%s, %q: %s", c.line, c.ifNoneMatch, &ctx.Response)
		}
	}
}

// A response that was sent in part goes on, whatever the client says it has.
func TestETagAfterFlush(t *testing.T) {
	log := &book{}
	addr := serve(t, &sluice.Server{Logger: log, Handler: ETag(func(ctx *sluice.RequestCtx) {
		ctx.SetBodyString("one")
		_ = ctx.Flush()
		ctx.SetBodyString("two")
	})})
	got := ask(t, addr, strings.Replace(get, "\r\n\r\n", "\r\nIf-None-Match: *\r\n\r\n", 1))
	if !strings.HasPrefix(got, "HTTP/1.1 200 ") || !strings.HasSuffix(got, "3\r\ntwo\r\n0\r\n\r\n") || strings.Contains(got, "ETag") || len(log.lines) > 0 {
		t.Errorf("%q, log %q", got, log.lines)
	}
}

// A closable is a body that reports whether it was closed.
type closable struct {
	io.Reader
	isClosed bool
}

func (c *closable) Close() error {
	c.isClosed = true
	return nil
}

// A stream with a tag of the handler's is closed instead of being sent to clients that have it.
func TestETagOfStreams(t *testing.T) {
	for _, c := range []struct {
		condition string
		tag       string
		status    int
	}{
		{"", `"v1"`, 200},
		{`If-None-Match: "v1"`, `"v1"`, 304},
		{`If-None-Match: "v2"`, `"v1"`, 200},
		{`If-None-Match: *`, "", 200},
		{`If-Match: "v2"`, `"v1"`, 412},
	} {
		for _, size := range []int{-1, 5} {
			body := &closable{Reader: strings.NewReader("hello")}
			ctx := request(t, "GET / HTTP/1.1", strings.TrimPrefix(c.condition+"\r\nHost: h", "\r\n"))
			ETag(func(ctx *sluice.RequestCtx) {
				ctx.SetBodyStream(body, size)
				ctx.Response.Header.Set("ETag", c.tag)
			})(ctx)
			if got := ctx.Response.StatusCode(); got != c.status || body.isClosed != (c.status != 200) || got == 304 && field(ctx, "ETag") != c.tag {
				t.Errorf("%q, %d bytes: %d, closed: %v, ETag %s", c.condition, size, got, body.isClosed, field(ctx, "ETag"))
			}
			if got := string(ctx.Response.Body()); got != map[bool]string{true: "hello"}[c.status == 200] {
				t.Errorf("%q, %d bytes: %q", c.condition, size, got)
			}
		}
	}
}

// If-Match compares strongly (RFC 9110 section 13.1.1), and comes before If-None-Match.
func TestETagIfMatch(t *testing.T) {
	own := func(tag string) sluice.RequestHandler {
		return func(ctx *sluice.RequestCtx) {
			ctx.SetBodyString("hello")
			ctx.SetContentType("image/png")
			ctx.Response.Header.Set("ETag", tag)
		}
	}
	for _, c := range []struct {
		line, tag string
		fields    []string
		status    int
	}{
		{"GET / HTTP/1.1", `"a"`, []string{`If-Match: "a"`}, 200},
		{"GET / HTTP/1.1", `"a"`, []string{`If-Match: *`}, 200},
		{"GET / HTTP/1.1", `"a"`, []string{`If-Match: "b", "a"`}, 200},
		{"GET / HTTP/1.1", `"a"`, []string{`If-Match: "b"`}, 412},
		{"HEAD / HTTP/1.1", `"a"`, []string{`If-Match: "b"`}, 412},
		{"GET / HTTP/1.1", `"a"`, []string{`If-Match: W/"a"`}, 412},
		{"GET / HTTP/1.1", `W/"a"`, []string{`If-Match: W/"a"`}, 412},
		{"GET / HTTP/1.1", `W/"a"`, []string{`If-None-Match: "a"`}, 304},
		{"GET / HTTP/1.1", `"a"`, []string{`If-Match: "b"`, `If-None-Match: "a"`}, 412},
		{"GET / HTTP/1.1", `"a"`, []string{`If-Match: "a"`, `If-None-Match: "a"`}, 304},
		{"PUT / HTTP/1.1", `"a"`, []string{`If-Match: "b"`}, 200}, // it is done
	} {
		ctx := request(t, append([]string{c.line}, c.fields...)...)
		ETag(own(c.tag))(ctx)
		if got := ctx.Response.StatusCode(); got != c.status {
			t.Errorf("%s, ETag %s, %q: %d, want %d", c.line, c.tag, c.fields, got, c.status)
		}
		if c.status == 412 && (len(ctx.Response.Body()) > 0 || field(ctx, "ETag") != "" || field(ctx, "Content-Type") == "image/png") {
			t.Errorf("%q: %s", c.fields, &ctx.Response)
		}
	}
}

// A compressing handler outside gives the 304 the tag and the Vary of the 200, which the cache
// of the client then keeps (RFC 9110 section 15.4.5).
func TestETagOfNotModified(t *testing.T) {
	for _, c := range []struct {
		kind, encoding string
		size           int
		stream         int // its length; 0: there is none
	}{
		{"text/html", "", 1000, 0}, {"text/html", "", 10, 0}, {"image/png", "", 1000, 0}, {"text/html", "gzip", 1000, 0}, {"", "", 1000, 0},
		{"text/html", "", 1000, -1}, {"text/html", "", 10, -1}, {"text/html", "", 10, 10}, {"image/png", "", 1000, -1}, {"text/html", "gzip", 10, 10},
	} {
		h := sluice.CompressHandler(ETag(func(ctx *sluice.RequestCtx) {
			ctx.SetBodyString(strings.Repeat("x", c.size))
			if c.stream != 0 {
				ctx.SetBodyStream(strings.NewReader(strings.Repeat("x", c.size)), c.stream)
				ctx.Response.Header.Set("ETag", `"own"`)
			}
			if c.kind != "" {
				ctx.SetContentType(c.kind)
			}
			ctx.Response.Header.SetContentEncoding(c.encoding)
			ctx.Response.Header.Set("Content-Language", "en")
			ctx.Response.Header.Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		}))
		whole, none := request(t, "GET / HTTP/1.1", "Accept-Encoding: gzip"), request(t, "GET / HTTP/1.1", "Accept-Encoding: gzip", "If-None-Match: *")
		h(whole)
		h(none)
		if none.Response.StatusCode() != 304 || field(none, "ETag") != field(whole, "ETag") || field(none, "Vary") != field(whole, "Vary") {
			t.Errorf("%+v:\n%s%s", c, &whole.Response.Header, &none.Response.Header)
		}
		for _, name := range []string{"Content-Type", "Content-Encoding", "Content-Language", "Last-Modified"} {
			if field(none, name) != "" && name != "Content-Type" || strings.Contains(none.Response.Header.String(), name) {
				t.Errorf("%+v: %s", c, &none.Response.Header)
			}
		}
	}
}

// A compressing handler outside: one representation each, and no strong tag for two of them.
func TestETagAndCompression(t *testing.T) {
	long := strings.Repeat("hello ", 1000)
	ctx := request(t, "GET / HTTP/1.1", "Accept-Encoding: gzip")
	sluice.CompressHandler(ETag(answer(long)))(ctx)
	if tag := field(ctx, "ETag"); !strings.HasPrefix(tag, `W/"`) || field(ctx, "Content-Encoding") != "gzip" {
		t.Errorf("%q: %s", tag, &ctx.Response.Header)
	}
}

func TestETagOnTheWire(t *testing.T) {
	addr := serve(t, &sluice.Server{Handler: ETag(answer("hello"))})
	got := ask(t, addr, strings.Replace(get, "\r\n\r\n", "\r\nIf-None-Match: *\r\n\r\n", 1))
	if !strings.HasPrefix(got, "HTTP/1.1 304 ") || !strings.HasSuffix(got, "\r\n\r\n") || strings.Contains(got, "Content-Length") || strings.Contains(got, "Content-Type") {
		t.Errorf("%q", got)
	}
}
