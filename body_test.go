package sluice

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicehttp/sluice/internal/buf"
)

// trackedStream is a body stream that records how it was closed.
type trackedStream struct {
	io.Reader
	closed int
	err    error
}

func (s *trackedStream) Close() error {
	s.closed++
	return s.err
}

func streamOf(s string) *trackedStream { return &trackedStream{Reader: strings.NewReader(s)} }

func TestBodyOfAServerStreamIsLimited(t *testing.T) {
	for limit, want := range map[int]string{0: "0123456789", 10: "0123456789", 9: ErrBodyTooLarge.Error(), 1: ErrBodyTooLarge.Error()} {
		for _, s := range []io.Reader{
			iotest.OneByteReader(strings.NewReader("0123456789")), iotest.DataErrReader(strings.NewReader("0123456789")),
			strings.NewReader("0123456789"), // which writes itself
			sloppyWriterTo{strings.NewReader("0123456789")},
		} {
			var r Request
			r.setServerStream(s)
			r.limit = limit
			if got := string(r.Body()); got != want {
				t.Errorf("limit %d, %T: %q", limit, s, got)
			}
		}
	}
}

// sloppyWriterTo ignores errors of the writer.
type sloppyWriterTo struct{ from *strings.Reader }

func (s sloppyWriterTo) Read(p []byte) (int, error) { return s.from.Read(p) }

func (s sloppyWriterTo) WriteTo(w io.Writer) (int64, error) {
	for part := make([]byte, 4); ; {
		n, err := s.from.Read(part)
		if err != nil {
			return 10, nil
		}
		_, _ = w.Write(part[:n])
	}
}

// TestABodyOverItsLimitIsNotRead: its announced length says enough.
func TestABodyOverItsLimitIsNotRead(t *testing.T) {
	var r Request
	s := &trackedStream{Reader: iotest.ErrReader(errors.New("it was read"))}
	r.SetBodyStream(s, 2)
	r.limit = 1
	if got := string(r.Body()); got != ErrBodyTooLarge.Error() || s.closed != 1 {
		t.Errorf("%q, closed %d times", got, s.closed)
	}
}

func TestReleaseBody(t *testing.T) {
	var r Response
	r.SetBodyString("abc")
	r.ReleaseBody(1 << 20)
	if string(r.Body()) != "abc" {
		t.Error("a small body was released")
	}
	r.ReleaseBody(2)
	if len(r.Body()) != 0 || cap(r.buffered()) != 0 {
		t.Error("a large body was kept")
	}
	r.SetBodyString("abc")
	r.SetBodyStream(strings.NewReader("stream"), 6)
	r.ReleaseBody(2)
	if got := string(r.Body()); got != "stream" {
		t.Errorf("the stream became %q", got)
	}
}

func TestPoolLimit(t *testing.T) {
	defer SetBodySizePoolLimit(buf.DefaultLimit, buf.DefaultLimit)
	for _, test := range []struct {
		limit, size int
		kept        bool
	}{
		{0, 1, false}, {100, 100, true}, {100, 101, false}, {-1, 1 << 24, true},
	} {
		SetBodySizePoolLimit(test.limit, test.limit)
		for _, keep := range []bool{false, true} {
			req, resp := &Request{KeepBodyBuffer: keep}, &Response{KeepBodyBuffer: keep}
			req.memory, resp.memory = &bodyBuffer{make([]byte, test.size)}, &bodyBuffer{make([]byte, test.size)}
			req.Reset()
			resp.Reset()
			want := test.kept || keep
			if cap(req.buffered()) > 0 != want || cap(resp.buffered()) > 0 != want {
				t.Errorf("limit %d, size %d, keep %v: kept %v, %v", test.limit, test.size, keep, cap(req.buffered()) > 0, cap(resp.buffered()) > 0)
			}
		}
	}
	SetBodySizePoolLimit(buf.DefaultLimit, buf.DefaultLimit)
	r := Response{KeepBodyBuffer: true}
	r.memory = &bodyBuffer{make([]byte, buf.DefaultLimit+1)}
	r.resetForServer()
	if r.memory != nil || r.KeepBodyBuffer {
		t.Error("a server keeps a large body")
	}
}

func TestBodyReuseAllocatesNothing(t *testing.T) {
	var req Request
	var resp Response
	content := bytes.Repeat([]byte("x"), 1000)
	text := string(content)
	n := testing.AllocsPerRun(200, func() {
		req.SetBody(content)
		req.appendBodyBytes(content)
		resp.SetBodyString(text)
		resp.AppendBody(content)
		resp.AppendBodyString(text)
		resp.BodyWriter().Write(content)
		resp.SetBodyRaw(content)
		resp.bodyBytes()
		req.resetForServer()
		resp.resetForServer()
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkResetForServer(b *testing.B) {
	var req Request
	var resp Response
	b.ReportAllocs()
	for b.Loop() {
		req.resetForServer()
		resp.resetForServer()
	}
}

func BenchmarkSetBody(b *testing.B) {
	var resp Response
	content := make([]byte, 1024)
	b.ReportAllocs()
	for b.Loop() {
		resp.SetBody(content)
		resp.resetForServer()
	}
}

// TestABodyEndsAFailure: after the error of a stream, any other body is whole.
func TestABodyEndsAFailure(t *testing.T) {
	var q Request
	q.Header.SetContentType("application/x-www-form-urlencoded")
	q.SetBodyStream(io.MultiReader(strings.NewReader("a=1"), iotest.ErrReader(errWire)), -1)
	if q.PostArgs().Len() != 0 || len(q.bodyBytes()) != 0 {
		t.Errorf("arguments %s, body %q", q.PostArgs(), q.bodyBytes())
	}
	for name, set := range map[string]func(r *Response){
		"SwapBody":      func(r *Response) { r.SwapBody([]byte("new")) },
		"SetBody":       func(r *Response) { r.SetBody([]byte("new")) },
		"SetBodyString": func(r *Response) { r.SetBodyString("new") },
		"SetBodyRaw":    func(r *Response) { r.SetBodyRaw([]byte("new")) },
		"SetBodyStream": func(r *Response) { r.SetBodyStream(strings.NewReader("new"), 3) },
		"Write": func(r *Response) {
			r.ResetBody()
			if n, err := r.BodyWriter().Write([]byte("new")); n != 3 || err != nil {
				t.Error(n, err)
			}
		},
		"WriteString": func(r *Response) {
			r.ResetBody()
			if n, err := r.BodyWriter().(io.StringWriter).WriteString("new"); n != 3 || err != nil {
				t.Error(n, err)
			}
		},
	} {
		var r Response
		r.SetBodyStream(iotest.ErrReader(errWire), -1)
		if got := string(r.Body()); got != errWire.Error() {
			t.Errorf("%s: %q", name, got)
		}
		set(&r)
		if got, err := r.BodyUncompressed(); string(got) != "new" || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
