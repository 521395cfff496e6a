package sluice

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// errStreamClosed is what reading a response's body returns once it is closed.
var errStreamClosed = fmt.Errorf("sluice: the body stream is closed: %w", io.ErrClosedPipe)

var _ ReadCloserWithError = (*clientStream)(nil)

// clientStream is the body of a response that is read while it arrives. The
// connection belongs to it, and goes back to the pool at the end of the body.
type clientStream struct {
	mu      sync.Mutex // Close may be called during Read
	body    *messageStream
	c       *HostClient
	cc      *clientConn
	br      *clientInput
	stop    func() bool // of the context's watch
	call    clientCall  // the context; there is no deadline any more
	left    int64       // until MaxResponseBodySize; < 0: no limit
	timeout time.Duration
	err     error // what every further Read returns
	persist bool  // the connection is good for another request

	isClosed atomic.Bool
	gate     sync.Mutex // for isOpen, and for interrupting cc while it is
	isOpen   bool       // cc is the stream's
}

// lendToStream makes the response's body one that reads on from the connection.
func (x *exchange) lendToStream() error {
	body, ok := x.resp.stream.(*messageStream)
	limit := x.c.MaxResponseBodySize
	x.resp.stream = nil
	switch {
	case !ok:
		return errStreamClosed // cannot be: it was just made
	case limit > 0 && x.resp.streamSize > limit:
		return ErrBodyTooLarge
	}
	// The call ends here, and with it its deadline.
	if err := x.cc.clearLimits(); err != nil {
		return err
	}
	if x.call.hasEnded() {
		return x.call.err()
	}
	s := &clientStream{
		body: body, c: x.c, cc: x.cc, br: x.br, stop: x.stop,
		call: clientCall{ctx: x.call.ctx, phase: PhaseRead}, left: -1, timeout: x.c.ReadTimeout,
		persist: x.persists(), isOpen: true,
	}
	if limit > 0 {
		s.left = int64(limit)
		body.chunks.limit = uint64(limit)
	}
	x.resp.setStream(s, x.resp.streamSize)
	return nil
}

const (
	// maxDropped is how much of an unwanted body is read, for the
	// connection to be used again.
	maxDropped = 8 << 10
	// dropTime is how long that may take.
	dropTime = time.Second
)

// dropStream ends the response's body, which is unwanted. If it is short it is
// read to its end, else the connection is of no more use. That one of a length
// that was announced breaks off is an error, as if it were wanted.
func (x *exchange) dropStream() error {
	size := x.resp.streamSize
	body, ok := x.resp.stream.(*messageStream)
	x.resp.stream, x.resp.streamSize = nil, 0
	if !ok || size < -1 || size > maxDropped {
		x.closes = true
		return nil
	}
	err := x.readAway(body)
	x.closes = x.closes || !body.isComplete()
	if size < 0 || isDeadline(err) || x.call.hasEnded() {
		return nil // there is an answer, whatever becomes of its body
	}
	return err
}

// readAway reads a short body to its end, if that is there soon.
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

// Read implements io.Reader. io.EOF is the verified end of the body.
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
			s.interrupt() // it may have come before the deadline
		}
	}
	// One byte over the limit tells a body that is too long from one that is
	// not.
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

// end gives the connection up, because of err.
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
	isDone := err == io.EOF && s.body.isComplete() && s.br.Buffered() == 0
	s.gate.Lock()
	s.isOpen = false
	s.gate.Unlock()
	if s.isClosed.Load() {
		s.cc.hasDeadline = true // that of interrupt, maybe
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

// interrupt ends a Read that waits.
func (s *clientStream) interrupt() {
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.isOpen {
		s.cc.interrupt()
	}
}

// Close implements io.Closer. A body that was not read to its end costs the
// connection. It ends a Read that waits.
func (s *clientStream) Close() error { return s.CloseWithError(nil) }

// CloseWithError implements ReadCloserWithError. It is Close, and an error costs
// the connection unless Read has returned io.EOF.
func (s *clientStream) CloseWithError(err error) error {
	s.isClosed.Store(true)
	if !s.mu.TryLock() {
		s.interrupt()
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
	case err == nil && s.body.isComplete():
		_ = s.end(io.EOF)
	default:
		_ = s.end(errStreamClosed)
	}
	s.err = errStreamClosed
	return nil
}
