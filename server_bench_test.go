package sluice

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/invariants"
)

// steadyConn is an engine.Conn, and the engine behind it, for one connection
// that goes on for ever and costs nothing itself.
type steadyConn struct {
	scriptedConn
	protocol engine.Protocol
	buffer   []byte
}

func newSteadyConn(handler RequestHandler, sleeps bool) *steadyConn {
	c := &steadyConn{buffer: make([]byte, 0, 64<<10)}
	c.sleeps = sleeps
	c.protocol = c.open(&Server{Handler: handler, Logger: silence{}})
	return c
}

// roundTrip feeds in, which must be whole requests, and returns the answers.
func (c *steadyConn) roundTrip(tb testing.TB, in []byte) []byte {
	out := c.buffer
	c.unread = in
	for len(c.unread) > 0 {
		used, next := c.protocol.Feed(c.unread)
		c.unread = c.unread[used:]
		for next == engine.Run {
			out, next = c.protocol.Run(out)
		}
		if next != engine.Read {
			tb.Fatalf("the connection ends with %v: %q", next, out)
		}
	}
	c.protocol = c.pause(c.protocol)
	return out
}

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

func plainTextHandler(ctx *RequestCtx) {
	ctx.SetContentType("text/plain")
	ctx.SetBodyString("Hello, World!")
}

// readingHandler reads what handlers usually read, and writes some of it.
func readingHandler(ctx *RequestCtx) {
	if len(ctx.Path()) == 0 || len(ctx.QueryArgs().Peek("q")) == 0 || len(ctx.Request.Header.Peek(HeaderUserAgent)) == 0 {
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

func usualHandler(ctx *RequestCtx) {
	path, page := ctx.Path(), ctx.QueryArgs().Peek("page")
	if len(ctx.PostBody()) != 0 || path[0] != '/' || len(ctx.UserAgent()) == 0 || string(page) != "2" {
		panic("the request was not understood")
	}
	ctx.SetContentType("text/plain")
	ctx.Write(helloWorld)
}

var helloWorld = []byte("Hello, World!")

func formHandler(ctx *RequestCtx) {
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
		handler  RequestHandler
	}{
		{"GET", simpleGet, plainTextHandler},
		{"GET that is read", browserGet, readingHandler},
		{"GET that is read and typed", usualGet, usualHandler},
		{"POST", smallPost, formHandler},
		{"chunked POST", chunked, formHandler},
		{"pipelined", strings.Repeat(simpleGet, 16), plainTextHandler},
		{"form", smallPost, func(ctx *RequestCtx) { ctx.Write(ctx.PostArgs().Peek("b")) }},
		{"404", simpleGet, func(ctx *RequestCtx) { ctx.NotFound() }},
		{"HEAD", "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", plainTextHandler},
		{"large answer", simpleGet, func(ctx *RequestCtx) { ctx.SetBody(largeBody) }},
		{"user value", simpleGet, func(ctx *RequestCtx) { ctx.SetUserValue("key", "value"); _ = ctx.UserValue("key") }},
	}
	for i := range 2 * len(tests) {
		test, sleeps := tests[i/2], i%2 == 1
		c := newSteadyConn(test.handler, sleeps)
		in := []byte(test.in)
		if out := c.roundTrip(t, in); !bytes.HasPrefix(out, []byte("HTTP/1.1 ")) && len(c.sent) == 0 {
			t.Fatalf("%s: answered %q", test.name, out)
		}
		c.sent = make([]byte, 0, 64<<20)
		if n := testing.AllocsPerRun(100, func() {
			c.sent = c.sent[:0]
			c.roundTrip(t, in)
		}); n != 0 && !invariants.Enabled { // the race detector makes pools forget
			t.Errorf("%s, sleeps=%v: %v allocations", test.name, sleeps, n)
		}
		if c.netConns != 0 {
			t.Errorf("%s: the engine had to make %d connections", test.name, c.netConns)
		}
		c.protocol.Closed(nil)
	}
}

var largeBody = bytes.Repeat([]byte("x"), 20<<10)

func benchmarkServerConn(b *testing.B, in string, requests int, handler RequestHandler) {
	runServerConn(b, newSteadyConn(handler, false), in, requests)
}

func runServerConn(b *testing.B, c *steadyConn, in string, requests int) {
	data := []byte(in)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		c.roundTrip(b, data)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*requests), "ns/request")
}

func BenchmarkServerConnGet(b *testing.B) { benchmarkServerConn(b, simpleGet, 1, plainTextHandler) }

// BenchmarkServerConnSleep is BenchmarkServerConnGet on an engine that has idle
// connections sleep.
func BenchmarkServerConnSleep(b *testing.B) {
	runServerConn(b, newSteadyConn(plainTextHandler, true), simpleGet, 1)
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
