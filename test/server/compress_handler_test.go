package server_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/server/http1/http1test"
	"github.com/sluicehttp/sluice/test/harness"
)

func TestCompressHandlerOfHEAD(t *testing.T) {
	get := harness.EncodedBy(sluice.CompressHandler(harness.TextHandler), "GET", "gzip")
	head := harness.EncodedBy(sluice.CompressHandler(harness.TextHandler), "HEAD", "gzip")
	if !bytes.Equal(get.Response.Body(), head.Response.Body()) {
		t.Error("HEAD is answered with another length than GET")
	}
	announcing := sluice.CompressHandler(func(ctx *sluice.RequestCtx) { ctx.Response.Header.SetContentLength(5000) })
	c := http1test.OpenSteady(acceptor(&sluice.Server{Handler: announcing, Logger: harness.QuietLogger{}}), false)
	out := string(c.RoundTrip(t, []byte("HEAD / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n")))
	if strings.Contains(out, "Content-Length") || !strings.Contains(out, "Content-Encoding: gzip") || !strings.HasSuffix(out, "\r\n\r\n") {
		t.Errorf("answered %q", out)
	}
	out = string(c.RoundTrip(t, []byte("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n")))
	if !strings.Contains(out, "Content-Length: 5000") {
		t.Errorf("answered %q", out)
	}
}

// TestCompressHandlerKeepsLength: a stream has the length that was announced for it, also encoded:
// bytes that exceed it are left out, and after an early end the client sees that the response is incomplete.
func TestCompressHandlerKeepsLength(t *testing.T) {
	for size, want := range map[int]string{4: "1234", 6: "123456", 7: ""} {
		r := harness.Serve(t, harness.InMemory(), &sluice.Server{Logger: harness.QuietLogger{}, Handler: sluice.CompressHandler(func(ctx *sluice.RequestCtx) {
			ctx.SetBodyStream(strings.NewReader("123456"), size)
		})})
		got := r.Exchange(harness.Request("GET / HTTP/1.1", "Accept-Encoding: gzip", "Connection: close"))
		resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(got)), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if isCut := want == ""; isCut != (err == io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes: %q, %v", size, got, err)
		} else if !isCut {
			if plain, err := sluice.AppendGunzipBytes(nil, body); err != nil || string(plain) != want {
				t.Errorf("%d bytes: %q, %v", size, plain, err)
			}
		}
		r.Stop()
	}
}

// TestCompressHandlerAfterFlush: what was flushed is not encoded, nor is the rest.
func TestCompressHandlerAfterFlush(t *testing.T) {
	c := http1test.OpenSteady(acceptor(&sluice.Server{Handler: sluice.CompressHandler(func(ctx *sluice.RequestCtx) {
		ctx.WriteString("flushed")
		if err := ctx.Flush(); err != nil {
			t.Error(err)
		}
		harness.TextHandler(ctx)
	}), Logger: harness.QuietLogger{}}), false)
	out := string(c.RoundTrip(t, []byte("GET / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n")))
	if all := string(c.Sent) + out; !strings.Contains(all, "flushed") || !strings.Contains(all, harness.LongText) || strings.Contains(all, "gzip") {
		t.Errorf("%q", all)
	}
}

func TestCompressHandlerDoesNotAllocate(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector makes pools forget")
	}
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		h := sluice.CompressHandlerBrotliLevel(func(ctx *sluice.RequestCtx) {
			ctx.SetBodyString(harness.LongText)
			ctx.Response.Header.Set(sluice.HeaderETag, `"0123456789abcdef"`)
		}, 4, 6)
		c := http1test.OpenSteady(acceptor(&sluice.Server{Handler: h, Logger: harness.QuietLogger{}}), false)
		in := []byte(strings.Replace(gzipGet, "gzip", coding, 1))
		if out := c.RoundTrip(t, in); !bytes.Contains(out, []byte("Content-Encoding: "+coding)) {
			t.Fatalf("%s: answered %q", coding, out)
		}
		if n := testing.AllocsPerRun(100, func() { c.RoundTrip(t, in) }); n != 0 {
			t.Errorf("%s: %v allocations", coding, n)
		}
		c.Protocol.Closed(nil)
	}
}

// BenchmarkCompressHandler is a whole request and its answer of 8.8 kB by gzip,
// BenchmarkCompressDirect the compressor alone for the same body and level.
func BenchmarkCompressHandler(b *testing.B) {
	benchmarkServerConn(b, gzipGet, sluice.CompressHandler(harness.TextHandler))
}

// acceptor returns what an engine gets for the connections of s.
func acceptor(s *sluice.Server) engine.Acceptor {
	return s.Control().Value(server.Key{}).(engine.Acceptor)
}

func benchmarkServerConn(b *testing.B, in string, handler sluice.RequestHandler) {
	c := http1test.OpenSteady(acceptor(&sluice.Server{Handler: handler, Logger: harness.QuietLogger{}}), false)
	data := []byte(in)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		c.RoundTrip(b, data)
	}
}
