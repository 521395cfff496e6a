package http1

import (
	"io"
	"net"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/body"
)

// A stream is the body of a response that is read as it arrives. It owns the Exchange,
// and so the Conn, until the end of the body.
type stream struct {
	body.Stream
	x             *Exchange
	isInterrupted atomic.Bool
}

var _ body.Detacher = (*stream)(nil)

// ReadBody implements body.Source.
func (s *stream) ReadBody(p []byte) (int, error) {
	x := s.x
	if x.ReadTimeout > 0 {
		if err := x.Conn.setReadLimit(x.Bounds, x.ReadTimeout); err != nil {
			return 0, err
		}
		if s.isInterrupted.Load() {
			x.Conn.Interrupt() // Interrupt may have come before the deadline was set
		}
	}
	return x.Body.Read(p)
}

// IsComplete implements body.Source.
func (s *stream) IsComplete() bool { return s.x.Body.IsComplete() }

// Interrupt implements body.Source.
func (s *stream) Interrupt() {
	s.isInterrupted.Store(true)
	s.x.Conn.Interrupt()
}

// End implements body.Source.
func (s *stream) End(err error) error {
	x := s.x
	s.x = nil
	isOver := !x.guard.end(x.Conn)
	outcome := MustCut
	switch isDone := err == io.EOF && x.Body.IsComplete() && !isOver && !x.isCut; {
	case isDone && x.br.Buffered() == 0 && !x.IsLast:
		outcome = Reusable
	case isDone:
		outcome = MustClose
	}
	if s.isInterrupted.Load() {
		x.Conn.NoteDeadline()
	}
	releaseInput(x.br)
	return x.Message.Ended(outcome, err)
}

// Detach implements body.Detacher.
func (s *stream) Detach(wants func(net.Conn) bool) (conn net.Conn, rest []byte, ok bool) {
	x := s.x
	conn = x.Conn.Net
	if x.Length != -1 || x.isCut || s.isInterrupted.Load() || !wants(conn) || !x.guard.end(x.Conn) {
		return nil, nil, false
	}
	x.Conn.NoteDeadline() // as the guard may have set one
	if x.Conn.ClearLimits() != nil {
		return nil, nil, false
	}
	rest = make([]byte, x.br.Buffered())
	_, _ = io.ReadFull(x.br, rest) // they are there
	s.x, x.Conn.Net = nil, taken{conn}
	releaseInput(x.br)
	_ = x.Message.Ended(MustClose, body.ErrClosed)
	return conn, rest, true
}

// A taken is in the place of a connection that was given away.
type taken struct{ net.Conn }

// Close implements net.Conn. The connection is another one's.
func (taken) Close() error { return nil }
