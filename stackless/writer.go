package stackless

import (
	"errors"
	"io"
)

// Writer is what NewWriter runs and returns. The writers of packages
// compress/flate, compress/gzip and compress/zlib are Writers. Those who call
// NewWriter implement it.
type Writer interface {
	// Write takes p, and may keep what comes of it until Flush or Close.
	Write(p []byte) (int, error)
	// Flush passes on what was written so far.
	Flush() error
	// Close passes on what was written, and ends it.
	Close() error
	// Reset makes the Writer as new, writing to w.
	Reset(w io.Writer)
}

// NewWriterFunc makes a Writer that writes to w. NewWriter calls it.
type NewWriterFunc func(w io.Writer) Writer

// ErrOverloaded is returned by a Writer's methods when too many writers are at
// work; nothing was written then.
var ErrOverloaded = errors.New("stackless: too many writers are at work")

// NewWriter returns a Writer that runs the methods of the one that newWriter
// makes on a bounded set of goroutines, which all Writers share.
// What that writes is collected in memory and goes to dstW on the caller's
// goroutine, so a slow dstW holds nobody else up. Its errors are returned.
//
// Use it from one goroutine at a time, and with Writers that compute: one that
// waits keeps others from running. A panic of the Writer is one of the caller.
func NewWriter(dstW io.Writer, newWriter NewWriterFunc) Writer {
	w := &writer{to: dstW}
	w.inner = newWriter(&w.out)
	return w
}

// writers runs the operations of all Writers: a set for each would bound
// nothing.
var writers = newRunner(runWriter)

// writer implements the Writer of NewWriter.
type writer struct {
	to    io.Writer
	inner Writer
	out   output
	// What follows is for the call that is being made.
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

// Reset implements Writer: it makes w write to dstW from its start again. It
// runs on the caller's goroutine if the others are overloaded, for it cannot
// fail.
func (w *writer) Reset(dstW io.Writer) {
	w.out = w.out[:0]
	if err := w.do(opReset); errors.Is(err, ErrOverloaded) {
		w.inner.Reset(&w.out)
	}
	w.out = w.out[:0]
	w.to = dstW
}

// do runs an operation elsewhere, and writes here what came of it.
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

// output collects what is written.
type output []byte

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	*o = append(*o, p...)
	return len(p), nil
}
