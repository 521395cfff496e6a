package http1_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/server/http1/http1test"
)

const (
	simpleGet = "GET /plaintext HTTP/1.1\r\nHost: localhost\r\n\r\n"

	browserGet = "GET /search?q=sluice&page=2 HTTP/1.1\r\nHost: www.example.com\r\nConnection: keep-alive\r\n" +
		"Cache-Control: max-age=0\r\nUpgrade-Insecure-Requests: 1\r\n" +
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36\r\n" +
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n" +
		"Referer: https://www.example.com/\r\nAccept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-GB,en;q=0.9\r\n" +
		"Cookie: session=0123456789abcdef0123456789abcdef; theme=dark; consent=1\r\nDNT: 1\r\n\r\n"

	smallPost = "POST /form HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 11\r\n\r\na=1&b=two&c"
)

func plainTextHandler(ctx *sluice.RequestCtx) {
	ctx.SetContentType("text/plain")
	ctx.SetBodyString("Hello, World!")
}

// readingHandler reads what handlers usually read, and writes some of it.
func readingHandler(ctx *sluice.RequestCtx) {
	if len(ctx.Path()) == 0 || len(ctx.QueryArgs().Peek("q")) == 0 || len(ctx.Request.Header.Peek(sluice.HeaderUserAgent)) == 0 {
		panic("the request was not understood")
	}
	ctx.Response.Header.Set("X-Page", "2")
	ctx.Write(ctx.QueryArgs().Peek("q"))
}

// usualGet is what a client other than a browser sends, and usualHandler looks at it
// and answers as handlers do. Package bench measures the same over TCP.
const usualGet = "GET /articles?page=2 HTTP/1.1\r\nHost: www.example.com\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n" +
	"Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n\r\n"

func usualHandler(ctx *sluice.RequestCtx) {
	path, page := ctx.Path(), ctx.QueryArgs().Peek("page")
	if len(ctx.PostBody()) != 0 || path[0] != '/' || len(ctx.UserAgent()) == 0 || string(page) != "2" {
		panic("the request was not understood")
	}
	ctx.SetContentType("text/plain")
	ctx.Write(helloWorld)
}

var helloWorld = []byte("Hello, World!")

func formHandler(ctx *sluice.RequestCtx) {
	if len(ctx.PostBody()) == 0 {
		panic("there is no body")
	}
	ctx.WriteString("ok")
}

// TestRequestsDoNotAllocate: what happens for every request comes from memory
// that is there already.
func TestRequestsDoNotAllocate(t *testing.T) {
	const chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
	tests := []struct {
		name, in string
		handler  sluice.RequestHandler
	}{
		{"GET", simpleGet, plainTextHandler},
		{"GET that is read", browserGet, readingHandler},
		{"GET that is read and typed", usualGet, usualHandler},
		{"POST", smallPost, formHandler},
		{"chunked POST", chunked, formHandler},
		{"pipelined", strings.Repeat(simpleGet, 16), plainTextHandler},
		{"form", smallPost, func(ctx *sluice.RequestCtx) { ctx.Write(ctx.PostArgs().Peek("b")) }},
		{"404", simpleGet, func(ctx *sluice.RequestCtx) { ctx.NotFound() }},
		{"HEAD", "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", plainTextHandler},
		{"large answer", simpleGet, func(ctx *sluice.RequestCtx) { ctx.SetBody(largeBody) }},
		{"user value", simpleGet, func(ctx *sluice.RequestCtx) { ctx.SetUserValue("key", "value"); _ = ctx.UserValue("key") }},
	}
	for i := range 2 * len(tests) {
		test, sleeps := tests[i/2], i%2 == 1
		c := http1test.OpenSteady(acceptorOf(&sluice.Server{Handler: test.handler, Logger: silence{}}), sleeps)
		in := []byte(test.in)
		if out := c.RoundTrip(t, in); !bytes.HasPrefix(out, []byte("HTTP/1.1 ")) && len(c.Sent) == 0 {
			t.Fatalf("%s: answered %q", test.name, out)
		}
		c.Sent = make([]byte, 0, 64<<20)
		if n := testing.AllocsPerRun(100, func() {
			c.Sent = c.Sent[:0]
			c.RoundTrip(t, in)
		}); n != 0 && !invariants.Enabled { // the race detector makes pools forget
			t.Errorf("%s, sleeps=%v: %v allocations", test.name, sleeps, n)
		}
		if c.NetConns != 0 {
			t.Errorf("%s: the engine had to make %d connections", test.name, c.NetConns)
		}
		c.Protocol.Closed(nil)
	}
}

var largeBody = bytes.Repeat([]byte("x"), 20<<10)

func benchmarkServerConn(b *testing.B, in string, requests int, handler sluice.RequestHandler) {
	runServerConn(b, http1test.OpenSteady(acceptorOf(&sluice.Server{Handler: handler, Logger: silence{}}), false), in, requests)
}

func runServerConn(b *testing.B, c *http1test.Steady, in string, requests int) {
	data := []byte(in)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		c.RoundTrip(b, data)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*requests), "ns/request")
}

func BenchmarkServerConnGet(b *testing.B) { benchmarkServerConn(b, simpleGet, 1, plainTextHandler) }

// BenchmarkServerConnSleep is BenchmarkServerConnGet on an engine that has idle
// connections sleep.
func BenchmarkServerConnSleep(b *testing.B) {
	runServerConn(b, http1test.OpenSteady(acceptorOf(&sluice.Server{Handler: plainTextHandler, Logger: silence{}}), true), simpleGet, 1)
}

func BenchmarkServerConnUsual(b *testing.B) { benchmarkServerConn(b, usualGet, 1, usualHandler) }

func BenchmarkServerConnUsualPipelined16(b *testing.B) {
	benchmarkServerConn(b, strings.Repeat(usualGet, 16), 16, usualHandler)
}

func BenchmarkServerConnBrowser(b *testing.B) { benchmarkServerConn(b, browserGet, 1, readingHandler) }

func BenchmarkServerConnPost1KiB(b *testing.B) {
	body := strings.Repeat("x", 1024)
	benchmarkServerConn(b, "POST /upload HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 1024\r\n\r\n"+body, 1, formHandler)
}

func BenchmarkServerConnPipelined16(b *testing.B) {
	benchmarkServerConn(b, strings.Repeat(simpleGet, 16), 16, plainTextHandler)
}
