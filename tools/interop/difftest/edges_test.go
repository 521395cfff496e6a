package difftest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/valyala/fasthttp"
)

// An edge is a request, with what else TestBodyEdges calls.
type edge interface {
	request
	BodyUncompressedWithLimit(int) ([]byte, error)
	ContinueReadBodyStream(*bufio.Reader, int, ...bool) error
	MultipartForm() (*multipart.Form, error)
	BodyStream() io.Reader
}

// edgeHead is its header.
type edgeHead interface {
	requestHead
	Read(*bufio.Reader) error
	Method() []byte
}

const formOfEdges = "--b\r\nContent-Disposition: form-data; name=\"k\"\r\n\r\nv\r\n--b--\r\n"

// closing is a stream that reports whether it was closed.
type closing struct {
	io.Reader
	isClosed bool
}

func (c *closing) Close() error { c.isClosed = true; return nil }

// edges are the cases of TestBodyEdges. Those whose names end in the number of a
// row of docs/compatibility.md differ.
var edges = map[string]func(r edge, h edgeHead) string{
	"limit, plain D41": func(r edge, _ edgeHead) string { return uncompressed(r, "plain", 2) },
	"no limit, plain":  func(r edge, _ edgeHead) string { return uncompressed(r, "plain", 0) },
	"limit, gzip": func(r edge, h edgeHead) string {
		h.Set("Content-Encoding", "gzip")
		return uncompressed(r, gzippedEdge(), 2)
	},
	"below 0, gzip": func(r edge, h edgeHead) string {
		h.Set("Content-Encoding", "gzip")
		return uncompressed(r, gzippedEdge(), -1)
	},
	"raw, swap D5": func(r edge, _ edgeHead) string { r.SetBodyRaw([]byte("raw")); return string(r.SwapBody([]byte("new"))) },
	"raw, writer D5": func(r edge, _ edgeHead) string {
		r.SetBodyRaw([]byte("raw"))
		_, _ = r.BodyWriter().Write([]byte("w"))
		return string(r.Body())
	},
	"cut off D29":   func(r edge, h edgeHead) string { return afterReading(r, h, 0, "Content-Length: 5\r\n\r\nab") },
	"malformed D29": func(r edge, h edgeHead) string { return afterReading(r, h, 0, "Transfer-Encoding: chunked\r\n\r\nzz") },
	"too large":     func(r edge, h edgeHead) string { return afterReading(r, h, 2, "Content-Length: 5\r\n\r\nabcde") },
	"broken form D15": func(r edge, h edgeHead) string {
		return afterReading(r, h, 0, "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 4\r\n\r\njunk")
	},
	"streamed D28":     readAhead,
	"form, stream D16": formOfStream,
	"form, deflate D17": func(r edge, h edgeHead) string {
		return encodedForm(r, h, "deflate", sluice.AppendDeflateBytes(nil, []byte(formOfEdges)))
	},
	"form, gzip": func(r edge, h edgeHead) string {
		return encodedForm(r, h, "gzip", sluice.AppendGzipBytes(nil, []byte(formOfEdges)))
	},
}

func gzippedEdge() string { return string(sluice.AppendGzipBytes(nil, []byte("plain"))) }

func uncompressed(r edge, body string, limit int) string {
	r.SetBodyString(body)
	got, err := r.BodyUncompressedWithLimit(limit)
	return result(string(got), err)
}

// afterReading describes a request after reading it.
func afterReading(r edge, h edgeHead, limit int, rest string) string {
	err := r.ReadLimitBody(bufio.NewReader(strings.NewReader("PUT / HTTP/1.1\r\nHost: h\r\n"+rest)), limit)
	return fmt.Sprint(err != nil, string(h.Method()), string(r.Body()))
}

// readAhead tells how much of a longer body is read for a limit of 5, and what
// becomes of it.
func readAhead(r edge, h edgeHead) string {
	br := bufio.NewReader(strings.NewReader("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\n\r\n01234567890123456789"))
	err := errors.Join(h.Read(br), r.ContinueReadBodyStream(br, 5))
	ahead := 20 - br.Buffered()
	return fmt.Sprint(err, ahead, len(r.Body()) == 20)
}

// formOfStream describes what becomes of a stream whose form was asked for.
func formOfStream(r edge, h edgeHead) string {
	h.SetMethod("POST")
	h.SetContentType("multipart/form-data; boundary=b")
	s := &closing{Reader: strings.NewReader(formOfEdges)}
	r.SetBodyStream(s, -1)
	form, err := r.MultipartForm()
	left, _ := io.ReadAll(r.BodyStream())
	return fmt.Sprint(form, err, r.IsBodyStream(), s.isClosed, len(left))
}

func encodedForm(r edge, h edgeHead, coding string, body []byte) string {
	h.SetMethod("POST")
	h.SetContentType("multipart/form-data; boundary=b")
	h.Set("Content-Encoding", coding)
	r.SetBody(body)
	form, err := r.MultipartForm()
	return fmt.Sprint(form != nil, err != nil)
}

// TestBodyEdges compares what is rarely done to a request's body.
func TestBodyEdges(t *testing.T) {
	known := differences{}
	for name := range edges {
		if row := rowMention.FindString(name); row != "" {
			known[name] = row
		}
	}
	compare(t, names(edges), known,
		func(name string) string { var r fasthttp.Request; return edges[name](&r, &r.Header) },
		func(name string) string { var r sluice.Request; return edges[name](&r, &r.Header) })
}

// TestEmptyInput compares the errors of decoding nothing. The codings with the
// number of a row differ.
func TestEmptyInput(t *testing.T) {
	type decoder func(dst, src []byte) ([]byte, error)
	for name, decode := range map[string][2]decoder{
		"gzip D34":   {fasthttp.AppendGunzipBytes, sluice.AppendGunzipBytes},
		"brotli D34": {fasthttp.AppendUnbrotliBytes, sluice.AppendUnbrotliBytes},
		"deflate":    {fasthttp.AppendInflateBytes, sluice.AppendInflateBytes},
		"zstd":       {fasthttp.AppendUnzstdBytes, sluice.AppendUnzstdBytes},
	} {
		kind := func(d decoder) string {
			_, err := d(nil, nil)
			return fmt.Sprint(err == nil, err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF))
		}
		theirs, ours := kind(decode[0]), kind(decode[1])
		if (theirs != ours) != strings.Contains(name, "D34") {
			t.Errorf("%s: fasthttp %s, sluice %s", name, theirs, ours)
		}
	}
}

// TestCountOfEncodedBytes: D43.
func TestCountOfEncodedBytes(t *testing.T) {
	type encoder func(w io.Writer, p []byte) (int, error)
	for name, encode := range map[string][2]encoder{
		"gzip": {fasthttp.WriteGzip, sluice.WriteGzip}, "deflate": {fasthttp.WriteDeflate, sluice.WriteDeflate}, "brotli": {fasthttp.WriteBrotli, sluice.WriteBrotli},
	} {
		for side, write := range encode {
			var out bytes.Buffer
			n, err := write(&out, make([]byte, 1000))
			if want := []int{1000, out.Len()}[side]; err != nil || n != want {
				t.Errorf("%s: %d of %d, %v, want %d", name, n, out.Len(), err, want)
			}
		}
	}
}
