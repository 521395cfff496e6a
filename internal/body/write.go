package body

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// Sized passes content on, up to a length: more would be parsed as the next message.
type Sized struct {
	// To gets the content. Each Write must send it, because the next part may take long.
	To io.Writer
	// Left is how many bytes are left; < 0: the length is unknown.
	Left int64
	// EndsEarly makes Write return an error for bytes beyond the length, which it
	// otherwise drops.
	EndsEarly bool
}

// errSizeReached ends a WriteTo that writes more than the announced length.
var errSizeReached = errors.New("sluice: the body stream has more than its length")

// Write implements io.Writer.
func (s *Sized) Write(p []byte) (n int, err error) {
	n = len(p)
	if s.Left >= 0 && int64(n) > s.Left {
		p = p[:s.Left]
		if s.EndsEarly {
			n, err = len(p), errSizeReached
		}
	}
	if len(p) == 0 {
		return n, err
	}
	sent, sendErr := s.To.Write(p)
	if s.Left >= 0 {
		s.Left -= int64(sent)
	}
	if sendErr != nil {
		return sent, sendErr
	}
	return n, err
}

// WriteString implements io.StringWriter.
func (s *Sized) WriteString(p string) (int, error) { return s.Write(ascii.Bytes(p)) }

// CopyFrom passes a stream on, to its end or to the length. mayInfer is that of
// WriterTo.
func (s *Sized) CopyFrom(stream io.Reader, mayInfer bool) error {
	to, _ := WriterTo(stream, mayInfer)
	return s.copyFrom(stream, to)
}

// copyFrom is CopyFrom for a stream that writes itself with to; nil: it is read.
func (s *Sized) copyFrom(stream io.Reader, to io.WriterTo) error {
	if to != nil {
		s.EndsEarly = true
		if _, err := to.WriteTo(s); err != errSizeReached {
			return err
		}
		return nil
	}
	b := buf.Get(pieceSize)
	defer b.Release()
	p := b.B[:pieceSize]
	for s.Left != 0 {
		if s.Left > 0 {
			p = p[:min(int64(len(p)), s.Left)]
		}
		n, err := stream.Read(p)
		if n > 0 {
			if _, err := s.Write(p[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// StreamWriter writes a body stream to a bufio.Writer. A message keeps one, so that
// none is allocated for a body. The zero value is ready.
type StreamWriter struct {
	sized Sized
	to    flushing
}

// WriteStream writes s. It flushes w after each part, unless s writes itself and has no
// length. length is that of
// message.Framing: -1 is chunked content, with the trailers of h, and less than -1
// content to the end of s. Chunked content has size bytes, if size is not negative. A
// stream that ends before its length is an error.
func (x *StreamWriter) WriteStream(w *bufio.Writer, s io.Reader, length, size int64, h *message.Header) error {
	isChunked := length == -1
	if !isChunked {
		size = max(length, -1)
	}
	mayInfer := size >= 0 || isChunked && isMemory(s)
	to, _ := WriterTo(s, mayInfer) // once: users' streams may see that they are asked
	x.to = flushing{w: w, isChunked: isChunked, isHeld: to != nil && size < 0}
	x.sized = Sized{To: &x.to, Left: size}
	err := x.sized.copyFrom(s, to)
	left := x.sized.Left
	*x = StreamWriter{}
	switch {
	case err != nil:
		return err
	case left > 0:
		return fmt.Errorf("sluice: body stream ended after %d of %d bytes: %w", size-left, size, io.ErrUnexpectedEOF)
	case isChunked:
		return writeLastChunk(w, h)
	}
	return nil
}

// isMemory reports whether s can be written as one chunk.
func isMemory(s io.Reader) bool {
	switch s.(type) {
	case *bytes.Reader, *bytes.Buffer:
		return true
	}
	return false
}

// flushing writes to w, as chunks if isChunked, and flushes it unless isHeld.
type flushing struct {
	w         *bufio.Writer
	isChunked bool
	isHeld    bool
}

// Write implements io.Writer.
func (f *flushing) Write(p []byte) (n int, err error) {
	if f.isChunked {
		n, err = writeChunk(f.w, p)
	} else {
		n, err = f.w.Write(p)
	}
	if err == nil && !f.isHeld {
		err = f.w.Flush()
	}
	return n, err
}

// WriteContent writes content in memory, in one chunk if length is -1, with the trailers
// of h.
func WriteContent(w *bufio.Writer, content []byte, length int64, h *message.Header) error {
	if length != -1 {
		_, err := w.Write(content)
		return err
	}
	if _, err := writeChunk(w, content); err != nil {
		return err
	}
	return writeLastChunk(w, h)
}

// writeChunk writes a chunk, unless p is empty: that would end the content.
func writeChunk(w *bufio.Writer, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if _, err := w.Write(h1.AppendChunkHead(w.AvailableBuffer(), len(p))); err != nil {
		return 0, err
	}
	n, err := w.Write(p)
	if err == nil {
		_, err = w.WriteString("\r\n")
	}
	return n, err
}

// writeLastChunk ends chunked content, with the trailers of h.
func writeLastChunk(w *bufio.Writer, h *message.Header) error {
	_, err := w.Write(h.AppendTrailers(append(w.AvailableBuffer(), h1.LastChunk...)))
	return err
}
