package stackless

import (
	"errors"
	"io"
)

// Writer is what NewWriter runs and returns. The callers of NewWriter implement
// it. The writers of packages compress/flate, compress/gzip and compress/zlib
// are Writers.
type Writer interface {
	// Write writes p. It may buffer its output until Flush or Close. It must
	// not retain p.
	Write(p []byte) (int, error)
	// Flush passes on all output of what was written so far.
	Flush() error
	// Close passes on the remaining output and ends it.
	Close() error
	// Reset restores the initial state of the Writer, with the destination w.
	Reset(w io.Writer)
}

// NewWriterFunc makes a Writer that writes to w. NewWriter calls it.
type NewWriterFunc func(w io.Writer) Writer

// ErrOverloaded is returned by Write, Flush and Close of a Writer if too many
// calls are waiting. Nothing was written then.
var ErrOverloaded = errors.New("stackless: too many writers are at work")

// NewWriter returns a Writer that wraps the one that newWriter makes. It runs
// the methods of the wrapped Writer on a bounded set of goroutines, which all
// Writers share. Their output is collected in memory and written to dstW on the
// caller's goroutine, so a slow dstW does not delay other Writers. The errors of
// both are returned.
//
// Use the Writer from one goroutine at a time. The wrapped Writer should only
// compute: if it blocks, it delays other Writers. If it panics, the method
// panics in its caller.
func NewWriter(dstW io.Writer, newWriter NewWriterFunc) Writer {
	w := &writer{to: dstW}
	w.inner = newWriter(&w.out)
	return w
}

// writers runs the operations of all Writers. One set of goroutines for each
// Writer would not bound their number.
var writers = newRunner(runWriter)

// writer implements the Writer of NewWriter.
type writer struct {
	to    io.Writer
	inner Writer
	out   output
	// The following fields belong to the current call.
	operation operation
	p         []byte
	n         int
	err       error
}

type operation uint8

const (
	opWrite operation = iota
	opFlush
	opClose
	opReset
)

// Write implements Writer.
func (w *writer) Write(p []byte) (int, error) {
	w.p = p
	err := w.do(opWrite)
	w.p = nil
	return w.n, err
}

// Flush implements Writer.
func (w *writer) Flush() error { return w.do(opFlush) }

// Close implements Writer.
func (w *writer) Close() error { return w.do(opClose) }

// Reset implements Writer: it restores the initial state of w, with the
// destination dstW. If the shared goroutines are overloaded, it runs on the
// caller's goroutine, because it cannot return an error.
func (w *writer) Reset(dstW io.Writer) {
	w.out = w.out[:0]
	if err := w.do(opReset); errors.Is(err, ErrOverloaded) {
		w.inner.Reset(&w.out)
	}
	w.out = w.out[:0]
	w.to = dstW
}

// do runs an operation on a shared goroutine, and writes its output to w.to on
// the caller's goroutine.
func (w *writer) do(op operation) error {
	w.operation, w.n, w.err = op, 0, nil
	if !writers.run(w) {
		return ErrOverloaded
	}
	if op == opReset {
		return nil
	}
	if len(w.out) > 0 {
		n, err := w.to.Write(w.out)
		if err == nil && n < len(w.out) {
			err = io.ErrShortWrite
		}
		w.out = w.out[:0]
		if w.err == nil {
			w.err = err
		}
	}
	return w.err
}

// runWriter executes the operation of a *writer.
func runWriter(ctx any) {
	w := ctx.(*writer)
	switch w.operation {
	case opWrite:
		w.n, w.err = w.inner.Write(w.p)
	case opFlush:
		w.err = w.inner.Flush()
	case opClose:
		w.err = w.inner.Close()
	case opReset:
		w.inner.Reset(&w.out)
	}
}

// output is an io.Writer that collects what is written to it.
type output []byte

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	*o = append(*o, p...)
	return len(p), nil
}
