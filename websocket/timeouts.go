package websocket

import (
	"os"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// An awaited is what the deadline of the connection is for.
type awaited uint8

const (
	awaitsInput awaited = iota // between messages, or in one
	awaitsPong                 // a ping is sent because of silence; any input answers it
	awaitsClose                // the peer's Close frame: Endpoint.CloseWithin
)

// heard notes that the peer has sent something, which answers a ping because of silence.
func (s *session) heard() {
	if s.awaits == awaitsPong {
		s.awaits = awaitsInput
	}
}

// arm sets the time-out of the next wait for input. There is one: while a message is
// incomplete, it is that of the message, otherwise that of the peer's silence.
func (s *session) arm() {
	if !s.armClosing() {
		s.armOpen(s.host.server.Closing())
	}
}

// armOpen is arm in a call that ends with leave, which sets the time-out of a connection that
// is closing.
func (s *session) armOpen(closing upgrade.Closing) {
	if s.awaits == awaitsClose {
		return
	}
	now := s.arrived // a clock less to read for a message
	s.arrived = 0
	if s.reader.IsBetween() {
		s.began = 0
		after := time.Duration(0)
		if s.host.pingAfter > 0 {
			after = s.pingAfter()
		}
		if closing == upgrade.CloseSoon && s.leavesSoon() {
			after = s.untilAway(after)
		}
		if after > 0 && now == 0 {
			now = clock.Nanos()
		}
		s.engine.SetReadDeadline(now, after)
		return
	}
	if s.began == 0 || s.isInParts {
		s.began = clock.Nanos()
	}
	s.engine.SetReadDeadline(s.began, s.host.messageWithin)
}

// untilAway returns how long a connection waits for input that leaves soon, at most after;
// 0: without a limit.
func (s *session) untilAway(after time.Duration) time.Duration {
	left := max(time.Duration(s.host.restartAt(s.conn.index)-clock.Nanos()), 1)
	if after == 0 || left < after {
		return left
	}
	return after
}

// pingAfter is that of the Endpoint, spread by a fifth, so that the pings of many
// connections that were opened together do not come together.
func (s *session) pingAfter() time.Duration {
	return upgrade.Around(s.conn.index, s.host.pingAfter)
}

// armClosing sets the time-out for the peer's Close frame.
func (s *session) armClosing() (isClosing bool) {
	s.conn.lock().Lock()
	isClosing = s.conn.phase != phaseOpen
	s.conn.lock().Unlock()
	if isClosing && s.awaits != awaitsClose {
		s.awaits = awaitsClose
		s.engine.SetReadDeadline(clock.Nanos(), s.host.closeWithin)
	}
	return isClosing
}

// TimedOut sends a ping after silence, and otherwise ends the connection.
func (s *session) TimedOut(out []byte) ([]byte, engine.Next) {
	s.begin(out, flushSize, false)
	wasLeaving := s.awaits == awaitsClose
	s.goAway()
	switch {
	case s.armClosing():
		if wasLeaving {
			s.abort(os.ErrDeadlineExceeded)
		}
	case !s.reader.IsBetween():
		s.fail(&CloseError{Code: CodePolicy, Reason: "a message took too long"})
	case s.awaits == awaitsPong:
		s.abort(&CloseError{Code: CodeAbnormal, Reason: "no answer to a ping", Cause: os.ErrDeadlineExceeded})
	default:
		s.awaits = awaitsPong
		s.conn.lock().Lock()
		s.out = ws.AppendWhole(s.out, s.host.head(ws.OpPing), nil)
		s.conn.lock().Unlock()
		s.engine.SetReadDeadline(clock.Nanos(), s.host.pongWithin)
	}
	return s.leave(engine.Read)
}
