package sluice

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strings"

	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/message"
)

// BodyWriterTo lets a body stream decide whether its WriteTo may replace Read.
// Body streams implement it; the code that writes messages calls it.
//
// SupportsBodyWriteTo must return true only if WriteTo and Read have the same
// observable effects, such as pacing and counting. If a stream is only an
// io.WriterTo, its WriteTo is used when the length of the body is known, and
// when the body is collected or compressed. A type that embeds a reader and
// overrides Read inherits the reader's WriteTo; it should implement this
// interface to disable that method.
type BodyWriterTo interface {
	io.WriterTo
	// SupportsBodyWriteTo reports whether WriteTo may replace Read.
	SupportsBodyWriteTo() bool
}

// ReadCloserWithError is a body stream that receives the reason why it is
// closed. The code that writes a message closes its stream with the error that
// ended the writing, nil if there was none. If the stream is also an io.Closer,
// Close is called first.
type ReadCloserWithError interface {
	io.Reader
	// CloseWithError closes the stream because of err.
	CloseWithError(err error) error
}

// BodyStream returns the body stream, nil if the body is not a stream. The
// message owns the stream and closes it when the message is reset, released or
// given another body; CloseBodyStream closes it earlier. After MultipartForm
// has read the stream, BodyStream returns the form, encoded again.
func (b *messageBody) BodyStream() io.Reader {
	if b.form != nil && b.form.isBody {
		return b.form.stream(b)
	}
	return b.takeStream()
}

// IsBodyStream reports whether the body is a stream that was not read yet. A
// stream that only MultipartForm has read still counts.
func (b *messageBody) IsBodyStream() bool { return b.stream != nil || b.form != nil && b.form.isBody }

// CloseBodyStream closes the body stream, if there is one and it is an
// io.Closer or a ReadCloserWithError. The body is then empty.
func (b *messageBody) CloseBodyStream() error { return b.closeStream(nil) }

// streamed returns the body stream, nil if there is none, for a look at it. Who reads it calls
// takeStream.
func (b *messageBody) streamed() io.Reader { return b.stream }

// inPlace returns the function that produces the stream, nil if there is none.
func (b *messageBody) inPlace() StreamWriter { return b.streamWriter }

// bodyLength returns the length of the body, < 0 if it is unknown.
func (b *messageBody) bodyLength() int {
	if b.stream != nil {
		return b.streamSize
	}
	return len(b.bodyBytes())
}

// setStream makes s the body. The caller has cleared the body.
func (b *messageBody) setStream(s io.Reader, size int) {
	b.stream, b.streamSize, b.hasOthers = s, size, true
}

// setStreamWriter makes the output of sw the body. The caller has cleared the
// body. stray, which may be nil, is counted down when sw has returned.
func (b *messageBody) setStreamWriter(sw StreamWriter, stray *int32) {
	s := &body.FuncStream{Write: sw, Panicked: message.StreamPanic, Stray: stray}
	b.setStream(s, -1)
	b.streamWriter = s.WriteInPlace
}

// settleLength gives a stream of unknown length that of h, the header of the message, if it was
// set after the stream.
func (b *messageBody) settleLength(h *message.Header) {
	if b.stream != nil && b.streamSize < 0 && h.HasLength {
		b.streamSize = h.ContentLength
	}
}

// takeStream returns the stream for a caller that will read it.
func (b *messageBody) takeStream() io.Reader {
	b.streamWriter = nil
	return b.stream
}

// closeStream closes the stream, if there is one, because of err, which may be
// nil, and returns the first error.
func (b *messageBody) closeStream(err error) error {
	s := b.stream
	if s == nil {
		return err
	}
	b.leaveStream()
	return body.Close(s, err)
}

// leaveStream makes the body, which is a stream, empty. The stream is another one's to close.
func (b *messageBody) leaveStream() { b.stream, b.streamWriter, b.streamSize = nil, nil, 0 }

// endStream is closeStream at the end of writing the message. It returns a
// panic of Close as an error, as a panic of Read is. The first panic counts.
func (b *messageBody) endStream(err error) (first error) {
	defer func() {
		if v := recover(); v != nil {
			if _, hasPanicked := err.(*ErrBodyStreamWritePanic); !hasPanicked {
				err = message.StreamPanic(v)
			}
			first = err
		}
	}()
	return b.closeStream(err)
}

// bufferStream reads the stream into bytes and closes it. It ignores errors of
// closing: all bytes were read.
func (b *messageBody) bufferStream() error {
	if b.limit > 0 && b.streamSize > b.limit {
		return b.closeStream(ErrBodyTooLarge)
	}
	b.hold()
	m := b.memory
	content, err := body.AppendStream(m.bytes[:0], b.takeStream(), b.limit)
	m.bytes = content
	_ = b.closeStream(err)
	return err
}

// writeStream writes the stream as the body of a message and closes it. length
// is that of message.Framing; h has the trailers.
func (b *messageBody) writeStream(w *bufio.Writer, length int64, h *message.Header) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = message.StreamPanic(v)
		}
		err = b.endStream(err)
	}()
	return b.writer.WriteStream(w, b.takeStream(), length, int64(b.streamSize), h)
}

// mayWait reports whether reading a stream may block.
func mayWait(stream io.Reader) bool {
	switch stream.(type) {
	case *bytes.Reader, *bytes.Buffer, *strings.Reader, *os.File:
		return false
	}
	return true
}

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
	return body.StartPipe(sw, message.StreamPanic)
}

// NewBoundedStreamReader is NewStreamReader, whose readers are all bounded: sw
// is at most 160 KiB ahead of the bytes that the reader has passed on.
func NewBoundedStreamReader(sw StreamWriter) io.ReadCloser { return NewStreamReader(sw) }
