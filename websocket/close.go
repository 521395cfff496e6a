package websocket

import (
	"errors"
	"math"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// Close sends a Close frame and returns at once. The connection ends when the peer has
// answered, or after Endpoint.CloseWithin. OnMessage is not called any more. reason is for
// logs, at most 123 bytes of UTF-8. With CodeNone the frame has neither. It returns
// ErrCode if code or reason must not be sent, and ErrClosed if c is closing already.
func (c *Conn) Close(code Code, reason string) error {
	if code != CodeNone && !ws.Code(code).MaySend() || len(reason) > ws.MaxReason || !utf8.ValidString(reason) {
		return ErrCode
	}
	c.lock().Lock()
	defer c.lock().Unlock()
	if c.phase != phaseOpen {
		return c.endedLocked()
	}
	c.closeLocked(&CloseError{Code: code, Reason: reason})
	return nil
}

// closeLocked sends a Close frame. err is why, for OnClose. c is open.
func (c *Conn) closeLocked(err *CloseError) {
	m := c.ensureStateLocked()
	if m.session != nil {
		m.session.noteLocked(err)
	} else {
		m.ensureCallsLocked().closing = err
	}
	var body [ws.MaxControl]byte
	m.dropBehindLocked()
	c.appendFrameLocked(ws.Head{Opcode: ws.OpClose}, ws.AppendClose(body[:0], ws.Code(err.Code), err.Reason))
	c.phase = phaseClosing
	if l := m.loopLocked(); l != nil && l.kind == dialLoop { // no further Read is needed
		l.isDone = true
		l.notifyLocked()
	}
	m.makeRoomLocked() // writers return ErrClosed
}

// leave ends a call of the engine.
func (s *session) leave(next engine.Next) ([]byte, engine.Next) {
	c, mu := s.conn, s.conn.lock()
	mu.Lock()
	if m := c.guarded; m.calls == nil && m.pending == nil && c.phase == phaseOpen && s.loop == nil && s.err == nil && s.run == running && s.ending == endNot && !s.isOpening {
		out, written := s.out, len(s.out)-s.counted // most messages: nothing else has happened
		s.run, s.isResting, s.isDetached, m.session = notRunning, true, true, nil
		if !m.keepsLocked() {
			s.dropStateLocked()
		}
		mu.Unlock()
		s.count(s.read, written)
		s.read = 0
		return out, next
	}
	if s.run == flushing {
		s.awaitFlushLocked()
	}
	if s.ending != endNot {
		next = s.endingLocked()
	} else if c.guarded.pending != nil && next == engine.Read {
		next = engine.Run // when this output is written
	}
	out, written := s.out, len(s.out)-s.counted
	if s.isOpening { // whoever sends it counts it
		s.isOpening, written = false, 0
	}
	s.restLocked()
	s.out = nil
	c.guarded.makeRoomLocked()
	isClosing := c.phase != phaseOpen
	if s.isResting && s.loop == nil && s.err == nil { // what Retire would need the lock for
		s.detachLocked()
	}
	mu.Unlock()
	if isClosing { // perhaps since arm: no call follows that would set the time-out
		s.armClosing()
	}
	s.count(s.read, written)
	s.read = 0
	return out, next
}

// endingLocked returns the step that ends the connection.
func (s *session) endingLocked() engine.Next {
	if s.ending == endAbort {
		return engine.Abort
	}
	s.takeLocked(math.MaxInt) // no call follows
	if s.ending == endLinger {
		return engine.CloseLinger
	}
	return engine.Close
}

// handleClose handles the peer's Close frame (RFC 6455 section 5.5.1).
func (s *session) handleClose(body []byte) {
	code, reason, err := ws.ParseClose(body)
	if err != nil {
		s.violated(err.(*ws.Error))
		return
	}
	s.conn.lock().Lock()
	defer s.conn.lock().Unlock()
	s.noteLocked(&CloseError{Code: Code(code), Reason: string(reason), IsRemote: true})
	if s.conn.phase == phaseOpen {
		var answer [2]byte
		s.conn.appendFrameLocked(ws.Head{Opcode: ws.OpClose}, ws.AppendClose(answer[:0], code, "")) // after what waits
	}
	if s.host.isClient && s.conn.phase != phaseClosed { // the server ends the connection (RFC 6455 section 7.1.1)
		s.conn.phase = phaseClosed
		s.conn.guarded.makeRoomLocked()
		return
	}
	s.endLocked(endClose)
}

// violated closes the connection because of what the peer has sent.
func (s *session) violated(err *ws.Error) {
	s.fail(&CloseError{Code: Code(err.Code), Reason: strings.TrimPrefix(err.Error(), "sluice: websocket: "), Cause: err})
}

// fail closes the connection without waiting for the peer's answer (RFC 6455 section
// 7.1.7).
func (s *session) fail(err *CloseError) {
	s.conn.lock().Lock()
	defer s.conn.lock().Unlock()
	if s.conn.phase == phaseOpen {
		s.conn.guarded.dropOutboxLocked() // the Close frame follows what is on its way
		s.conn.closeLocked(err)
	}
	s.noteLocked(err)
	s.endLocked(endLinger)
}

// endLocked ends the connection after this call.
func (s *session) endLocked(how ending) {
	s.conn.phase = max(s.conn.phase, phaseClosed)
	s.ending = max(s.ending, how)
	s.conn.guarded.makeRoomLocked()
}

// noteLocked stores why the connection ends.
func (s *session) noteLocked(err error) {
	if s.err == nil {
		s.err = err
	}
}

// goAway sends a Close frame if the server shuts down, and at the connection's time if
// another process replaces this one and does not take the connection over.
func (s *session) goAway() upgrade.Closing {
	if !s.host.life.Has(engine.StageClosing) {
		return upgrade.CloseNot
	}
	return s.goAwaySoon()
}

// goAwaySoon is goAway for a server that is closing.
func (s *session) goAwaySoon() upgrade.Closing {
	closing := s.host.server.Closing()
	switch closing {
	case upgrade.CloseSoon:
		if s.leavesSoon() && clock.Nanos() >= s.host.restartAt(s.conn.index) {
			s.sendAway(CodeServiceRestart, "the server restarts")
		}
	case upgrade.CloseNow:
		s.sendAway(CodeGoingAway, "the server shuts down")
	}
	return closing
}

func (s *session) sendAway(code Code, reason string) {
	s.conn.lock().Lock()
	defer s.conn.lock().Unlock()
	if s.conn.phase == phaseOpen {
		s.conn.closeLocked(&CloseError{Code: code, Reason: reason})
	}
}

// leavesSoon reports whether the connection ends when another process replaces this one.
func (s *session) leavesSoon() bool { return s.stays || !s.host.isMovable() }

// abort ends the connection at once.
func (s *session) abort(err error) {
	s.conn.lock().Lock()
	defer s.conn.lock().Unlock()
	s.noteLocked(err)
	s.endLocked(endAbort)
}

// panicked logs a panic of the program and closes c.
func (c *Conn) panicked(v any) {
	c.host.server.Printf("panic while serving a WebSocket: %v\n%s", v, debug.Stack())
	c.closeFor(&CloseError{Code: CodeInternal})
}

// closeFor closes c because the program has returned err.
func (c *Conn) closeFor(err error) {
	c.lock().Lock()
	defer c.lock().Unlock()
	if c.phase != phaseOpen {
		return
	}
	frame := &CloseError{Code: CodeInternal}
	var wanted *CloseError
	if errors.As(err, &wanted) && (wanted.Code == CodeNone || ws.Code(wanted.Code).MaySend()) {
		frame.Code, frame.Reason = wanted.Code, strings.ToValidUTF8(wanted.Reason, "\uFFFD")
	}
	if s := c.guarded.session; s != nil && wanted == nil {
		s.noteLocked(err) // OnClose gets it
	}
	c.closeLocked(frame)
}
