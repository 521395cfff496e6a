package fasthttpadaptor

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice"
)

// pieceSize is the number of bytes that are collected after Flush before they
// are sent.
const pieceSize = 64 << 10

var (
	errBodyUnwanted    = errors.New("sluice: the body of the response is not read any more")
	errHandlerPanicked = errors.New("sluice: the handler panicked after Flush")
)

// responseStream is the body of a response whose handler continues after Flush.
// The handler writes it. The server, or a handler around the adaptor, reads and
// closes it.
type responseStream struct {
	exchange *exchange
	isHead   bool

	// The handler owns these fields.
	pending []byte // not sent yet, at most pieceSize
	to      *io.PipeWriter

	// The reader owns these fields.
	first  []byte // what was written before the first Flush
	from   *io.PipeReader
	left   int64 // bytes that the reader waits for; -1: until the end
	isOver bool

	opened    chan struct{} // closed when the reader has begun
	openOnce  sync.Once
	writeTill atomic.Pointer[time.Time] // a write deadline that the reader has to set
}

// newResponseStream returns a body that begins with first and has length bytes.
// A length of -1 is unknown.
func newResponseStream(x *exchange, first []byte, length int64) *responseStream {
	s := &responseStream{
		exchange: x, isHead: x.writer.isHead,
		first: first, left: length, opened: make(chan struct{}),
	}
	s.from, s.to = io.Pipe()
	return s
}

// write collects p. It sends what is collected when that reaches pieceSize.
func (s *responseStream) write(p []byte) error {
	if len(s.pending)+len(p) >= pieceSize {
		return s.send(p)
	}
	s.pending = append(s.pending, p...)
	return nil
}

// send passes what is pending, and then p, to the reader, and waits until the
// reader has taken it.
func (s *responseStream) send(p []byte) error {
	for _, piece := range [2][]byte{s.pending, p} {
		if len(piece) == 0 {
			continue
		}
		if _, err := s.to.Write(piece); err != nil && !s.isHead { // the body of HEAD is never read
			return err
		}
	}
	s.pending = s.pending[:0]
	return nil
}

// finish ends the body.
func (s *responseStream) finish(isBroken bool) {
	var err error
	if isBroken {
		err = errHandlerPanicked
	}
	_ = s.to.CloseWithError(err) // it never fails
}

// setWriteDeadline stores a deadline for what is sent from now on.
func (s *responseStream) setWriteDeadline(t time.Time) { s.writeTill.Store(&t) }

// awaitReader returns when the reader has begun. From then on the head is
// complete, and the connection may be read while the response is written.
func (s *responseStream) awaitReader() { <-s.opened }

func (s *responseStream) open() { s.openOnce.Do(func() { close(s.opened) }) }

// Read implements io.Reader.
func (s *responseStream) Read(p []byte) (int, error) {
	s.open()
	n := copy(p, s.first)
	s.first = s.first[n:]
	if n == 0 {
		var err error
		if n, err = s.from.Read(p); err != nil {
			return 0, s.end(err)
		}
	}
	if t := s.writeTill.Swap(nil); t != nil {
		_ = s.exchange.writer.ctx.SetWriteDeadline(*t) // fails if there is no connection
	}
	if s.left > 0 {
		s.left -= min(s.left, int64(n))
	}
	return n, nil
}

// end completes the exchange, once, when the handler has ended with err or the
// reader stops. It returns the error for the reader.
func (s *responseStream) end(err error) error {
	if s.isOver {
		return err
	}
	s.isOver = true
	x := s.exchange
	if err == io.EOF {
		x.writer.copyTrailers(&x.writer.ctx.Response.Header)
	}
	x.end()
	if err != io.EOF && err != errBodyUnwanted {
		x.abort()
	}
	if err == errHandlerPanicked && x.panicValue == http.ErrAbortHandler {
		return sluice.ErrAbortHandler
	}
	return err
}

// Close implements io.Closer.
func (s *responseStream) Close() error { return s.CloseWithError(nil) }

// CloseWithError implements sluice.ReadCloserWithError. If the body is complete,
// it waits for the handler to return. Otherwise the handler gets errors.
func (s *responseStream) CloseWithError(err error) error {
	s.open()
	switch {
	case s.isOver:
	case err == nil && s.left == 0:
		if _, err = s.from.Read(make([]byte, 1)); err == nil { // cannot happen: Write refuses more than length
			err = io.EOF
		}
		if err = s.end(err); err != io.EOF {
			return err
		}
	case err == nil:
		_ = s.end(errBodyUnwanted)
		_ = s.from.CloseWithError(errBodyUnwanted)
	default:
		_ = s.end(err)
		_ = s.from.CloseWithError(err)
	}
	return nil
}
