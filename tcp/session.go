package tcp

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// phase is the state of a connection. From phaseEnded on, the handler is not called
// any more.
type phase uint8

const (
	phaseServing phase = iota
	phaseOpening       // OnOpen must be called
	phaseEnded         // pending output is sent, then the connection is closed
	phaseAborted       // the connection is broken
	phaseDetached
)

// flushSize is the size of a reply from which the session lets the engine send it
// before it handles more input.
const flushSize = 32 << 10

// A session is the engine.Protocol of a Conn. It is a separate type, so that the
// methods for engines are not exported to users.
type session Conn

var (
	_ engine.Protocol = (*session)(nil)
	_ engine.Prompted = (*session)(nil)
	_ engine.Sleeper  = (*session)(nil)
)

// Capabilities names what the engine may use; see engine.Protocol.
func (s *session) Capabilities() engine.Capabilities { return engine.CanPrompt | engine.CanSleep }

// Feed leaves the handler's call to Run, because a handler may block. It copies
// input only if a part of a message is already kept. Otherwise the handler gets the
// engine's buffer.
func (s *session) Feed(in []byte) (used int, next engine.Next) {
	if s.phase >= phaseEnded {
		return 0, engine.Close
	}
	if s.rest == nil {
		return 0, engine.Run
	}
	used = min(len(in), s.acceptor.cfg.maxBuffer-len(s.rest.B))
	s.rest.B = append(s.rest.B, in[:used]...)
	return used, engine.Run
}

// Run calls the handler; see engine.Protocol.
func (s *session) Run(out []byte) ([]byte, engine.Next) {
	s.out = out
	s.openNow()
	next := engine.Read
	if s.phase == phaseServing {
		if s.rest != nil {
			next = s.handleRest()
		} else {
			next = s.handleInput()
		}
	}
	if s.phase < phaseEnded {
		s.armDeadline()
	}
	return s.leave(next)
}

// Prompted sends what Senders have accepted; see engine.Prompted.
func (s *session) Prompted(out []byte) ([]byte, engine.Next) {
	s.out = out
	if s.phase == phaseOpening {
		s.openNow()
		s.armDeadline()
	}
	if s.phase == phaseServing && s.sender != nil {
		var isClosing bool
		if s.out, isClosing = s.sender.drain(s.out); isClosing {
			s.end(nil)
		}
	}
	return s.leave(engine.Read)
}

// handleInput calls the handler with the engine's input, and keeps what it does not
// use.
func (s *session) handleInput() engine.Next {
	in := s.conn.Buffered()
	used, next := s.consume(in)
	left := in[used:]
	switch {
	case len(left) == 0 || s.phase >= phaseEnded || next == engine.Run:
		s.conn.Discard(used) // the engine keeps the rest
		return next
	case len(left) >= s.acceptor.cfg.maxBuffer:
		s.end(ErrTooLarge)
		return engine.Read
	}
	s.rest = buf.Get(len(left))
	s.rest.B = append(s.rest.B, left...)
	s.conn.Discard(len(in))
	s.began = clock.Nanos()
	return engine.Read
}

// handleRest calls the handler with the kept input, to which Feed has added.
func (s *session) handleRest() engine.Next {
	used, next := s.consume(s.rest.B)
	left := len(s.rest.B) - used
	switch {
	case left == 0:
		s.releaseRest()
		return engine.Read
	case used > 0:
		s.rest.B = append(s.rest.B[:0], s.rest.B[used:]...)
		s.began = clock.Nanos()
	case left >= s.acceptor.cfg.maxBuffer && s.phase == phaseServing:
		s.end(ErrTooLarge)
	}
	return next
}

// consume calls the handler as long as it uses a part of in. The result Run means
// that the reply must be sent before the handler continues.
func (s *session) consume(in []byte) (used int, next engine.Next) {
	for used < len(in) {
		n := s.handle(in[used:])
		used += n
		switch {
		case s.phase >= phaseEnded || n == 0:
			return used, engine.Read
		case len(s.out) >= flushSize && used < len(in):
			return used, engine.Run
		}
	}
	return used, engine.Read
}

// handle calls the handler once and handles its results.
func (s *session) handle(in []byte) (used int) {
	defer s.recoverCallback()
	n, err := s.acceptor.cfg.handler((*Conn)(s), in)
	if n < 0 || n > len(in) {
		panic(fmt.Sprintf("the handler used %d of %d bytes", n, len(in)))
	}
	s.called(err)
	return n
}

// openNow calls OnOpen, if it was not called yet.
func (s *session) openNow() {
	if s.phase != phaseOpening {
		return
	}
	s.phase, s.isOpened = phaseServing, true
	defer s.recoverCallback()
	s.called(s.acceptor.cfg.onOpen((*Conn)(s)))
}

// called handles the error of a callback, and Conn.Detach.
func (s *session) called(err error) {
	switch {
	case s.phase >= phaseEnded: // a write failed, which is the cause of err
	case err == io.EOF:
		s.end(nil)
	case err != nil:
		s.end(err)
	case s.detach != nil:
		s.phase = phaseDetached
	}
}

// recoverCallback ends the connection of a callback that panicked.
func (s *session) recoverCallback() {
	if v := recover(); v != nil {
		s.acceptor.cfg.logger.Printf("panic while serving %v: %v\n%s", (*Conn)(s).RemoteAddr(), v, debug.Stack())
		if s.phase != phaseAborted {
			s.end(ErrPanicked)
		}
	}
}

// end closes the connection after pending output was sent. The first reason counts.
func (s *session) end(err error) {
	if s.err == nil {
		s.err = err
	}
	s.phase = phaseEnded
}

// leave ends a Run: it returns the reply and the next step. That is next, unless
// the connection's phase requires another one.
func (s *session) leave(next engine.Next) ([]byte, engine.Next) {
	if s.phase >= phaseEnded && s.sender != nil {
		s.out = s.sender.end(s.out)
	}
	out := s.out
	s.out = nil
	switch s.phase {
	case phaseEnded:
		next = engine.Close
		if s.rest != nil { // the peer is in the middle of a message
			next = engine.CloseLinger
		}
	case phaseAborted:
		next = engine.Abort
	case phaseDetached:
		next = engine.Detach
	}
	return out, next
}

// armDeadline sets the time-out of the next wait for input.
func (s *session) armDeadline() {
	if s.idleTimeout == 0 && s.readTimeout == 0 && !s.ownTimeouts {
		return
	}
	now, wait := clock.Nanos(), s.idleTimeout
	if s.rest != nil && s.readTimeout > 0 {
		// The shorter time-out counts. It must not become 0, which means for ever.
		left := max(s.readTimeout+time.Duration(s.began-now), 1)
		if wait == 0 || left < wait {
			wait = left
		}
	}
	s.conn.SetReadDeadline(now, wait)
}

// TimedOut ends a connection whose wait for input took too long.
func (s *session) TimedOut(out []byte) ([]byte, engine.Next) {
	s.out = out
	s.end(os.ErrDeadlineExceeded)
	return s.leave(engine.Close)
}

// HalfClosed ends a connection whose peer has ended its input. Kept input is then an
// incomplete message.
func (s *session) HalfClosed(out []byte) []byte {
	s.out = out
	if s.rest != nil {
		s.end(io.ErrUnexpectedEOF)
	} else {
		s.end(nil)
	}
	out, _ = s.leave(engine.Close)
	return out
}

// Pause reports whether the connection is between messages.
func (s *session) Pause() (isIdle bool) { return s.rest == nil && s.phase != phaseOpening }

func (s *session) releaseRest() {
	if s.rest != nil {
		s.rest.ReleaseHeld()
		s.rest = nil
	}
}
