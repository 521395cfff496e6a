package sluice

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"runtime"
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

func TestBodySettersReplaceEachOther(t *testing.T) {
	setters := map[string]func(r *Response){
		"SetBody":       func(r *Response) { r.SetBody([]byte("body")) },
		"SetBodyString": func(r *Response) { r.SetBodyString("body") },
		"SetBodyRaw":    func(r *Response) { r.SetBodyRaw([]byte("body")) },
		"SetBodyStream": func(r *Response) { r.SetBodyStream(strings.NewReader("body"), 4) },
		"SwapBody":      func(r *Response) { r.SwapBody([]byte("body")) },
	}
	for first, setFirst := range setters {
		for second, setSecond := range setters {
			var r Response
			r.SetBodyString("something longer before")
			setFirst(&r)
			setSecond(&r)
			if got := string(r.Body()); got != "body" {
				t.Errorf("%s, %s: body %q", first, second, got)
			}
			r.ResetBody()
			if len(r.Body()) != 0 || r.IsBodyStream() {
				t.Errorf("%s, %s: not empty after ResetBody", first, second)
			}
		}
	}
}

func TestAppendBody(t *testing.T) {
	raw := []byte("raw")
	for name, test := range map[string]struct {
		set  func(r *Request)
		want string
	}{
		"nothing":  {func(*Request) {}, "+++"},
		"buffered": {func(r *Request) { r.SetBodyString("a") }, "a+++"},
		"raw":      {func(r *Request) { r.SetBodyRaw(raw) }, "raw+++"},
		"stream":   {func(r *Request) { r.SetBodyStream(streamOf("s"), 1) }, "+++"},
	} {
		var r Request
		test.set(&r)
		r.AppendBody([]byte("+"))
		r.AppendBodyString("+")
		io.WriteString(r.BodyWriter(), "+")
		if got := string(r.Body()); got != test.want || r.IsBodyStream() {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	if string(raw) != "raw" {
		t.Errorf("the borrowed body became %q", raw)
	}
}

func TestSwapBodyHandsOverOwnership(t *testing.T) {
	for name, set := range map[string]func(r *Response){
		"buffered": func(r *Response) { r.SetBodyString("old") },
		"raw":      func(r *Response) { r.SetBodyRaw([]byte("old")) },
		"stream":   func(r *Response) { r.SetBodyStream(streamOf("old"), -1) },
	} {
		var r Response
		set(&r)
		old := r.SwapBody([]byte("new"))
		r.AppendBodyString("!")
		if string(old) != "old" || string(r.Body()) != "new!" {
			t.Errorf("%s: old %q, new %q", name, old, r.Body())
		}
	}
	raw := []byte("raw")
	r := new(Response)
	r.SetBodyRaw(raw)
	if old := r.SwapBody(nil); &old[0] == &raw[0] {
		t.Error("the memory of SetBodyRaw is handed over")
	}
}

func TestBodyOfAStream(t *testing.T) {
	var r Response
	s := streamOf("streamed")
	r.SetBodyStream(s, -1)
	if !r.IsBodyStream() || r.BodyStream() != io.Reader(s) {
		t.Fatal("no stream")
	}
	if got := string(r.Body()); got != "streamed" || r.IsBodyStream() || s.closed != 1 {
		t.Errorf("body %q, stream %v, closed %d times", got, r.IsBodyStream(), s.closed)
	}
	if got := string(r.Body()); got != "streamed" {
		t.Errorf("second Body: %q", got)
	}
	r.SetBodyStream(iotest.ErrReader(errors.New("boom")), -1)
	if got := string(r.Body()); got != "boom" {
		t.Errorf("the error's text is not the body but %q", got)
	}
}

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

func TestStreamsAreClosedOnce(t *testing.T) {
	for name, end := range map[string]func(r *Response){
		"CloseBodyStream": func(r *Response) { r.CloseBodyStream() },
		"ResetBody":       func(r *Response) { r.ResetBody() },
		"Reset":           func(r *Response) { r.Reset() },
		"Release":         func(r *Response) { ReleaseResponse(r) },
		"SetBody":         func(r *Response) { r.SetBodyString("x") },
		"SetBodyRaw":      func(r *Response) { r.SetBodyRaw([]byte("x")) },
		"AppendBody":      func(r *Response) { r.AppendBodyString("x") },
		"SetBodyStream":   func(r *Response) { r.SetBodyStream(strings.NewReader("y"), -1) },
		"SwapBody":        func(r *Response) { r.SwapBody(nil) },
		"a StreamWriter":  func(r *Response) { r.SetBodyStreamWriter(func(*bufio.Writer) {}) },
		"Body":            func(r *Response) { r.Body() },
		"BodyWriteTo":     func(r *Response) { r.BodyWriteTo(io.Discard) },
		"CopyTo it":       func(r *Response) { new(Response).CopyTo(r) },
		"String":          func(r *Response) { _ = r.String() },
		"SkipBody":        func(r *Response) { r.SkipBody = true; _ = r.String() },
		"204":             func(r *Response) { r.SetStatusCode(204); _ = r.String() },
		"205":             func(r *Response) { r.SetStatusCode(205); _ = r.String() },
	} {
		r := new(Response)
		s := streamOf("stream")
		r.SetBodyStream(s, 6)
		end(r)
		if s.closed != 1 {
			t.Errorf("%s: closed %d times", name, s.closed)
		}
	}
}

func TestCloseBodyStreamReturnsTheError(t *testing.T) {
	boom := errors.New("boom")
	var r Request
	r.SetBodyStream(&trackedStream{Reader: strings.NewReader(""), err: boom}, -1)
	if err := r.CloseBodyStream(); err != boom {
		t.Errorf("err = %v", err)
	}
	if err := r.CloseBodyStream(); err != nil {
		t.Errorf("second: err = %v", err)
	}
}

func TestBodyWriteTo(t *testing.T) {
	for name, set := range map[string]func(r *Request){
		"buffered": func(r *Request) { r.SetBodyString("body") },
		"raw":      func(r *Request) { r.SetBodyRaw([]byte("body")) },
		"stream":   func(r *Request) { r.SetBodyStream(streamOf("body"), -1) },
		"writer to": func(r *Request) {
			r.SetBodyStream(&optOut{Reader: strings.NewReader("body")}, -1)
		},
	} {
		var r Request
		set(&r)
		var out bytes.Buffer
		if err := r.BodyWriteTo(&out); err != nil || out.String() != "body" {
			t.Errorf("%s: %q, %v", name, out.String(), err)
		}
	}
}

// An error of the stream's Close is that of BodyWriteTo.
func TestBodyWriteToReturnsTheErrorOfClose(t *testing.T) {
	failure := errors.New("close failed")
	var r Request
	r.SetBodyStream(&trackedStream{Reader: strings.NewReader("body"), err: failure}, -1)
	var out bytes.Buffer
	if err := r.BodyWriteTo(&out); !errors.Is(err, failure) || out.String() != "body" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// optOut has a WriteTo that must not be used.
type optOut struct{ *strings.Reader }

func (*optOut) SupportsBodyWriteTo() bool { return false }
func (*optOut) WriteTo(io.Writer) (int64, error) {
	return 0, errors.New("WriteTo was used against the stream's will")
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

// allocated returns how much f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
