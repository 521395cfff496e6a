package sluice

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/sluicehttp/sluice/internal/body"
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

// plainReader hides every method but Read.
func plainReader(s string) io.Reader { return struct{ io.Reader }{strings.NewReader(s)} }

// toldStream is a ReadCloserWithError.
type toldStream struct {
	io.Reader
	told   []error
	closed int // times
}

func (s *toldStream) CloseWithError(err error) error {
	s.told = append(s.told, err)
	return nil
}

func (s *toldStream) Close() error {
	if len(s.told) > 0 {
		panic("Close called after CloseWithError")
	}
	s.closed++
	return nil
}

// writerTo counts how it is read.
type writerTo struct {
	text             string
	supports         bool
	reads, writesTos int
}

func (w *writerTo) SupportsBodyWriteTo() bool { return w.supports }

func (w *writerTo) Read(p []byte) (int, error) {
	w.reads++
	n := copy(p, w.text)
	w.text = w.text[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (w *writerTo) WriteTo(dst io.Writer) (int64, error) {
	w.writesTos++
	for _, part := range strings.SplitAfter(w.text, ",") {
		if _, err := io.WriteString(dst, part); err != nil {
			return 0, err
		}
	}
	return int64(len(w.text)), nil
}

// plainWriterTo is a WriterTo that was not asked whether it may be used.
type plainWriterTo struct{ w *writerTo }

func (p plainWriterTo) Read(b []byte) (int, error) { return p.w.Read(b) }

func (p plainWriterTo) WriteTo(dst io.Writer) (n int64, err error) { return p.w.WriteTo(dst) }

// endless writes itself until it is told to stop.
type endless struct{ io.Reader }

func (endless) WriteTo(w io.Writer) (n int64, err error) {
	for err == nil {
		var m int
		m, err = io.WriteString(w, "0123456789")
		n += int64(m)
	}
	return n, err
}

// A writerToFunc is a stream that only writes itself.
type writerToFunc func(w io.Writer) (int64, error)

func (f writerToFunc) Read([]byte) (int, error) { panic("it is read") }

func (f writerToFunc) WriteTo(w io.Writer) (int64, error) { return f(w) }

func TestWriteToIsBounded(t *testing.T) {
	var r Response
	r.SetBodyStream(endless{}, 15)
	if got := r.String(); !strings.HasSuffix(got, "\r\n\r\n012345678901234") {
		t.Errorf("sized: %q", got)
	}
	if r.writer != (body.StreamWriter{}) {
		t.Error("the writer is retained")
	}
	r.SetBodyStream(endless{}, -1)
	r.limit = 15
	if got := string(r.Body()); got != ErrBodyTooLarge.Error() {
		t.Errorf("collected: %.30q", got)
	}
	// The announced length is no error; more is.
	for text, want := range map[string]bool{"exact": true, "longer": false} {
		var got error
		r.SetBodyStream(writerToFunc(func(w io.Writer) (int64, error) {
			_, got = io.WriteString(w, text)
			return int64(len(text)), nil
		}), 5)
		if err := r.Write(bufio.NewWriter(io.Discard)); err != nil || (got == nil) != want {
			t.Errorf("%s: %v, and %v for WriteTo", text, err, got)
		}
	}
	r.SetBodyStream(plainWriterTo{&writerTo{text: "short"}}, 15)
	if err := r.Write(bufio.NewWriter(io.Discard)); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), " after 5 of 15 bytes") {
		t.Errorf("short: %v", err)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A StreamWriter owns things that it has to clean up: it runs exactly once,
// whatever becomes of the message.
func TestAStreamWriterRunsOnce(t *testing.T) {
	for name, use := range map[string]func(r *Response){
		"written":    func(r *Response) { _ = r.String() },
		"skipped":    func(r *Response) { r.SkipBody = true; _ = r.String() },
		"forbidden":  func(r *Response) { r.SetStatusCode(304); _ = r.String() },
		"buffered":   func(r *Response) { r.Body() },
		"dropped":    func(r *Response) { r.Reset() },
		"replaced":   func(r *Response) { r.SetBodyString("x") },
		"read":       func(r *Response) { io.ReadAll(r.BodyStream()); r.Reset() },
		"read a bit": func(r *Response) { r.BodyStream().Read(make([]byte, 1)); r.Reset() },
		"in place":   func(r *Response) { r.streamWriter(bufio.NewWriter(io.Discard)); r.CloseBodyStream() },
		"and read then": func(r *Response) {
			r.streamWriter(bufio.NewWriter(io.Discard))
			if n, err := r.stream.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Error(n, err)
			}
			r.Reset()
		},
		"taken, unread": func(r *Response) { r.BodyStream(); r.Reset() },
	} {
		synctest.Test(t, func(t *testing.T) {
			runs := 0
			r := new(Response)
			r.SetBodyStreamWriter(func(w *bufio.Writer) {
				runs++
				w.WriteString("data")
			})
			use(r)
			synctest.Wait()
			if runs != 1 {
				t.Errorf("%s: ran %d times", name, runs)
			}
		})
	}
}

func TestSetBodyStreamWriterIsWritten(t *testing.T) {
	var r Response
	r.SetBodyStreamWriter(func(w *bufio.Writer) {
		w.WriteString("some ")
		w.WriteString("data")
	})
	if got := r.String(); !strings.HasSuffix(got, "\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nsome data\r\n0\r\n\r\n") {
		t.Errorf("%q", got)
	}
	if r.streamWriter != nil {
		t.Error("streamWriter is still set")
	}
	var q Request
	q.SetBodyString("old")
	r.SetBodyString("old")
	q.Header.SetContentLength(3)
	r.Header.SetContentLength(3)
	q.SetBodyStreamWriter(func(w *bufio.Writer) { w.WriteString("data") })
	r.SetBodyStreamWriter(func(w *bufio.Writer) {})
	if q.Header.ContentLength() != -1 || r.Header.ContentLength() != -1 || len(q.bodyBytes())+len(r.bodyBytes()) > 0 {
		t.Errorf("lengths %d and %d, %q and %q remain", q.Header.ContentLength(), r.Header.ContentLength(), q.bodyBytes(), r.bodyBytes())
	}
	if r := q.BodyStream(); r == nil || q.streamWriter != nil {
		t.Error("a stream that was handed out may still be written in place")
	}
	if got := string(q.Body()); got != "data" {
		t.Errorf("%q", got)
	}
}
