package sluice

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// errStreamClosed is the error of reading a response's body after it was
// closed.
var errStreamClosed = fmt.Errorf("sluice: the body stream is closed: %w", io.ErrClosedPipe)

var _ ReadCloserWithError = (*clientStream)(nil)

// clientStream is the body of a response that is read as it arrives. It owns
// the connection until the end of the body, and then returns it to the pool or
// closes it.
type clientStream struct {
	mu      sync.Mutex // Close may be called concurrently with Read
	body    *messageStream
	c       *HostClient
	cc      *clientConn
	br      *clientInput
	stop    func() bool // ends the guard of the context
	call    clientCall  // has the context, but no deadline
	left    int64       // bytes until MaxResponseBodySize; < 0: no limit
	timeout time.Duration
	err     error // returned by every later Read
	persist bool  // the connection can be reused

	isClosed atomic.Bool
	gate     sync.Mutex // guards isOpen, and is held while cc is interrupted
	isOpen   bool       // the stream owns cc
}

// lendToStream makes the response's body a stream that owns the connection.
func (x *exchange) lendToStream() error {
	body, ok := x.resp.stream.(*messageStream)
	limit := x.c.MaxResponseBodySize
	x.resp.stream = nil
	switch {
	case !ok:
		return errStreamClosed // impossible: the stream was just created
	case limit > 0 && x.resp.streamSize > limit:
		return ErrBodyTooLarge
	}
	// The call ends here, and so does its deadline.
	if err := x.cc.clearLimits(); err != nil {
		return err
	}
	if x.call.HasEnded() {
		return x.call.err()
	}
	s := &clientStream{
		body: body, c: x.c, cc: x.cc, br: x.br, stop: x.stop,
		call: clientCall{Bounds: clock.Bounds{Context: x.call.Context}, phase: PhaseRead}, left: -1, timeout: x.c.ReadTimeout,
		persist: x.persists(), isOpen: true,
	}
	if limit > 0 {
		s.left = int64(limit)
		body.LimitChunks(limit)
	}
	x.resp.setStream(s, x.resp.streamSize)
	return nil
}

const (
	// maxDropped is how many bytes of an unwanted body are read, so that the
	// connection can be reused.
	maxDropped = 8 << 10
	// dropTime is the time limit for that.
	dropTime = time.Second
)

// dropStream ends the response's body, which is unwanted. It reads a short body
// to its end; after a longer one, the connection is closed. A body that ends
// before its announced length is an error, as for a wanted body.
func (x *exchange) dropStream() error {
	size := x.resp.streamSize
	body, ok := x.resp.stream.(*messageStream)
	x.resp.stream, x.resp.streamSize = nil, 0
	if !ok || size < -1 || size > maxDropped {
		x.closes = true
		return nil
	}
	err := x.readAway(body)
	x.closes = x.closes || !body.IsComplete()
	if size < 0 || clock.IsTimeout(err) || x.call.HasEnded() {
		return nil // the response is complete except for the unwanted body
	}
	return err
}

// readAway reads a short body to its end, within dropTime and ReadTimeout.
func (x *exchange) readAway(body *messageStream) error {
	timeout := dropTime
	if x.c.ReadTimeout > 0 {
		timeout = min(timeout, x.c.ReadTimeout)
	}
	if err := x.cc.setReadLimit(x.call, timeout); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, io.LimitReader(body, maxDropped+1))
	return err
}

// Read implements io.Reader. It returns io.EOF only after the complete body.
func (s *clientStream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || len(p) == 0 {
		return 0, s.err
	}
	if s.timeout > 0 {
		if err := s.cc.setReadLimit(&s.call, s.timeout); err != nil {
			return 0, s.end(err)
		}
		if s.isClosed.Load() {
			s.interrupt() // Close may have interrupted before the deadline was set
		}
	}
	// One byte more than the limit distinguishes a body that is too long.
	if s.left >= 0 && int64(len(p)) > s.left+1 {
		p = p[:s.left+1]
	}
	n, err := s.body.Read(p)
	if s.left >= 0 {
		if int64(n) > s.left {
			n, err = int(s.left), ErrBodyTooLarge
		}
		s.left -= int64(n)
	}
	if err != nil {
		err = s.end(err)
	}
	return n, err
}

// end releases or closes the connection. err is the reason.
func (s *clientStream) end(err error) error {
	switch {
	case err == io.EOF:
	case s.isClosed.Load():
		err = errStreamClosed
	default:
		err = s.call.explain(err)
	}
	s.err = err
	isOver := s.stop != nil && !s.stop()
	isDone := err == io.EOF && s.body.IsComplete() && s.br.Buffered() == 0
	s.gate.Lock()
	s.isOpen = false
	s.gate.Unlock()
	if s.isClosed.Load() {
		s.cc.hasDeadline = true // interrupt may have set one
	}
	releaseClientInput(s.br)
	if s.persist && isDone && !isOver {
		s.c.release(s.cc)
	} else {
		s.c.discard(s.cc)
	}
	s.br, s.cc, s.stop = nil, nil, nil
	return err
}

// interrupt makes a waiting Read return.
func (s *clientStream) interrupt() {
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.isOpen {
		s.cc.interrupt()
	}
}

// Close implements io.Closer. If the body was not read to its end, it closes
// the connection. It makes a waiting Read return.
func (s *clientStream) Close() error { return s.CloseWithError(nil) }

// CloseWithError implements ReadCloserWithError. It is Close, except that an
// error closes the connection unless Read has returned io.EOF.
func (s *clientStream) CloseWithError(err error) error {
	s.isClosed.Store(true)
	if !s.mu.TryLock() {
		s.interrupt()
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
	case err == nil && s.body.IsComplete():
		_ = s.end(io.EOF)
	default:
		_ = s.end(errStreamClosed)
	}
	s.err = errStreamClosed
	return nil
}
