package sluice

import (
	"bufio"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/invariants"
)

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
