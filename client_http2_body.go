package sluice

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

var _ ReadCloserWithError = (*http2Body)(nil)

// http2Body is the body of a response that is read as it arrives. It owns the stream
// until the end of the body.
type http2Body struct {
	mu       sync.Mutex // Close may be called concurrently with Read
	x        *http2Call // not used again, because Close uses it without the lock
	call     clientCall // has the context, but no deadline
	left     int64      // bytes until MaxResponseBodySize; < 0: no limit
	timeout  time.Duration
	err      error // returned by every later Read
	isClosed atomic.Bool
}

// lend makes the response's body a stream, which owns x. A body stream of the request
// belongs to it, too: it may be read until the response has ended.
func (x *http2Call) lend() {
	req, resp := x.req, x.resp
	req.stream, req.streamWriter, req.streamSize = nil, nil, 0
	x.req = nil
	resp.ParseNetConn(x.member.Conn.cc.c)
	s := &http2Body{x: x, call: clientCall{Bounds: clock.Bounds{Context: req.call.Context}, phase: PhaseRead}, left: -1, timeout: x.c.ReadTimeout}
	if x.c.MaxResponseBodySize > 0 {
		s.left = int64(x.c.MaxResponseBodySize)
	}
	resp.setStream(s, max(resp.Header.ContentLength(), -1))
}

// Read implements io.Reader. It returns io.EOF only after the complete body.
func (s *http2Body) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || len(p) == 0 {
		return 0, s.err
	}
	if s.timeout > 0 {
		s.x.stream.SetDeadline(clock.Nanos() + int64(s.timeout))
	}
	// One byte more than the limit distinguishes a body that is too long.
	if s.left >= 0 && int64(len(p)) > s.left+1 {
		p = p[:s.left+1]
	}
	n, err := s.x.stream.Read(p)
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

// end ends the stream. err is the reason. Called with the lock.
func (s *http2Body) end(err error) error {
	x := s.x
	_ = x.stream.Close()
	switch {
	case err == io.EOF:
		x.receiveTrailers()
	case s.isClosed.Load():
		err = errStreamClosed
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	default:
		err = s.call.explain(err)
	}
	s.err = err
	if x.source.stream != nil {
		rest := body{stream: x.source.stream}
		_ = rest.endStream(nil)
	}
	if x.content != nil {
		x.content.Release()
	}
	x.c.releaseHTTP2(x.member)
	return err
}

// Close implements io.Closer. If the body was not read to its end, it resets the stream.
// It makes a waiting Read return.
func (s *http2Body) Close() error { return s.CloseWithError(nil) }

// CloseWithError implements ReadCloserWithError. It is Close.
func (s *http2Body) CloseWithError(error) error {
	s.isClosed.Store(true)
	if !s.mu.TryLock() {
		_ = s.x.stream.Close()
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if s.err == nil {
		_ = s.end(errStreamClosed)
	}
	s.err = errStreamClosed
	return nil
}
