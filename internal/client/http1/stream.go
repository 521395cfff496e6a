package http1

import (
	"io"
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

var _ body.Source = (*stream)(nil)

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
