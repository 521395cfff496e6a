package sluice

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/sluicehttp/sluice/internal/ascii"
	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/h1"
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
	// SupportsBodyWriteTo tells whether WriteTo may replace Read.
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

// streamCopySize is the size of one read from a stream.
const streamCopySize = 32 << 10

// BodyStream returns the body stream, nil if the body is not a stream. The
// message owns the stream and closes it when the message is reset, released or
// given another body; CloseBodyStream closes it earlier. After MultipartForm
// has read the stream, BodyStream returns the form, encoded again.
func (b *body) BodyStream() io.Reader {
	if b.form != nil && b.form.isBody {
		return b.form.stream(b)
	}
	return b.takeStream()
}

// IsBodyStream reports whether the body is a stream that was not read yet. A
// stream that only MultipartForm has read still counts.
func (b *body) IsBodyStream() bool { return b.stream != nil || b.form != nil && b.form.isBody }

// CloseBodyStream closes the body stream, if there is one and it is an
// io.Closer or a ReadCloserWithError. The body is then empty.
func (b *body) CloseBodyStream() error {
	if b.stream == nil {
		return nil
	}
	return b.closeStream(nil)
}

// setStream makes s the body. The caller has cleared the body.
func (b *body) setStream(s io.Reader, size int) {
	b.stream, b.streamSize = s, size
}

// setStreamWriter makes the output of sw the body. The caller has cleared the
// body.
func (b *body) setStreamWriter(sw StreamWriter) {
	s := &writerStream{write: sw}
	b.setStream(s, -1)
	b.streamWriter = s.writeInPlace
}

// takeStream returns the stream for a caller that will read it.
func (b *body) takeStream() io.Reader {
	b.streamWriter = nil
	return b.stream
}

// closeStream closes the stream because of err, which may be nil, and returns
// the first error.
func (b *body) closeStream(err error) error {
	s := b.stream
	b.stream, b.streamWriter = nil, nil
	b.streamSize = 0
	var closeErr, toldErr error
	if s, ok := s.(io.Closer); ok {
		closeErr = s.Close()
	}
	if s, ok := s.(ReadCloserWithError); ok {
		toldErr = s.CloseWithError(err)
	}
	return cmp.Or(err, closeErr, toldErr)
}

// endStream is closeStream at the end of writing the message. It returns a
// panic of Close as an error, as a panic of Read is.
func (b *body) endStream(err error) (first error) {
	defer func() {
		if v := recover(); v != nil {
			first = cmp.Or[error](err, &ErrBodyStreamWritePanic{cause: panicError(v)})
		}
	}()
	return b.closeStream(err)
}

// bufferStream reads the stream into bytes and closes it. It ignores errors of
// closing: all bytes were read.
func (b *body) bufferStream() error {
	if b.limit > 0 && b.streamSize > b.limit {
		return b.closeStream(ErrBodyTooLarge)
	}
	var err error
	s := b.takeStream()
	if to, ok := bodyWriterTo(s, true); ok {
		b.bytes, err = appendWritten(b.bytes[:0], to, b.limit)
	} else {
		b.bytes, err = appendAll(b.bytes[:0], s, b.limit)
	}
	_ = b.closeStream(err)
	return err
}

// bodyWriterTo returns s as an io.WriterTo, if its WriteTo may replace Read.
// mayInfer allows a WriterTo that is not a BodyWriterTo.
func bodyWriterTo(s io.Reader, mayInfer bool) (to io.WriterTo, ok bool) {
	switch s := s.(type) {
	case BodyWriterTo:
		return s, s.SupportsBodyWriteTo()
	case *os.File:
		return nil, false // its WriteTo would read into a buffer of its own
	case io.WriterTo:
		return s, mayInfer
	}
	return nil, false
}

// appendWritten is appendAll for a WriterTo.
func appendWritten(dst []byte, from io.WriterTo, limit int) ([]byte, error) {
	w := limitedAppender{bytes: dst, left: math.MaxInt}
	if limit > 0 {
		w.left = limit
	}
	_, err := from.WriteTo(&w)
	if w.left < 0 {
		err = ErrBodyTooLarge
	}
	return w.bytes, err
}

// limitedAppender appends what is written to it, up to a limit.
type limitedAppender struct {
	bytes []byte
	left  int // < 0: the limit was exceeded
}

// Write implements io.Writer.
func (a *limitedAppender) Write(p []byte) (int, error) {
	if len(p) > a.left {
		a.left = -1
		return 0, ErrBodyTooLarge
	}
	a.bytes = append(a.bytes, p...)
	a.left -= len(p)
	return len(p), nil
}

// WriteString implements io.StringWriter.
func (a *limitedAppender) WriteString(s string) (int, error) { return a.Write(ascii.Bytes(s)) }

// appendAll appends everything that r returns to dst. It returns
// ErrBodyTooLarge for more than limit bytes; 0 is no limit.
func appendAll(dst []byte, r io.Reader, limit int) ([]byte, error) {
	start := len(dst)
	for {
		dst = makeRoom(dst, 0)
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if limit > 0 && len(dst)-start > limit {
			return dst[:start+limit], ErrBodyTooLarge
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}

// makeRoom returns b with spare capacity. If b is full, it grows to twice its
// capacity, at least to 512 bytes, and by at most left if that is positive. So
// memory stays in proportion to the bytes that have arrived.
func makeRoom(b []byte, left int64) []byte {
	if len(b) < cap(b) {
		return b
	}
	grown := max(512, 2*cap(b))
	if left > 0 && int64(grown-len(b)) > left {
		grown = len(b) + int(left)
	}
	return append(make([]byte, 0, grown), b...)
}

// copyStream copies s to w.
func copyStream(w io.Writer, s io.Reader) error {
	if to, ok := s.(BodyWriterTo); ok && !to.SupportsBodyWriteTo() {
		s = struct{ io.Reader }{s}
	}
	_, err := io.Copy(w, s)
	return err
}

// writeStream writes the stream as the body of a message and closes it. length
// is that of message.Framing; h has the trailers.
func (b *body) writeStream(w *bufio.Writer, length int64, h *message.Header) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &ErrBodyStreamWritePanic{cause: panicError(v)}
		}
		err = b.endStream(err)
	}()
	s := b.takeStream()
	if length >= 0 {
		return b.copySized(w, w, s, length)
	}
	if length != -1 {
		_, err = copyFlushing(w, w, s, math.MaxInt64)
		return err
	}
	if b.streamSize >= 0 {
		err = b.copySized(&chunkWriter{w: w}, w, s, int64(b.streamSize))
	} else {
		err = copyChunked(w, s)
	}
	if err != nil {
		return err
	}
	return writeLastChunk(w, h)
}

// panicError returns the value of a panic as an error.
func panicError(v any) error {
	if err, ok := v.(error); ok {
		return fmt.Errorf("sluice: panic while writing a body stream: %w", err)
	}
	return fmt.Errorf("sluice: panic while writing a body stream: %v", v)
}

// copySized writes exactly length bytes of s to dst: more would be parsed as
// the next message. It sends each Read, or Write of a WriterTo, at once,
// because the next one may block for long. w is the writer below dst.
func (b *body) copySized(dst io.Writer, w *bufio.Writer, s io.Reader, length int64) (err error) {
	left := length
	if to, ok := bodyWriterTo(s, true); ok {
		b.sized = sizedWriter{dst, w, length}
		_, err = to.WriteTo(&b.sized)
		left = b.sized.left
		b.sized = sizedWriter{}
		if err == errSizeReached {
			err = nil
		}
	} else {
		var copied int64
		copied, err = copyFlushing(dst, w, s, length)
		left -= copied
	}
	if err == nil && left > 0 {
		return fmt.Errorf("sluice: body stream ended after %d of %d bytes: %w", length-left, length, io.ErrUnexpectedEOF)
	}
	return err
}

// errSizeReached ends a WriteTo that writes more than the announced length.
var errSizeReached = errors.New("sluice: the body stream has more than its length")

// sizedWriter passes up to left bytes on to dst, and flushes w, the writer
// below dst.
type sizedWriter struct {
	dst  io.Writer
	w    *bufio.Writer
	left int64
}

// Write implements io.Writer.
func (s *sizedWriter) Write(p []byte) (n int, err error) {
	isTooMuch := int64(len(p)) > s.left
	if isTooMuch {
		p = p[:s.left]
	}
	if n, err = s.dst.Write(p); err == nil {
		err = s.w.Flush()
	}
	s.left -= int64(n)
	if err == nil && isTooMuch {
		err = errSizeReached
	}
	return n, err
}

// WriteString implements io.StringWriter.
func (s *sizedWriter) WriteString(p string) (int, error) { return s.Write(ascii.Bytes(p)) }

// mayWait reports whether reading a stream may block.
func mayWait(stream io.Reader) bool {
	switch stream.(type) {
	case *bytes.Reader, *bytes.Buffer, *strings.Reader, *os.File:
		return false
	}
	return true
}

// copyChunked writes s in chunks.
func copyChunked(w *bufio.Writer, s io.Reader) error {
	c := &chunkWriter{w: w}
	isMemory := false
	switch s.(type) {
	case *bytes.Reader, *bytes.Buffer:
		isMemory = true
	}
	if to, ok := bodyWriterTo(s, isMemory); ok {
		_, err := to.WriteTo(c)
		return err
	}
	_, err := copyFlushing(c, w, s, math.MaxInt64)
	return err
}

// copyFlushing copies up to most bytes of s to dst and flushes w after each
// read, because the next one may block for long.
func copyFlushing(dst io.Writer, w *bufio.Writer, s io.Reader, most int64) (copied int64, err error) {
	b := buf.Get(streamCopySize)
	defer b.Release()
	p := b.B[:cap(b.B)]
	for copied < most {
		if int64(len(p)) > most-copied {
			p = p[:most-copied]
		}
		n, err := s.Read(p)
		if n > 0 {
			if _, err := dst.Write(p[:n]); err != nil {
				return copied, err
			}
			if err := w.Flush(); err != nil {
				return copied, err
			}
			copied += int64(n)
		}
		if err == io.EOF {
			return copied, nil
		}
		if err != nil {
			return copied, err
		}
	}
	return copied, nil
}

// messageStream is the body of a received message that is read while it
// arrives. It returns io.EOF only at the verified end of the body.
type messageStream struct {
	r      *bufio.Reader
	chunks chunkedReader // of a chunked body
	left   int64         // of a body of known length
	kind   streamKind
	err    error // returned by every further Read
}

// streamKind says how the end of a messageStream is found.
type streamKind uint8

const (
	sizedStream streamKind = iota
	chunkedStream
	closedStream // ends with the connection
)

// newMessageStream returns the body after the head h, which has been read from
// r. length is as ContentLength returns it.
func newMessageStream(r *bufio.Reader, h trailerReader, length int) *messageStream {
	s := &messageStream{r: r}
	switch {
	case length >= 0:
		s.left = int64(length)
	case length == -1:
		s.kind = chunkedStream
		s.chunks = chunkedReader{r: r, trailer: h}
	default:
		s.kind = closedStream
	}
	return s
}

// isComplete reports whether the verified end was reached. The connection can
// then carry another message.
func (s *messageStream) isComplete() bool {
	return s.kind != closedStream && s.err == io.EOF || s.kind == sizedStream && s.left == 0
}

// Read implements io.Reader.
func (s *messageStream) Read(p []byte) (n int, err error) {
	if s.err != nil || len(p) == 0 {
		return 0, s.err
	}
	switch s.kind {
	case chunkedStream:
		n, err = s.chunks.Read(p)
	case closedStream:
		n, err = s.r.Read(p)
	default:
		n, err = s.readSized(p)
	}
	s.err = err
	return n, err
}

func (s *messageStream) readSized(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > s.left {
		p = p[:s.left]
	}
	n, err := s.r.Read(p)
	s.left -= int64(n)
	if err == io.EOF && s.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// appendSized appends a body of the given length to dst. Memory grows with the
// bytes that arrive.
func appendSized(dst []byte, r *bufio.Reader, length int) ([]byte, error) {
	for left := int64(length); left > 0; {
		dst = makeRoom(dst, left)
		room := dst[len(dst):cap(dst)]
		if int64(len(room)) > left {
			room = room[:left]
		}
		n, err := r.Read(room)
		dst = dst[:len(dst)+n]
		left -= int64(n)
		if err != nil && left > 0 {
			return dst, unexpectedEOF(err)
		}
	}
	return dst, nil
}

// unexpectedEOF replaces io.EOF within a message with io.ErrUnexpectedEOF.
func unexpectedEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendBody appends the body of a received message to dst. length is as
// ContentLength returns it. It returns ErrBodyTooLarge for more than limit
// bytes; limit <= 0 is no limit. The trailer section of a chunked body stays in
// r.
func appendBody(dst []byte, r *bufio.Reader, length, limit int) ([]byte, error) {
	switch {
	case length >= 0:
		if limit > 0 && length > limit || length == message.TooLong {
			return dst, ErrBodyTooLarge
		}
		return appendSized(dst, r, length)
	case length == -1:
		return appendChunks(dst, r, limit)
	}
	return appendAll(dst, r, max(limit, 0))
}

var _ io.Writer = (*chunkWriter)(nil)

// chunkWriter writes each Write as one chunk.
type chunkWriter struct{ w *bufio.Writer }

// Write implements io.Writer.
func (c *chunkWriter) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil // an empty chunk would end the body
	}
	if _, err := c.w.Write(h1.AppendChunkHead(c.w.AvailableBuffer(), len(p))); err != nil {
		return 0, err
	}
	n, err := c.w.Write(p)
	if err == nil {
		_, err = c.w.WriteString("\r\n")
	}
	return n, err
}

// writeLastChunk ends a chunked body, with the trailers of h.
func writeLastChunk(w *bufio.Writer, h *message.Header) error {
	_, err := w.Write(h.AppendTrailers(append(w.AvailableBuffer(), h1.LastChunk...)))
	return err
}
