package message_test

import (
	"bufio"
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

var dateLine = regexp.MustCompile(`Date: [^\r]*\r\n`)

// long: a table of cases
func TestResponseWrite(t *testing.T) {
	const text = "Content-Type: text/plain; charset=utf-8\r\n"
	for name, test := range map[string]struct {
		set  func(r *sluice.Response)
		want string
	}{
		"empty":    {func(*sluice.Response) {}, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
		"buffered": {func(r *sluice.Response) { r.SetBodyString("body") }, "HTTP/1.1 200 OK\r\n" + text + "Content-Length: 4\r\n\r\nbody"},
		"raw":      {func(r *sluice.Response) { r.SetBodyRaw([]byte("body")) }, "HTTP/1.1 200 OK\r\n" + text + "Content-Length: 4\r\n\r\nbody"},
		"a lie":    {func(r *sluice.Response) { r.SetBodyString("body"); r.Header.SetContentLength(9) }, "HTTP/1.1 200 OK\r\n" + text + "Content-Length: 4\r\n\r\nbody"},
		"sized":    {func(r *sluice.Response) { r.SetBodyStream(harness.PlainReader("body"), 4) }, "HTTP/1.1 200 OK\r\n" + text + "Content-Length: 4\r\n\r\nbody"},
		"too long": {func(r *sluice.Response) { r.SetBodyStream(harness.PlainReader("body!"), 4) }, "HTTP/1.1 200 OK\r\n" + text + "Content-Length: 4\r\n\r\nbody"},
		"limited":  {func(r *sluice.Response) { r.SetBodyStream(io.LimitReader(harness.PlainReader("bo"), 4), -1) }, "HTTP/1.1 200 OK\r\n" + text + "Transfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n0\r\n\r\n"},
		"chunked":  {func(r *sluice.Response) { r.SetBodyStream(harness.PlainReader("body"), -1) }, "HTTP/1.1 200 OK\r\n" + text + "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"},
		"empty stream": {func(r *sluice.Response) { r.SetBodyStream(harness.PlainReader(""), -1) },
			"HTTP/1.1 200 OK\r\n" + text + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		"until the end": {func(r *sluice.Response) { r.SetBodyStream(harness.PlainReader("body"), -2) },
			"HTTP/1.1 200 OK\r\n" + text + "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n4\r\nbody\r\n0\r\n\r\n"},
		"HTTP/1.0": {func(r *sluice.Response) {
			r.Header.SetProtocol([]byte("HTTP/1.0"))
			r.SetBodyStream(harness.PlainReader("body"), -1)
		},
			"HTTP/1.0 200 OK\r\n" + text + "Connection: close\r\n\r\nbody"},
		"HTTP/1.0 with trailers": {func(r *sluice.Response) {
			r.Header.SetProtocol([]byte("HTTP/1.0"))
			r.SetBodyStream(harness.PlainReader("body"), 4)
			r.Header.SetTrailer("X-T")
		}, "HTTP/1.0 200 OK\r\n" + text + "Content-Length: 4\r\nTrailer: X-T\r\n\r\nbody"},
		"HTTP/1.0 with trailers, buffered": {func(r *sluice.Response) {
			r.Header.SetProtocol([]byte("HTTP/1.0"))
			r.SetBodyString("body")
			r.Header.SetTrailer("X-T")
			r.Header.Set("X-T", "v")
		}, "HTTP/1.0 200 OK\r\n" + text + "Content-Length: 4\r\nTrailer: X-T\r\n\r\nbody"},
		"HTTP/1.0 with trailers, unknown": {func(r *sluice.Response) {
			r.Header.SetProtocol([]byte("HTTP/1.0"))
			r.SetBodyStream(harness.PlainReader("body"), -1)
			r.Header.SetTrailer("X-T")
		}, "HTTP/1.0 200 OK\r\n" + text + "Trailer: X-T\r\nConnection: close\r\n\r\nbody"},
		"SkipBody with trailers": {func(r *sluice.Response) {
			r.SkipBody = true
			r.SetBodyString("body")
			r.Header.SetTrailer("X-T")
			r.Header.Set("X-T", "v")
		}, "HTTP/1.1 200 OK\r\n" + text + "Content-Length: 4\r\nTrailer: X-T\r\n\r\n"},
		"SkipBody with trailers, sized": {func(r *sluice.Response) {
			r.SkipBody = true
			r.SetBodyStream(harness.PlainReader("body"), 4)
			r.Header.SetTrailer("X-T")
		}, "HTTP/1.1 200 OK\r\n" + text + "Content-Length: 4\r\nTrailer: X-T\r\n\r\n"},
		"204 with trailers": {func(r *sluice.Response) { r.SetStatusCode(204); r.Header.SetTrailer("X-T"); r.Header.Set("X-T", "v") },
			"HTTP/1.1 204 No Content\r\nTrailer: X-T\r\n\r\n"},
		"trailers": {func(r *sluice.Response) {
			r.SetBodyString("body")
			r.Header.SetTrailer("X-T")
			r.Header.Set("X-T", "v")
		},
			"HTTP/1.1 200 OK\r\n" + text + "Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n4\r\nbody\r\n0\r\nX-T: v\r\n\r\n"},
		"trailers, stream": {func(r *sluice.Response) {
			r.SetBodyStream(harness.PlainReader("body"), 4)
			r.Header.SetTrailer("X-T")
			r.Header.Set("X-T", "v")
		}, "HTTP/1.1 200 OK\r\n" + text + "Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n4\r\nbody\r\n0\r\nX-T: v\r\n\r\n"},
		"SkipBody":          {func(r *sluice.Response) { r.SkipBody = true; r.SetBodyString("body") }, "HTTP/1.1 200 OK\r\n" + text + "Content-Length: 4\r\n\r\n"},
		"SkipBody, empty":   {func(r *sluice.Response) { r.SkipBody = true }, "HTTP/1.1 200 OK\r\n\r\n"},
		"SkipBody, zero":    {func(r *sluice.Response) { r.SkipBody = true; r.Header.SetContentLength(0) }, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
		"SkipBody, length":  {func(r *sluice.Response) { r.SkipBody = true; r.Header.SetContentLength(7) }, "HTTP/1.1 200 OK\r\n" + text + "Content-Length: 7\r\n\r\n"},
		"SkipBody, sized":   {func(r *sluice.Response) { r.SkipBody = true; r.SetBodyStream(harness.PlainReader("body"), 4) }, "HTTP/1.1 200 OK\r\n" + text + "Content-Length: 4\r\n\r\n"},
		"SkipBody, chunked": {func(r *sluice.Response) { r.SkipBody = true; r.SetBodyStream(harness.PlainReader("body"), -1) }, "HTTP/1.1 200 OK\r\n" + text + "Transfer-Encoding: chunked\r\n\r\n"},
		"101":               {func(r *sluice.Response) { r.SetStatusCode(101); r.SetBodyString("body") }, "HTTP/1.1 101 Switching Protocols\r\n\r\n"},
		"204":               {func(r *sluice.Response) { r.SetStatusCode(204); r.SetBodyString("body") }, "HTTP/1.1 204 No Content\r\n\r\n"},
		"204, stream":       {func(r *sluice.Response) { r.SetStatusCode(204); r.SetBodyStream(harness.PlainReader("body"), -1) }, "HTTP/1.1 204 No Content\r\n\r\n"},
		"205":               {func(r *sluice.Response) { r.SetStatusCode(205); r.SetBodyString("body") }, "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n"},
		"205, stream":       {func(r *sluice.Response) { r.SetStatusCode(205); r.SetBodyStream(harness.PlainReader("body"), -1) }, "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n"},
		"304":               {func(r *sluice.Response) { r.SetStatusCode(304); r.SetBodyString("body") }, "HTTP/1.1 304 Not Modified\r\n\r\n"},
		"304, length":       {func(r *sluice.Response) { r.Header.SetContentLength(5); r.SetStatusCode(304) }, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"},
		"line ends in a value": {func(r *sluice.Response) { r.Header.Set("X-A", "a\r\nInjected: yes") },
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-A: a  Injected: yes\r\n\r\n"},
	} {
		var r sluice.Response
		test.set(&r)
		var out bytes.Buffer
		n, err := r.WriteTo(&out)
		if got := dateLine.ReplaceAllString(out.String(), ""); err != nil || got != test.want || n != int64(out.Len()) {
			t.Errorf("%s: %d, %v\n got %q\nwant %q", name, n, err, got, test.want)
		}
		if r.IsBodyStream() {
			t.Errorf("%s: the stream is left", name)
		}
		if n, ok := strings.CutPrefix(name, "205"); ok && r.Header.ContentLength() != 0 {
			t.Errorf("205%s: length %d", n, r.Header.ContentLength())
		}
	}
}

func TestLargeBodiesAreWrittenWhole(t *testing.T) {
	large := strings.Repeat("0123456789", 50_000)
	for name, set := range map[string]func(r *sluice.Response){
		"buffered": func(r *sluice.Response) { r.SetBodyString(large) },
		"sized":    func(r *sluice.Response) { r.SetBodyStream(harness.PlainReader(large), len(large)) },
		"chunked":  func(r *sluice.Response) { r.SetBodyStream(harness.PlainReader(large), -1) },
	} {
		var r, again sluice.Response
		set(&r)
		if err := again.Read(harness.Reader(r.String())); err != nil || string(again.Body()) != large {
			t.Errorf("%s: %d bytes, %v", name, len(again.Body()), err)
		}
	}
}

func TestWritingABufferedBodyAllocatesNothing(t *testing.T) {
	var r sluice.Response
	var q sluice.Request
	q.SetRequestURI("http://host/path?query")
	q.Header.SetMethod("POST")
	content := make([]byte, 1000)
	w := bufio.NewWriterSize(io.Discard, 8192)
	n := testing.AllocsPerRun(200, func() {
		r.SetBody(content)
		r.Write(w)
		q.SetBody(content)
		q.Write(w)
		w.Flush()
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestWritingToASmallBufferAllocatesNothing: the head is larger than the writer's
// buffer, or than what is free in it.
func TestWritingToASmallBufferAllocatesNothing(t *testing.T) {
	var r sluice.Response
	r.SetBodyString("body")
	var q sluice.Request
	q.SetRequestURI("http://host/path?query")
	q.Header.SetMethod("POST")
	q.SetBodyString("body")
	for name, c := range map[string]struct{ size, used int }{"small": {16, 0}, "nearly full": {1000, 900}} {
		var out bytes.Buffer
		w := bufio.NewWriterSize(&out, c.size)
		before := make([]byte, c.used)
		n := testing.AllocsPerRun(200, func() {
			out.Reset()
			w.Reset(&out)
			w.Write(before)
			r.Write(w)
			q.Write(w)
			w.Flush()
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		got := strings.Trim(out.String(), "\x00")
		if !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(got, "\r\n\r\nbody") || strings.Count(got, "body") != 2 || !strings.Contains(got, "POST /path?query HTTP/1.1\r\nHost: host\r\n") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func BenchmarkResponseWrite(b *testing.B) {
	var r sluice.Response
	r.SetBody(make([]byte, 1000))
	w := bufio.NewWriterSize(io.Discard, 8192)
	b.ReportAllocs()
	for b.Loop() {
		r.Write(w)
	}
}

func BenchmarkRequestWrite(b *testing.B) {
	var q sluice.Request
	q.SetRequestURI("http://host/path?query")
	q.SetBody(make([]byte, 1000))
	w := bufio.NewWriterSize(io.Discard, 8192)
	b.ReportAllocs()
	for b.Loop() {
		q.Write(w)
	}
}
