package middleware

import (
	"crypto/sha256"
	"encoding/hex"
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
