package server_test

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

func TestCompressHandlerNegotiates(t *testing.T) {
	handlers := []sluice.RequestHandler{
		sluice.CompressHandler(harness.TextHandler), sluice.CompressHandlerLevel(harness.TextHandler, sluice.CompressDefaultCompression), sluice.CompressHandlerBrotliLevel(harness.TextHandler, 4, 6),
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
			r := &harness.EncodedBy(h, "GET", test.accept).Response
			if got := string(r.Header.ContentEncoding()); got != want {
				t.Errorf("%q: %q, want %q", test.accept, got, want)
			}
			if got := string(r.Header.Peek(sluice.HeaderVary)); got != sluice.HeaderAcceptEncoding {
				t.Errorf("%q: Vary %q", test.accept, got)
			}
			body, err := r.BodyUncompressed()
			if err != nil || string(body) != harness.LongText || want != "" && len(r.Body()) >= len(body) {
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
	if len(sluice.AppendGzipBytesLevel(nil, text, 3)) == len(sluice.AppendGzipBytesLevel(nil, text, 6)) {
		t.Fatal("the levels do not differ")
	}
	handler := func(ctx *sluice.RequestCtx) { ctx.SetBody(text) }
	for name, test := range map[string]struct {
		handler sluice.RequestHandler
		accept  string
		want    []byte
	}{
		"zstd":           {sluice.CompressHandler(handler), "zstd", sluice.AppendZstdBytesLevel(nil, text, sluice.CompressZstdDefault)},
		"gzip":           {sluice.CompressHandler(handler), "gzip", sluice.AppendGzipBytesLevel(nil, text, 3)},
		"deflate":        {sluice.CompressHandler(handler), "deflate", sluice.AppendDeflateBytesLevel(nil, text, 3)},
		"gzip, level":    {sluice.CompressHandlerLevel(handler, sluice.CompressDefaultCompression), "gzip", sluice.AppendGzipBytesLevel(nil, text, 6)},
		"gzip, speed":    {sluice.CompressHandlerLevel(handler, sluice.CompressBestSpeed), "gzip", sluice.AppendGzipBytesLevel(nil, text, 1)},
		"deflate, no":    {sluice.CompressHandlerLevel(handler, sluice.CompressNoCompression), "deflate", sluice.AppendDeflateBytesLevel(nil, text, 0)},
		"br, level":      {sluice.CompressHandlerBrotliLevel(handler, 11, 9), "br", sluice.AppendBrotliBytesLevel(nil, text, 11)},
		"gzip, br level": {sluice.CompressHandlerBrotliLevel(handler, 11, 9), "gzip", sluice.AppendGzipBytesLevel(nil, text, 9)},
	} {
		if got := harness.EncodedBy(test.handler, "GET", test.accept).Response.Body(); string(got) != string(test.want) {
			t.Errorf("%s: %d bytes, want %d", name, len(got), len(test.want))
		}
	}
}

func TestAcceptEncodingOnSeveralLines(t *testing.T) {
	h := sluice.CompressHandlerBrotliLevel(func(ctx *sluice.RequestCtx) {
		ctx.Request.Header.Set(sluice.HeaderAcceptEncoding, "gzip;q=0.5")
		ctx.Request.Header.Add(sluice.HeaderAcceptEncoding, "br")
		harness.TextHandler(ctx)
	}, 4, 6)
	if got := string(harness.EncodedBy(h, "GET", "-").Response.Header.ContentEncoding()); got != "br" {
		t.Errorf("%q", got)
	}
}

func TestCompressHandlerLeavesAlone(t *testing.T) {
	type set = func(r *sluice.Response)
	for name, test := range map[string]struct {
		set        set
		want, vary string // without and with identity;q=0 the same, but for forced
		forced     bool
	}{
		"text":      {func(r *sluice.Response) {}, "gzip", "Accept-Encoding", true},
		"short":     {func(r *sluice.Response) { r.SetBodyString("short") }, "", "", true},
		"empty":     {func(r *sluice.Response) { r.ResetBody() }, "", "", false},
		"png":       {func(r *sluice.Response) { r.Header.SetContentType("image/png") }, "", "", true},
		"encoded":   {func(r *sluice.Response) { r.Header.SetContentEncoding("own") }, "own", "", false},
		"204":       {func(r *sluice.Response) { r.SetStatusCode(204) }, "", "", false},
		"205":       {func(r *sluice.Response) { r.SetStatusCode(205) }, "", "", false},
		"206":       {func(r *sluice.Response) { r.SetStatusCode(206) }, "", "Accept-Encoding", false},
		"304":       {func(r *sluice.Response) { r.SetStatusCode(304) }, "", "Accept-Encoding", false},
		"transform": {func(r *sluice.Response) { r.Header.Set("Cache-Control", "public, No-Transform") }, "", "", false},
		"public":    {func(r *sluice.Response) { r.Header.Set("Cache-Control", "public") }, "gzip", "Accept-Encoding", true},
		"skipped":   {func(r *sluice.Response) { r.SkipBody = true }, "", "", false},
		"vary":      {func(r *sluice.Response) { r.Header.Set("Vary", "Origin") }, "gzip", "Origin,Accept-Encoding", true},
		"short stream": {func(r *sluice.Response) { r.SetBodyStream(strings.NewReader("short"), 5) },
			"gzip", "Accept-Encoding", true},
		"empty stream": {func(r *sluice.Response) { r.SetBodyStream(strings.NewReader(""), 0) }, "", "", false},
	} {
		h := sluice.CompressHandler(func(ctx *sluice.RequestCtx) { harness.TextHandler(ctx); test.set(&ctx.Response) })
		r := &harness.EncodedBy(h, "GET", "gzip").Response
		if got, vary := string(r.Header.ContentEncoding()), string(r.Header.Peek("Vary")); got != test.want || vary != test.vary {
			t.Errorf("%s: %q, Vary %q", name, got, vary)
		}
		r = &harness.EncodedBy(h, "GET", "gzip, identity;q=0").Response
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
		h := sluice.CompressHandler(func(ctx *sluice.RequestCtx) {
			harness.TextHandler(ctx)
			ctx.SetStatusCode(test.status)
			ctx.Response.Header.Set(sluice.HeaderETag, test.before)
		})
		if got := string(harness.EncodedBy(h, "GET", test.accept).Response.Header.Peek(sluice.HeaderETag)); got != test.wantTag {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

func TestCompressHandlerTwiceEncodesOnce(t *testing.T) {
	h := sluice.CompressHandler(sluice.CompressHandlerBrotliLevel(harness.TextHandler, 4, 6))
	body, err := harness.EncodedBy(h, "GET", "gzip, br").Response.BodyUnbrotli()
	if err != nil || string(body) != harness.LongText {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}

func TestCompressHandlerOfStreams(t *testing.T) {
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		for _, size := range []int{-1, len(harness.LongText)} {
			h := sluice.CompressHandlerBrotliLevel(func(ctx *sluice.RequestCtx) {
				ctx.SetBodyStream(strings.NewReader(harness.LongText), size)
			}, 4, 6)
			ctx := harness.EncodedBy(h, "GET", coding)
			if !ctx.Response.IsBodyStream() {
				t.Errorf("%s: the stream was collected", coding)
			}
			body, err := ctx.Response.BodyUncompressed()
			if got := string(ctx.Response.Header.ContentEncoding()); got != coding || err != nil || string(body) != harness.LongText {
				t.Errorf("%s: %q, %d bytes, %v", coding, got, len(body), err)
			}
		}
	}
}

// TestCompressHandlerAfterTimeout: the response belongs to others then.
func TestCompressHandlerAfterTimeout(t *testing.T) {
	ctx := harness.EncodedBy(sluice.CompressHandler(func(ctx *sluice.RequestCtx) { harness.TextHandler(ctx); ctx.TimeoutError("late") }), "GET", "gzip")
	if got := string(ctx.Response.Header.ContentEncoding()); got != "" {
		t.Errorf("encoded with %q", got)
	}
}

const gzipGet = "GET / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n"

// BenchmarkCompressDirect reuses the compressor as well as can be.
func BenchmarkCompressDirect(b *testing.B) {
	z, err := gzip.NewWriterLevel(io.Discard, sluice.CompressDefaultCompression)
	if err != nil {
		b.Fatal(err)
	}
	var out bytes.Buffer
	in := []byte(harness.LongText)
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
	for method, h := range map[string]sluice.RequestHandler{
		"HEAD": func(ctx *sluice.RequestCtx) { ctx.Response.Header.SetContentLength(1000) },
		"GET":  func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(strings.NewReader(strings.Repeat("x", 1000)), 1000) },
	} {
		var ctx sluice.RequestCtx
		ctx.Request.Header.SetMethod(method)
		ctx.Request.Header.Set("Accept-Encoding", "gzip")
		ctx.SetContentType("text/plain")
		sluice.CompressHandler(h)(&ctx)
		if n, coding := ctx.Response.Header.ContentLength(), ctx.Response.Header.ContentEncoding(); n != -1 || string(coding) != "gzip" {
			t.Errorf("%s: the length is %d, the coding %q", method, n, coding)
		}
	}
}
