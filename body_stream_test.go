package sluice

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/transfer"
)

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
	if r.writer != (transfer.StreamWriter{}) {
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
