package body

import (
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// ErrClosed is the error of reading a body after it was closed.
var ErrClosed = fmt.Errorf("sluice: the body stream is closed: %w", io.ErrClosedPipe)

// A Source is what a Stream reads from: a body on a connection. The connections of
// clients implement it; a Stream calls it. After End, it calls no method.
type Source interface {
	// ReadBody reads the body. It returns io.EOF only after the complete body.
	ReadBody(p []byte) (int, error)
	// IsComplete reports whether the body was read, although ReadBody has not returned
	// io.EOF.
	IsComplete() bool
	// Interrupt makes a ReadBody in progress, and each later one, return. It is called
	// concurrently with ReadBody.
	Interrupt()
	// End is called once, after the last ReadBody. err is io.EOF after the complete body,
	// ErrClosed if the reader does not want the rest, and otherwise what has failed. The
	// result is the error of all further reads.
	End(err error) error
}

// A Detacher is a Source that can give its connection away before anything of the body was read.
type Detacher interface {
	Source
	// Detach returns the connection and what was read of the body, if the body is chunked and
	// wants likes the connection. It is the last call then; otherwise nothing has changed.
	Detach(wants func(net.Conn) bool) (conn net.Conn, rest []byte, ok bool)
}

// A Stream is a body for one reader. Init makes it ready. It must not be copied.
type Stream struct {
	mu       sync.Mutex // Close may be called concurrently with Read
	source   Source
	left     int64 // bytes until the limit; < 0: no limit
	err      error // returned by every later Read
	isClosed atomic.Bool

	gate   sync.Mutex // guards isOpen, and is held while the source is interrupted
	isOpen bool       // source.End was not called
}

// Init makes s the body of source. limit bounds the bytes that are read from it; 0 or
// less is no limit. Beyond it, Read returns ErrTooLarge.
func (s *Stream) Init(source Source, limit int) {
	s.source, s.left, s.isOpen = source, int64(limit), true
	if limit <= 0 {
		s.left = -1
	}
}

// Read implements io.Reader. It returns io.EOF only after the complete body.
func (s *Stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || len(p) == 0 {
		return 0, s.err
	}
	// One byte more than the limit distinguishes a body that is too long.
	if s.left >= 0 && int64(len(p)) > s.left+1 {
		p = p[:s.left+1]
	}
	n, err := s.source.ReadBody(p)
	if s.left >= 0 {
		if int64(n) > s.left {
			n, err = int(s.left), ErrTooLarge
		}
		s.left -= int64(n)
	}
	if err != nil {
		err = s.end(err)
	}
	return n, err
}

// Detach takes the connection from a Stream that was not read from; see Detacher. The Stream is
// then closed.
func (s *Stream) Detach(wants func(net.Conn) bool) (conn net.Conn, rest []byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.source.(Detacher)
	if !ok || s.err != nil || s.isClosed.Load() {
		return nil, nil, false
	}
	if conn, rest, ok = d.Detach(wants); ok {
		s.gate.Lock()
		s.isOpen = false
		s.gate.Unlock()
		s.source, s.err = nil, ErrClosed
	}
	return conn, rest, ok
}

// end ends the source. err is the reason. Called with mu.
func (s *Stream) end(err error) error {
	if err != io.EOF && s.isClosed.Load() {
		err = ErrClosed
	}
	s.gate.Lock()
	s.isOpen = false
	s.gate.Unlock()
	s.err = s.source.End(err)
	s.source = nil
	return s.err
}

// interrupt makes a waiting Read return.
func (s *Stream) interrupt() {
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.isOpen {
		s.source.Interrupt()
	}
}

// Close implements io.Closer. It ends the source, also before the end of the body, and
// makes a waiting Read return.
func (s *Stream) Close() error { return s.CloseWithError(nil) }

// CloseWithError is Close, except that with an error the body does not count as
// complete unless Read has returned io.EOF.
func (s *Stream) CloseWithError(err error) error {
	s.isClosed.Store(true)
	if !s.mu.TryLock() {
		s.interrupt()
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
	case err == nil && s.source.IsComplete():
		_ = s.end(io.EOF)
	default:
		_ = s.end(ErrClosed)
	}
	s.err = ErrClosed
	return nil
}
