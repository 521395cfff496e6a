package sluice

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/invariants"
)

var longText = strings.Repeat("sluice carries water. ", 400)

// encodedBy has a handler answer a request with an Accept-Encoding, "-" for
// none.
func encodedBy(h RequestHandler, method, accept string) *RequestCtx {
	ctx := new(RequestCtx)
	ctx.Init(nil, nil, nil)
	ctx.Request.Header.SetMethod(method)
	if accept != "-" {
		ctx.Request.Header.Set(HeaderAcceptEncoding, accept)
	}
	h(ctx)
	return ctx
}

func textHandler(ctx *RequestCtx) { ctx.SetBodyString(longText) }

func TestCompressHandlerOfHEAD(t *testing.T) {
	get := encodedBy(CompressHandler(textHandler), "GET", "gzip")
	head := encodedBy(CompressHandler(textHandler), "HEAD", "gzip")
	if !bytes.Equal(get.Response.Body(), head.Response.Body()) {
		t.Error("HEAD is answered with another length than GET")
	}
	announcing := CompressHandler(func(ctx *RequestCtx) { ctx.Response.Header.SetContentLength(5000) })
	c := newSteadyConn(announcing, false)
	out := string(c.roundTrip(t, []byte("HEAD / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n")))
	if strings.Contains(out, "Content-Length") || !strings.Contains(out, "Content-Encoding: gzip") || !strings.HasSuffix(out, "\r\n\r\n") {
		t.Errorf("answered %q", out)
	}
	out = string(c.roundTrip(t, []byte("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n")))
	if !strings.Contains(out, "Content-Length: 5000") {
		t.Errorf("answered %q", out)
	}
}

// TestCompressHandlerAfterFlush: what was flushed is not encoded, nor is the rest.
func TestCompressHandlerAfterFlush(t *testing.T) {
	c := newSteadyConn(CompressHandler(func(ctx *RequestCtx) {
		ctx.WriteString("flushed")
		if err := ctx.Flush(); err != nil {
			t.Error(err)
		}
		textHandler(ctx)
	}), false)
	out := string(c.roundTrip(t, []byte("GET / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n")))
	if all := string(c.sent) + out; !strings.Contains(all, "flushed") || !strings.Contains(all, longText) || strings.Contains(all, "gzip") {
		t.Errorf("%q", all)
	}
}

const gzipGet = "GET / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n"

func TestCompressHandlerDoesNotAllocate(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector makes pools forget")
	}
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		h := CompressHandlerBrotliLevel(func(ctx *RequestCtx) {
			ctx.SetBodyString(longText)
			ctx.Response.Header.Set(HeaderETag, `"0123456789abcdef"`)
		}, 4, 6)
		c := newSteadyConn(h, false)
		in := []byte(strings.Replace(gzipGet, "gzip", coding, 1))
		if out := c.roundTrip(t, in); !bytes.Contains(out, []byte("Content-Encoding: "+coding)) {
			t.Fatalf("%s: answered %q", coding, out)
		}
		if n := testing.AllocsPerRun(100, func() { c.roundTrip(t, in) }); n != 0 {
			t.Errorf("%s: %v allocations", coding, n)
		}
		c.protocol.Closed(nil)
	}
}

// BenchmarkCompressHandler is a whole request and its answer of 8.8 kB by gzip,
// BenchmarkCompressDirect the compressor alone for the same body and level.
func BenchmarkCompressHandler(b *testing.B) {
	benchmarkServerConn(b, gzipGet, 1, CompressHandler(textHandler))
}
