package sluice

import (
	"bufio"
	"io"

	"github.com/sluicehttp/sluice/internal/bodypipe"
	"github.com/sluicehttp/sluice/internal/message"
)

// A StreamWriter writes a body to w, usually over a longer time. w is buffered:
// call w.Flush to send what was written. A StreamWriter must return as soon as
// w returns an error, which means that nothing reads the body any more.
type StreamWriter func(w *bufio.Writer)

// NewStreamReader runs sw in a new goroutine and returns a reader of the bytes
// that sw writes. sw blocks while it is 128 KiB ahead of the reader. If sw
// panics, Read returns the panic as *ErrBodyStreamWritePanic.
//
// The reader is an io.WriterTo. Close it, or sw may block for ever. After
// Close, Read still returns the bytes that sw had written, and then io.EOF.
// Close may be called concurrently with Read.
func NewStreamReader(sw StreamWriter) io.ReadCloser {
	return bodypipe.Start(sw, message.StreamPanic)
}

// NewBoundedStreamReader is NewStreamReader, whose readers are all bounded: sw
// is at most 160 KiB ahead of the bytes that the reader has passed on.
func NewBoundedStreamReader(sw StreamWriter) io.ReadCloser { return NewStreamReader(sw) }
