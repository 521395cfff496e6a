package harness

import (
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"sync/atomic"
)

type WriterFunc func([]byte) (int, error)

func (f WriterFunc) Write(p []byte) (int, error) { return f(p) }

// PlainReader hides every method but Read.
func PlainReader(s string) io.Reader { return struct{ io.Reader }{strings.NewReader(s)} }

// WriterTo counts how it is read.
type WriterTo struct {
	Text             string
	Supports         bool
	Reads, WritesTos int
}

func (w *WriterTo) SupportsBodyWriteTo() bool { return w.Supports }

func (w *WriterTo) Read(p []byte) (int, error) {
	w.Reads++
	n := copy(p, w.Text)
	w.Text = w.Text[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (w *WriterTo) WriteTo(dst io.Writer) (int64, error) {
	w.WritesTos++
	for _, part := range strings.SplitAfter(w.Text, ",") {
		if _, err := io.WriteString(dst, part); err != nil {
			return 0, err
		}
	}
	return int64(len(w.Text)), nil
}

// FlushRecorder notes how much was written at each time it was written to.
type FlushRecorder struct{ Writes []string }

func (f *FlushRecorder) Write(p []byte) (int, error) {
	f.Writes = append(f.Writes, string(p))
	return len(p), nil
}

type ReaderFunc func(p []byte) (int, error)

func (f ReaderFunc) Read(p []byte) (int, error) { return f(p) }

// TrackedStream is a body stream that records how it was closed.
type TrackedStream struct {
	io.Reader
	Closed int
	Err    error
}

func (s *TrackedStream) Close() error {
	s.Closed++
	return s.Err
}

func StreamOf(s string) *TrackedStream { return &TrackedStream{Reader: strings.NewReader(s)} }

// Assigned returns a copy by assignment, which go vet would refuse.
func Assigned[T any](v *T) *T {
	dup := new(T)
	reflect.ValueOf(dup).Elem().Set(reflect.ValueOf(v).Elem())
	return dup
}

// CloserFunc is an io.Closer.
type CloserFunc func()

func (f CloserFunc) Close() error { f(); return nil }

// CloseCounter is a stream that notices how it is closed.
type CloseCounter struct {
	io.Reader
	Closed *atomic.Int32
}

func (c CloseCounter) Close() error {
	c.Closed.Add(1)
	return nil
}

var ErrWire = errors.New("the wire is cut")

// CutWriter takes left bytes and then fails once: an error that is forgotten is
// not replaced by the next one.
type CutWriter struct {
	Left   int
	Failed bool
}

func (w *CutWriter) Write(p []byte) (int, error) {
	if len(p) > w.Left {
		n := w.Left
		w.Failed, w.Left = true, math.MaxInt
		return n, ErrWire
	}
	w.Left -= len(p)
	return len(p), nil
}
