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

// pieceSize is how much is collected after Flush before it is sent.
const pieceSize = 64 << 10

var (
	errBodyUnwanted    = errors.New("sluice: the body of the response is not read any more")
	errHandlerPanicked = errors.New("sluice: the handler panicked after Flush")
)

// responseStream is the body of a response whose handler goes on after Flush.
// The handler writes it, and the server, or a handler around the adaptor, reads
// and closes it.
type responseStream struct {
	exchange *exchange
	isHead   bool

	// Of the handler.
	pending []byte // not sent yet, at most pieceSize
	to      *io.PipeWriter

	// Of the reader.
	first  []byte // what was written before the first Flush
	from   *io.PipeReader
	left   int64 // bytes that the reader waits for; -1: until the end
	isOver bool

	opened    chan struct{} // closed when the reader has begun
	openOnce  sync.Once
	writeTill atomic.Pointer[time.Time] // a deadline that the reader sets
}

// newResponseStream returns the body that begins with first and has length
// bytes, -1 if that is not known.
func newResponseStream(x *exchange, first []byte, length int64) *responseStream {
	s := &responseStream{
		exchange: x, isHead: x.writer.isHead,
		first: first, left: length, opened: make(chan struct{}),
	}
	s.from, s.to = io.Pipe()
	return s
}

// write collects p, and sends it when it is much.
func (s *responseStream) write(p []byte) error {
	if len(s.pending)+len(p) >= pieceSize {
		return s.send(p)
	}
	s.pending = append(s.pending, p...)
	return nil
}

// send has the reader take what is pending, and p.
func (s *responseStream) send(p []byte) error {
	for _, piece := range [2][]byte{s.pending, p} {
		if len(piece) == 0 {
			continue
		}
		if _, err := s.to.Write(piece); err != nil && !s.isHead { // nobody reads the body of HEAD
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

// setWriteDeadline notes a deadline for what is sent from now on.
func (s *responseStream) setWriteDeadline(t time.Time) { s.writeTill.Store(&t) }

// awaitReader returns when the reader has begun: the head is made, and the
// connection may be read from beside the writing.
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
		_ = s.exchange.writer.ctx.SetWriteDeadline(*t) // fails where there is no connection
	}
	if s.left > 0 {
		s.left -= min(s.left, int64(n))
	}
	return n, nil
}

// end takes over what there is when the handler has ended with err, or nobody
// reads any more.
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

// CloseWithError implements sluice.ReadCloserWithError. A handler whose body is
// complete is waited for; any other one gets errors.
func (s *responseStream) CloseWithError(err error) error {
	s.open()
	switch {
	case s.isOver:
	case err == nil && s.left == 0:
		if _, err = s.from.Read(make([]byte, 1)); err == nil { // no handler can write more
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
