package message_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/test/harness"
)

type panickingStream struct{ v any }

func (s panickingStream) Read([]byte) (int, error) { panic(s.v) }

func TestAPanicOfAStreamIsAnError(t *testing.T) {
	boom := errors.New("boom")
	for _, size := range []int{-1, 10} {
		for _, v := range []any{"text", boom} {
			var r sluice.Response
			r.SetBodyStream(panickingStream{v}, size)
			err := r.Write(bufio.NewWriter(io.Discard))
			var panicked *sluice.ErrBodyStreamWritePanic
			if !errors.As(err, &panicked) {
				t.Fatalf("err = %v", err)
			}
			if v == any(boom) && !errors.Is(err, boom) {
				t.Errorf("%v does not wrap the panic's error", err)
			}
		}
	}
}

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

func TestStreamsAreToldWhyTheyAreClosed(t *testing.T) {
	boom := errors.New("boom")
	s := &toldStream{Reader: iotest.ErrReader(boom)}
	var r sluice.Response
	r.SetBodyStream(s, -1)
	if err := r.Write(bufio.NewWriter(io.Discard)); err != boom {
		t.Errorf("err = %v", err)
	}
	if len(s.told) != 1 || s.told[0] != boom || s.closed != 1 {
		t.Errorf("told %v, closed %d times", s.told, s.closed)
	}
	ok := &toldStream{Reader: strings.NewReader("x")}
	r.SetBodyStream(ok, 1)
	_ = r.String()
	if len(ok.told) != 1 || ok.told[0] != nil || ok.closed != 1 {
		t.Errorf("told %v, closed %d times", ok.told, ok.closed)
	}
}

// closingStream does when it is closed what its function does.
type closingStream struct {
	io.Reader
	close func() error
}

func (s closingStream) Close() error { return s.close() }

func TestBodyIsWhatWasRead(t *testing.T) {
	var r sluice.Response
	set := func() {
		r.SetBodyStream(closingStream{strings.NewReader("all"), func() error { return errors.New("boom") }}, 3)
	}
	set()
	if got := string(r.Body()); got != "all" {
		t.Errorf("Body: %q", got)
	}
	set()
	if got := string(r.SwapBody(nil)); got != "all" {
		t.Errorf("SwapBody: %q", got)
	}
}

func TestAPanicOfCloseIsAnError(t *testing.T) {
	boom := errors.New("boom")
	for name, write := range map[string]func(stream io.Reader, size int) error{
		"response": func(stream io.Reader, size int) error {
			var r sluice.Response
			r.SetBodyStream(stream, size)
			return r.Write(bufio.NewWriter(io.Discard))
		},
		"response without its body": func(stream io.Reader, size int) error {
			r := sluice.Response{SkipBody: true}
			r.SetBodyStream(stream, size)
			return r.Write(bufio.NewWriter(io.Discard))
		},
		"request": func(stream io.Reader, size int) error {
			var r sluice.Request
			r.SetRequestURI("http://h/")
			r.SetBodyStream(stream, size)
			return r.Write(bufio.NewWriter(io.Discard))
		},
	} {
		for _, size := range []int{-1, 3, 5} {
			err := write(closingStream{strings.NewReader("all"), func() error { panic(boom) }}, size)
			var known *sluice.ErrBodyStreamWritePanic
			if !errors.As(err, &known) || !errors.Is(err, boom) {
				t.Errorf("%s, size %d: %v", name, size, err)
			}
		}
	}
}

func TestWriteToIsUsedWhereAllowed(t *testing.T) {
	for _, supports := range []bool{false, true} {
		s := &harness.WriterTo{Text: "a,bb,", Supports: supports}
		var r sluice.Response
		r.SetBodyStream(s, -1)
		_, content, _ := strings.Cut(r.String(), "\r\n\r\n")
		want := "5\r\na,bb,\r\n0\r\n\r\n"
		if supports {
			want = "2\r\na,\r\n3\r\nbb,\r\n0\r\n\r\n"
		}
		if content != want || s.WritesTos > 0 != supports || s.Reads > 0 == supports {
			t.Errorf("supports %v: %q, %d reads, %d WriteTos", supports, content, s.Reads, s.WritesTos)
		}
	}
	for _, s := range []io.Reader{bytes.NewReader([]byte("one")), bytes.NewBufferString("one")} {
		var r sluice.Response
		r.SetBodyStream(s, -1)
		if got := r.String(); !strings.HasSuffix(got, "\r\n\r\n3\r\none\r\n0\r\n\r\n") {
			t.Errorf("%T: %q", s, got)
		}
	}
}

// plainWriterTo is a WriterTo that was not asked whether it may be used.
type plainWriterTo struct{ w *harness.WriterTo }

func (p plainWriterTo) Read(b []byte) (int, error) { return p.w.Read(b) }

func (p plainWriterTo) WriteTo(dst io.Writer) (n int64, err error) { return p.w.WriteTo(dst) }

// TestWriteToOnce: of a stream that can write itself, WriteTo is called once and
// Read never, unless it says no, or is a plain WriterTo of unknown length.
func TestWriteToOnce(t *testing.T) {
	text := strings.Repeat("a,bb,", 100)
	plain := func(r *sluice.Response) string {
		_, content, _ := strings.Cut(r.String(), "\r\n\r\n")
		return content
	}
	for name, use := range map[string]func(r *sluice.Response, s io.Reader) string{
		"Body":       func(r *sluice.Response, s io.Reader) string { r.SetBodyStream(s, -1); return string(r.Body()) },
		"SwapBody":   func(r *sluice.Response, s io.Reader) string { r.SetBodyStream(s, -1); return string(r.SwapBody(nil)) },
		"Write":      func(r *sluice.Response, s io.Reader) string { r.SetBodyStream(s, len(text)); return plain(r) },
		"Write less": func(r *sluice.Response, s io.Reader) string { r.SetBodyStream(s, 7); return plain(r) },
		"WriteGzip": func(r *sluice.Response, s io.Reader) string {
			r.SetBodyStream(s, -1)
			var out bytes.Buffer
			w := bufio.NewWriter(&out)
			if err := r.WriteGzip(w); err != nil {
				return err.Error()
			}
			_ = w.Flush()
			var back sluice.Response
			if err := back.Read(bufio.NewReader(&out)); err != nil {
				return err.Error()
			}
			body, err := back.BodyGunzip()
			return string(body) + errorText(err)
		},
	} {
		for _, kind := range []string{"plain", "yes", "no"} {
			s := &harness.WriterTo{Text: text, Supports: kind == "yes"}
			stream, want, isWritten := io.Reader(s), text, kind != "no"
			if kind == "plain" {
				stream = plainWriterTo{s}
			}
			if name == "Write less" {
				want = text[:7]
			}
			if got := use(new(sluice.Response), stream); got != want {
				t.Errorf("%s, %s: %.30q", name, kind, got)
			}
			if isWritten && (s.WritesTos != 1 || s.Reads != 0) || !isWritten && s.WritesTos != 0 {
				t.Errorf("%s, %s: %d reads, %d WriteTos", name, kind, s.Reads, s.WritesTos)
			}
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestWritingASizedStreamAllocatesNothing(t *testing.T) {
	content := make([]byte, 100_000)
	memory := bytes.NewReader(content)
	plain := &bytes.Reader{}
	var r sluice.Response
	var q sluice.Request
	q.SetRequestURI("http://host/path?query")
	q.Header.SetMethod("POST")
	w := bufio.NewWriterSize(io.Discard, 4096)
	onlyRead := struct{ io.Reader }{plain}
	readers := [2]io.Reader{memory, &onlyRead}
	n := testing.AllocsPerRun(200, func() {
		for _, stream := range readers {
			memory.Reset(content)
			plain.Reset(content)
			r.SetBodyStream(stream, len(content))
			r.Write(w)
			memory.Reset(content)
			plain.Reset(content)
			q.SetBodyStream(stream, len(content))
			q.Write(w)
		}
	})
	if n != 0 && !invariants.Enabled {
		t.Errorf("%v allocations", n)
	}
}

func TestAStreamOfUnknownLengthIsFlushedAsItComes(t *testing.T) {
	var r sluice.Response
	var out harness.FlushRecorder
	reads := 0
	r.SetBodyStream(harness.ReaderFunc(func(p []byte) (int, error) {
		if reads++; reads == 3 {
			return 0, io.EOF
		}
		if got := len(out.Writes); got != reads-1 {
			t.Errorf("read %d: %d writes before", reads, got)
		}
		return copy(p, "part"), nil
	}), -1)
	w := bufio.NewWriter(&out)
	if err := r.Write(w); err != nil {
		t.Fatal(err)
	}
}

// TestWhatWriteFlushes: a body of known length is flushed, chunks from memory are not.
func TestWhatWriteFlushes(t *testing.T) {
	for size, isFlushed := range map[int]bool{4: true, -1: false} {
		var r sluice.Response
		var out harness.FlushRecorder
		r.SetBodyStream(bytes.NewReader([]byte("body")), size)
		w := bufio.NewWriter(&out)
		if err := r.Write(w); err != nil || (w.Buffered() == 0) != isFlushed {
			t.Errorf("size %d: %d bytes are buffered, %v", size, w.Buffered(), err)
		}
	}
}

// TestHeadsThatMayWait: a request's head is not held back by a stream that may wait for
// long, and is sent together with one that does not.
func TestHeadsThatMayWait(t *testing.T) {
	for s, mayWait := range map[io.Reader]bool{
		bytes.NewReader([]byte("ab")): false, bytes.NewBufferString("ab"): false, strings.NewReader("ab"): false, harness.PlainReader("ab"): true,
	} {
		var q sluice.Request
		var out harness.FlushRecorder
		post(&q)
		q.SetBodyStream(s, 2)
		if err := q.Write(bufio.NewWriter(&out)); err != nil || strings.HasSuffix(out.Writes[0], "\r\n\r\n") != mayWait {
			t.Errorf("%T: %q, %v", s, out.Writes, err)
		}
	}
}

func TestImmediateHeaderFlush(t *testing.T) {
	for _, immediate := range []bool{false, true} {
		var r sluice.Response
		var out harness.FlushRecorder
		r.ImmediateHeaderFlush = immediate
		r.SetBodyStream(harness.ReaderFunc(func([]byte) (int, error) {
			if wrote := len(out.Writes) == 1; wrote != immediate {
				t.Errorf("immediate %v: head written %v", immediate, wrote)
			}
			return 0, io.EOF
		}), -1)
		w := bufio.NewWriter(&out)
		if err := errors.Join(r.Write(w), w.Flush()); err != nil || !strings.HasSuffix(strings.Join(out.Writes, ""), "\r\n\r\n0\r\n\r\n") {
			t.Errorf("immediate %v: %q, %v", immediate, out.Writes, err)
		}
	}
}

func TestMemoryFollowsWhatArrives(t *testing.T) {
	// An int of 32 bits cannot hold more; see tooLong.
	const announced = math.MaxInt32 - 1
	for name, in := range map[string]string{
		"request":  "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2147483646\r\n\r\nab",
		"response": "HTTP/1.1 200 OK\r\nContent-Length: 2147483646\r\n\r\nab",
		"chunk":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7ffffffe\r\nab",
	} {
		br := bufio.NewReader(strings.NewReader(in))
		var err error
		n := allocated(func() {
			if name == "request" {
				err = new(sluice.Request).Read(br)
			} else {
				err = new(sluice.Response).Read(br)
			}
		})
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: err = %v", name, err)
		}
		if n > 1<<20 {
			t.Errorf("%s: %d bytes allocated for %d announced and 2 received", name, n, announced)
		}
	}
}

// TestLengthOfAHeaderIsThatOfTheStream: a Content-Length that is set after a body stream of unknown
// length is its length, in both kinds of messages. A length that is known stays.
func TestLengthOfAHeaderIsThatOfTheStream(t *testing.T) {
	for length, want := range map[int]string{
		7:  "\r\nContent-Length: 7\r\n\r\n1234567",
		5:  "\r\nContent-Length: 5\r\n\r\n12345",
		9:  "\r\nContent-Length: 9\r\n\r\n1234567",
		0:  "\r\nContent-Length: 0\r\n\r\n",
		-1: "\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n1234567\r\n0\r\n\r\n",
	} {
		var req sluice.Request
		req.SetRequestURI("http://h/")
		req.Header.SetMethod("POST")
		req.SetBodyStream(harness.PlainReader("1234567"), -1)
		req.Header.SetContentLength(length)
		var resp sluice.Response
		resp.SetBodyStreamWriter(func(w *bufio.Writer) { _, _ = w.WriteString("1234567") })
		resp.Header.SetContentLength(length)
		var sized sluice.Response
		sized.SetBodyStream(harness.PlainReader("1234567"), 7)
		sized.Header.SetContentLength(length)
		if got := sized.String(); !strings.HasSuffix(got, "\r\nContent-Length: 7\r\n\r\n1234567") {
			t.Errorf("response of known length, %d: %q", length, got)
		}
		for name, m := range map[string]interface{ Write(*bufio.Writer) error }{"request": &req, "response": &resp} {
			var out bytes.Buffer
			w := bufio.NewWriter(&out)
			err := m.Write(w)
			_ = w.Flush()
			if errors.Is(err, io.ErrUnexpectedEOF) != (length == 9) || !strings.HasSuffix(out.String(), want) {
				t.Errorf("%s of %d: %q, %v", name, length, out.String(), err)
			}
		}
	}
}
