package message_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestBodyPoolLimit: memory up to the limit is kept for the next body.
func TestBodyPoolLimit(t *testing.T) {
	const usual = 256 << 10
	defer sluice.SetBodySizePoolLimit(usual, usual)
	kept := func(size int) (request, response bool) {
		q, r := sluice.AcquireRequest(), sluice.AcquireResponse() // one on the stack moves, and is then taken for a copy
		defer sluice.ReleaseRequest(q)
		defer sluice.ReleaseResponse(r)
		q.SwapBody(make([]byte, 0, size))
		r.SwapBody(make([]byte, 0, size))
		q.ResetBody()
		r.ResetBody()
		return cap(q.SwapBody(nil)) > 0, cap(r.SwapBody(nil)) > 0
	}
	for _, test := range []struct{ limit, size int }{{usual, usual}, {100, 100}, {1, 1}, {-1, 1 << 20}} {
		sluice.SetBodySizePoolLimit(test.limit, test.limit)
		if q, r := kept(test.size); !q || !r {
			t.Errorf("%+v: not kept: %v, %v", test, q, r)
		}
		if q, r := kept(test.size + 1); (q || r) != (test.limit < 0) {
			t.Errorf("%+v: one byte more is kept: %v, %v", test, q, r)
		}
	}
	sluice.SetBodySizePoolLimit(10, 20)
	if q, r := kept(15); q || !r {
		t.Errorf("the limits are mixed up: %v, %v", q, r)
	}
	var unset buf.Limit
	if !unset.Allows(usual) || unset.Allows(usual+1) {
		t.Error("without a limit that was set: not 256 KiB")
	}
}

// TestReleasedBodies: it releases what is larger than size, and every body that is
// not a stream.
func TestReleasedBodies(t *testing.T) {
	for name, test := range map[string]struct {
		set  func(r *sluice.Response)
		size int
		want string
	}{
		"smaller":        {func(r *sluice.Response) { r.SwapBody(make([]byte, 3, 10)) }, 10, "\x00\x00\x00"},
		"larger":         {func(r *sluice.Response) { r.SwapBody(make([]byte, 3, 11)) }, 10, ""},
		"raw":            {func(r *sluice.Response) { r.SetBodyString("old"); r.SetBodyRaw([]byte("raw")) }, 1000, ""},
		"failure":        {func(r *sluice.Response) { r.SetBodyStream(iotest.ErrReader(harness.ErrWire), -1); r.Body() }, 0, ""},
		"stream":         {func(r *sluice.Response) { r.SetBodyString("old"); r.SetBodyStream(strings.NewReader("stream"), -1) }, 0, "stream"},
		"stream, memory": {func(r *sluice.Response) { r.SetBodyString("old"); r.SetBodyStream(strings.NewReader("stream"), -1) }, 1000, "stream"},
	} {
		var r sluice.Response
		test.set(&r)
		r.ReleaseBody(test.size)
		if got := string(r.Body()); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestBodyLimits: a body of exactly the limit is read, one byte more is not.
func TestBodyLimits(t *testing.T) {
	for framing, whole := range map[string]string{
		"sized":   "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n",
		"to EOF":  "HTTP/1.1 200 OK\r\n\r\nab",
	} {
		for limit, want := range map[int]error{-1: nil, 0: nil, 1: sluice.ErrBodyTooLarge, 2: nil, 3: nil} {
			for _, kind := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader} {
				var r sluice.Response
				if err := r.ReadLimitBody(bufio.NewReader(kind(strings.NewReader(whole))), limit); err != want || err == nil && string(r.Body()) != "ab" {
					t.Errorf("%s, limit %d: %q, %v", framing, limit, r.Body(), err)
				}
				r = sluice.Response{StreamBody: true}
				if err := r.ReadLimitBody(bufio.NewReader(kind(strings.NewReader(whole))), limit); err != nil {
					t.Errorf("%s, limit %d, stream: %v", framing, limit, err)
				}
				if got, err := r.BodyUncompressed(); !errors.Is(err, want) || err == nil && string(got) != "ab" {
					t.Errorf("%s, limit %d, stream: %q, %v", framing, limit, got, err)
				}
			}
		}
	}
}

// TestDecodedLimits: the same for the decoded body.
func TestDecodedLimits(t *testing.T) {
	for coding, decode := range map[string]func(r *sluice.Response, limit int) ([]byte, error){
		"":        (*sluice.Response).BodyUncompressedWithLimit,
		"gzip":    func(r *sluice.Response, limit int) ([]byte, error) { return r.BodyGunzipWithLimit(limit) },
		"deflate": func(r *sluice.Response, limit int) ([]byte, error) { return r.BodyInflateWithLimit(limit) },
		"br":      func(r *sluice.Response, limit int) ([]byte, error) { return r.BodyUnbrotliWithLimit(limit) },
		"zstd":    func(r *sluice.Response, limit int) ([]byte, error) { return r.BodyUnzstdWithLimit(limit) },
	} {
		content := []byte("ab")
		switch coding {
		case "gzip":
			content = sluice.AppendGzipBytes(nil, content)
		case "deflate":
			content = sluice.AppendDeflateBytes(nil, content)
		case "br":
			content = sluice.AppendBrotliBytes(nil, content)
		case "zstd":
			content = sluice.AppendZstdBytes(nil, content)
		}
		for limit, want := range map[int]error{-1: nil, 0: nil, 1: sluice.ErrBodyTooLarge, 2: nil} {
			var r sluice.Response
			r.Header.SetContentEncoding(coding)
			r.SetBody(content)
			for _, use := range []func(r *sluice.Response, limit int) ([]byte, error){decode, (*sluice.Response).BodyUncompressedWithLimit} {
				if got, err := use(&r, limit); err != want || err == nil && string(got) != "ab" {
					t.Errorf("%q, limit %d: %q, %v", coding, limit, got, err)
				}
			}
		}
	}
}

// TestMemoryIsOneChunk: a body that is in memory is one chunk; a WriterTo that
// did not offer itself is read.
func TestMemoryIsOneChunk(t *testing.T) {
	text := strings.Repeat("x", 100_000)
	for _, s := range []io.Reader{bytes.NewReader([]byte(text)), bytes.NewBufferString(text)} {
		var r sluice.Response
		r.SetBodyStream(s, -1)
		if _, content, _ := strings.Cut(r.String(), "\r\n\r\n"); content != "186a0\r\n"+text+"\r\n0\r\n\r\n" {
			t.Errorf("%T: %.30q", s, content)
		}
	}
	s := &harness.WriterTo{Text: "a,bb,"}
	var r sluice.Response
	r.SetBodyStream(plainWriterTo{s}, -1)
	if _, content, _ := strings.Cut(r.String(), "\r\n\r\n"); content != "5\r\na,bb,\r\n0\r\n\r\n" || s.WritesTos != 0 {
		t.Errorf("%q, %d WriteTos", content, s.WritesTos)
	}
}

// TestEachWriteOfASizedStreamIsFlushed: the next one may come late.
func TestEachWriteOfASizedStreamIsFlushed(t *testing.T) {
	var out harness.FlushRecorder
	var r sluice.Response
	r.SetBodyStream(&harness.WriterTo{Text: "a,bb,", Supports: true}, 5)
	w := bufio.NewWriter(&out)
	if err := r.Write(w); err != nil || len(out.Writes) != 2 || !strings.HasSuffix(out.Writes[0], "\r\n\r\na,") {
		t.Errorf("%q, %v", out.Writes, err)
	}
}
