package sluice

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

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

func TestCompressHandlerNegotiates(t *testing.T) {
	handlers := []RequestHandler{
		CompressHandler(textHandler), CompressHandlerLevel(textHandler, CompressDefaultCompression), CompressHandlerBrotliLevel(textHandler, 4, 6),
	}
	for _, test := range []struct{ accept, plain, level, brotli string }{
		{"-", "", "", ""},
		{"", "", "", ""},
		{"gzip", "gzip", "gzip", "gzip"},
		{"GZIP", "gzip", "gzip", "gzip"},
		{"x-gzip", "gzip", "gzip", "gzip"},
		{"deflate", "deflate", "deflate", "deflate"},
		{"br", "", "", "br"},
		{"zstd", "zstd", "zstd", "zstd"},
		{"deflate, gzip", "gzip", "gzip", "gzip"},
		{"gzip, deflate, br, zstd", "zstd", "gzip", "br"}, // what browsers send
		{"br, zstd", "zstd", "zstd", "br"},
		{"deflate, zstd", "zstd", "deflate", "deflate"},
		{"gzip;q=0.1, deflate", "deflate", "deflate", "deflate"},
		{"gzip;q=0.1, br;q=1", "gzip", "gzip", "br"},
		{"gzip;q=1, br;q=0.999", "gzip", "gzip", "gzip"},
		{"gzip ; q=0.5 , zstd; Q=0.6", "zstd", "zstd", "zstd"},
		{"gzip;q=0", "", "", ""},
		{"gzip;q=0.000, br", "", "", "br"},
		{"gzip;q=0.001", "gzip", "gzip", "gzip"},
		{"gzip;q=2", "", "", ""},
		{"gzip;q=", "", "", ""},
		{"gzip;q=0.1234", "", "", ""},
		{"gzip;q=1.5", "", "", ""},
		{"gzip;q=a", "", "", ""},
		{"gzip;x=1", "", "", ""},
		{"gzipped, notgzip", "", "", ""},
		{"*", "", "", ""},
		{"gzip;q=0, *", "", "", ""},
		{"gzip, *", "gzip", "gzip", "gzip"},
		{"gzip;q=0.5, *", "", "", ""},
		{"identity", "", "", ""},
		{"identity, gzip", "gzip", "gzip", "gzip"},
		{"identity, gzip;q=0.5", "", "", ""},
		{"identity;q=0.5, gzip;q=0.6", "gzip", "gzip", "gzip"},
		{"identity;q=0", "", "", ""},
		{"identity;q=0, *", "zstd", "gzip", "br"},
		{"identity;q=0, *, gzip;q=0, br;q=0", "zstd", "deflate", "deflate"},
		{"*;q=0", "", "", ""},
		{"*;q=0, deflate;q=0.1", "deflate", "deflate", "deflate"},
		{"gzip, br", "gzip", "gzip", "br"},
		{"gzip, deflate, br", "gzip", "gzip", "br"},
		{"zstd;q=0.9, gzip;q=1", "gzip", "gzip", "gzip"},
		{"zstd;q=0, gzip, br", "gzip", "gzip", "br"},
		{"zstd;q=0.5, gzip;q=0.5, br;q=0.4", "zstd", "gzip", "gzip"},
		{"br;q=0.9, zstd;q=0.8", "zstd", "zstd", "br"},
	} {
		for i, h := range handlers {
			want := []string{test.plain, test.level, test.brotli}[i]
			r := &encodedBy(h, "GET", test.accept).Response
			if got := string(r.Header.ContentEncoding()); got != want {
				t.Errorf("%q: %q, want %q", test.accept, got, want)
			}
			if got := string(r.Header.Peek(HeaderVary)); got != HeaderAcceptEncoding {
				t.Errorf("%q: Vary %q", test.accept, got)
			}
			body, err := r.BodyUncompressed()
			if err != nil || string(body) != longText || want != "" && len(r.Body()) >= len(body) {
				t.Errorf("%q: %d bytes of %d, %v", test.accept, len(r.Body()), len(body), err)
			}
		}
	}
}

// TestCompressHandlerLevels: only the handler without a level chooses one.
func TestCompressHandlerLevels(t *testing.T) {
	var text []byte
	for i := range 2000 {
		text = append(strconv.AppendInt(text, int64(i*i*7919%4001), 10), ", name: "...)
	}
	if len(AppendGzipBytesLevel(nil, text, 3)) == len(AppendGzipBytesLevel(nil, text, 6)) {
		t.Fatal("the levels do not differ")
	}
	handler := func(ctx *RequestCtx) { ctx.SetBody(text) }
	for name, test := range map[string]struct {
		handler RequestHandler
		accept  string
		want    []byte
	}{
		"zstd":           {CompressHandler(handler), "zstd", AppendZstdBytesLevel(nil, text, CompressZstdDefault)},
		"gzip":           {CompressHandler(handler), "gzip", AppendGzipBytesLevel(nil, text, 3)},
		"deflate":        {CompressHandler(handler), "deflate", AppendDeflateBytesLevel(nil, text, 3)},
		"gzip, level":    {CompressHandlerLevel(handler, CompressDefaultCompression), "gzip", AppendGzipBytesLevel(nil, text, 6)},
		"gzip, speed":    {CompressHandlerLevel(handler, CompressBestSpeed), "gzip", AppendGzipBytesLevel(nil, text, 1)},
		"deflate, no":    {CompressHandlerLevel(handler, CompressNoCompression), "deflate", AppendDeflateBytesLevel(nil, text, 0)},
		"br, level":      {CompressHandlerBrotliLevel(handler, 11, 9), "br", AppendBrotliBytesLevel(nil, text, 11)},
		"gzip, br level": {CompressHandlerBrotliLevel(handler, 11, 9), "gzip", AppendGzipBytesLevel(nil, text, 9)},
	} {
		if got := encodedBy(test.handler, "GET", test.accept).Response.Body(); string(got) != string(test.want) {
			t.Errorf("%s: %d bytes, want %d", name, len(got), len(test.want))
		}
	}
}

func TestAcceptEncodingOnSeveralLines(t *testing.T) {
	h := CompressHandlerBrotliLevel(func(ctx *RequestCtx) {
		ctx.Request.Header.Set(HeaderAcceptEncoding, "gzip;q=0.5")
		ctx.Request.Header.Add(HeaderAcceptEncoding, "br")
		textHandler(ctx)
	}, 4, 6)
	if got := string(encodedBy(h, "GET", "-").Response.Header.ContentEncoding()); got != "br" {
		t.Errorf("%q", got)
	}
}

func TestCompressHandlerLeavesAlone(t *testing.T) {
	type set = func(r *Response)
	for name, test := range map[string]struct {
		set        set
		want, vary string // without and with identity;q=0 the same, but for forced
		forced     bool
	}{
		"text":      {func(r *Response) {}, "gzip", "Accept-Encoding", true},
		"short":     {func(r *Response) { r.SetBodyString("short") }, "", "", true},
		"empty":     {func(r *Response) { r.ResetBody() }, "", "", false},
		"png":       {func(r *Response) { r.Header.SetContentType("image/png") }, "", "", true},
		"encoded":   {func(r *Response) { r.Header.SetContentEncoding("own") }, "own", "", false},
		"204":       {func(r *Response) { r.SetStatusCode(204) }, "", "", false},
		"205":       {func(r *Response) { r.SetStatusCode(205) }, "", "", false},
		"206":       {func(r *Response) { r.SetStatusCode(206) }, "", "Accept-Encoding", false},
		"304":       {func(r *Response) { r.SetStatusCode(304) }, "", "Accept-Encoding", false},
		"transform": {func(r *Response) { r.Header.Set("Cache-Control", "public, No-Transform") }, "", "", false},
		"public":    {func(r *Response) { r.Header.Set("Cache-Control", "public") }, "gzip", "Accept-Encoding", true},
		"skipped":   {func(r *Response) { r.SkipBody = true }, "", "", false},
		"vary":      {func(r *Response) { r.Header.Set("Vary", "Origin") }, "gzip", "Origin,Accept-Encoding", true},
		"short stream": {func(r *Response) { r.SetBodyStream(strings.NewReader("short"), 5) },
			"gzip", "Accept-Encoding", true},
		"empty stream": {func(r *Response) { r.SetBodyStream(strings.NewReader(""), 0) }, "", "", false},
	} {
		h := CompressHandler(func(ctx *RequestCtx) { textHandler(ctx); test.set(&ctx.Response) })
		r := &encodedBy(h, "GET", "gzip").Response
		if got, vary := string(r.Header.ContentEncoding()), string(r.Header.Peek("Vary")); got != test.want || vary != test.vary {
			t.Errorf("%s: %q, Vary %q", name, got, vary)
		}
		r = &encodedBy(h, "GET", "gzip, identity;q=0").Response
		if got := string(r.Header.ContentEncoding()) == "gzip"; got != test.forced {
			t.Errorf("%s without identity: encoded %v", name, got)
		}
	}
}

func TestCompressHandlerWeakensETag(t *testing.T) {
	for _, test := range []struct {
		status                  int
		accept, before, wantTag string
	}{
		{200, "gzip", `"a"`, `W/"a"`},
		{200, "gzip", `W/"a"`, `W/"a"`},
		{200, "-", `"a"`, `"a"`},
		{200, "gzip", "", ""},
		{304, "gzip", `"a"`, `W/"a"`},
		{206, "gzip", `"a"`, `"a"`},
	} {
		h := CompressHandler(func(ctx *RequestCtx) {
			textHandler(ctx)
			ctx.SetStatusCode(test.status)
			ctx.Response.Header.Set(HeaderETag, test.before)
		})
		if got := string(encodedBy(h, "GET", test.accept).Response.Header.Peek(HeaderETag)); got != test.wantTag {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

func TestCompressHandlerTwiceEncodesOnce(t *testing.T) {
	h := CompressHandler(CompressHandlerBrotliLevel(textHandler, 4, 6))
	body, err := encodedBy(h, "GET", "gzip, br").Response.BodyUnbrotli()
	if err != nil || string(body) != longText {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}

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

func TestCompressHandlerOfStreams(t *testing.T) {
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		for _, size := range []int{-1, len(longText)} {
			h := CompressHandlerBrotliLevel(func(ctx *RequestCtx) {
				ctx.SetBodyStream(strings.NewReader(longText), size)
			}, 4, 6)
			ctx := encodedBy(h, "GET", coding)
			if !ctx.Response.IsBodyStream() {
				t.Errorf("%s: the stream was collected", coding)
			}
			body, err := ctx.Response.BodyUncompressed()
			if got := string(ctx.Response.Header.ContentEncoding()); got != coding || err != nil || string(body) != longText {
				t.Errorf("%s: %q, %d bytes, %v", coding, got, len(body), err)
			}
		}
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

// TestCompressHandlerAfterTimeout: the response belongs to others then.
func TestCompressHandlerAfterTimeout(t *testing.T) {
	ctx := encodedBy(CompressHandler(func(ctx *RequestCtx) { textHandler(ctx); ctx.TimeoutError("late") }), "GET", "gzip")
	if got := string(ctx.Response.Header.ContentEncoding()); got != "" {
		t.Errorf("encoded with %q", got)
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

// BenchmarkCompressDirect reuses the compressor as well as can be.
func BenchmarkCompressDirect(b *testing.B) {
	z, err := gzip.NewWriterLevel(io.Discard, CompressDefaultCompression)
	if err != nil {
		b.Fatal(err)
	}
	var out bytes.Buffer
	in := []byte(longText)
	b.ReportAllocs()
	for b.Loop() {
		out.Reset()
		z.Reset(&out)
		z.Write(in)
		z.Close()
	}
}

// TestCompressedLengthIsUnknown to the handlers around CompressHandler, if the response
// is to HEAD or a stream.
func TestCompressedLengthIsUnknown(t *testing.T) {
	for method, h := range map[string]RequestHandler{
		"HEAD": func(ctx *RequestCtx) { ctx.Response.Header.SetContentLength(1000) },
		"GET":  func(ctx *RequestCtx) { ctx.SetBodyStream(strings.NewReader(strings.Repeat("x", 1000)), 1000) },
	} {
		var ctx RequestCtx
		ctx.Request.Header.SetMethod(method)
		ctx.Request.Header.Set("Accept-Encoding", "gzip")
		ctx.SetContentType("text/plain")
		CompressHandler(h)(&ctx)
		if n, coding := ctx.Response.Header.ContentLength(), ctx.Response.Header.ContentEncoding(); n != -1 || string(coding) != "gzip" {
			t.Errorf("%s: the length is %d, the coding %q", method, n, coding)
		}
	}
}
