package websocket

import (
	"math"
	"net"
	"os"
	"strings"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// flushSize is the size of pending output from which the session lets the engine send it
// before it handles more input.
const flushSize = 32 << 10

// A session is the engine.Protocol of a Conn that is awake.
type session struct {
	host    *host
	conn    *Conn
	engine  engine.Conn
	loop    *loop // of Endpoint.Accept; nil: callbacks
	reader  ws.Reader
	partial *buf.Buffer // the beginning of a message; nil: none
	fed     fed         // what Feed has found for Run
	began   int64       // when the message, or frame, that is incomplete began; 0: there is none
	read    int         // bytes of input, since the last call in which they were counted

	controls  controls
	isPinged  bool // a ping is sent because of silence; any input answers it
	stays     bool // it does not move: no other process wants it
	isCarried bool // by HTTP/2, which counts the bytes
	isOpening bool // in open, or Unpack
	isInParts bool // the loop gets the message that arrives in parts
	isLeaving bool // the deadline is that of Endpoint.CloseWithin

	// The lock of conn guards these.
	run     runPhase
	ending  ending
	out     []byte        // output that the engine does not have yet, while run is not notRunning
	counted int           // bytes at the beginning of out that are counted already
	waking  chan struct{} // for loop.wake; nil: not used yet
	flushed chan struct{} // closed after flushing; nil: leave does not wait for it
	err     error         // why the connection ends; the first reason counts

	owned invariants.Pooled // by the engine
}

// A runPhase tells whether a call of the engine is running, which sends what is written.
type runPhase uint8

const (
	notRunning runPhase = iota
	running
	flushing // output is written; what comes meanwhile waits in the outbox, and the call does not return
)

// An ending is how the connection ends after the current call.
type ending uint8

const (
	endNot ending = iota
	endClose
	endLinger // the peer may be sending
	endAbort
)

var (
	_ engine.Protocol = (*session)(nil)
	_ engine.Packer   = (*session)(nil)
	_ engine.Prompted = (*session)(nil)
	_ engine.Receiver = (*session)(nil)
	_ engine.Sleeper  = (*session)(nil)
	_ engine.Starter  = (*session)(nil)
)

// Capabilities implements engine.Protocol.
func (s *session) Capabilities() engine.Capabilities {
	can := engine.CanStart | engine.CanPrompt | engine.CanReceive | engine.CanSleep | engine.SaysGoodbye
	if s.host.isMovable() {
		can |= engine.CanPack
	}
	return can
}

// open calls OnOpen, or begins the loop. out has the answer to the handshake.
func (s *session) open(out []byte, serve func(*Conn) error) []byte {
	s.callOpen(out, serve)
	out, _ = s.leave(engine.Read)
	return out
}

// callOpen is open without the end of the call.
func (s *session) callOpen(out []byte, serve func(*Conn) error) {
	s.begin(out, math.MaxInt)
	s.counted, s.isOpening = len(out), true
	if serve != nil {
		go s.conn.serve(serve)
	} else if f := s.host.Endpoint.OnOpen; f != nil {
		s.call(func(c *Conn) error { return f(c) })
	}
	s.arm()
}

// Start implements engine.Starter.
func (s *session) Start() engine.Next {
	if s.ending == endAbort { // in OnOpen
		return engine.Abort
	}
	return engine.Read
}

// Run handles input; see engine.Protocol.
func (s *session) Run(out []byte) ([]byte, engine.Next) {
	limit := flushSize
	hasInput := len(s.engine.Buffered()) > 0 || !s.fed.isNothing()
	if hasInput {
		limit, s.isPinged = math.MaxInt, false
	}
	s.begin(out, limit)
	s.handleFed()
	next := s.handleInput()
	if s.readMeanwhile() {
		hasInput = true
	}
	s.goAway()
	if hasInput { // output does not end the peer's silence
		s.arm()
	}
	return s.leave(next)
}

// Prompted sends what was written meanwhile; see engine.Prompted.
func (s *session) Prompted(out []byte) ([]byte, engine.Next) {
	s.begin(out, flushSize)
	if s.readMeanwhile() {
		s.isPinged = false
		s.arm()
	}
	s.goAway()
	if s.host.server.Closing() != upgrade.CloseNot && !s.isPinged {
		s.arm() // the time of its end
	}
	return s.leave(engine.Read)
}

// begin starts a call of the engine. It takes frames from the outbox until there are limit
// bytes of output. A call that may call the program takes all, because what the program
// writes is sent during the call only if the outbox is empty.
func (s *session) begin(out []byte, limit int) {
	s.conn.lock().Lock()
	defer s.conn.lock().Unlock()
	s.run, s.out, s.counted = running, out, len(out)
	if s.conn.more.pending != nil {
		s.take(limit)
		s.conn.more.makeRoom()
	}
}

// take moves frames from the outbox to the output, until that has limit bytes. The lock is
// held.
func (s *session) take(limit int) {
	m := s.conn.more
	if m.pending == nil {
		return
	}
	var hasMore bool
	if s.out, hasMore = m.pending.take(s.out, limit); !hasMore {
		m.dropOutbox()
	}
}

// leave ends a call of the engine.
func (s *session) leave(next engine.Next) ([]byte, engine.Next) {
	mu := s.conn.lock()
	mu.Lock()
	s.awaitFlush()
	if s.ending == endClose || s.ending == endLinger { // no call follows
		s.take(math.MaxInt)
	}
	out, written, how := s.out, len(s.out)-s.counted, s.ending
	if s.conn.more.pending != nil && next == engine.Read {
		next = engine.Run // when this output is written
	}
	if s.isOpening { // whoever sends it counts it
		s.isOpening, written = false, 0
	}
	s.run, s.out = notRunning, nil
	s.conn.more.makeRoom()
	isClosing := s.conn.phase != phaseOpen
	mu.Unlock()
	if isClosing { // perhaps since arm: no call follows that would set the time-out
		s.armClosing()
	}
	s.count(s.read, written)
	s.read = 0
	switch how {
	case endClose:
		next = engine.Close
	case endLinger:
		next = engine.CloseLinger
	case endAbort:
		next = engine.Abort
	}
	return out, next
}

// leaveToOutbox ends a call that is not the engine's. Its output waits in the outbox, before
// what others write from then on.
func (s *session) leaveToOutbox() {
	s.conn.lock().Lock()
	defer s.conn.lock().Unlock()
	s.awaitFlush()
	s.take(math.MaxInt)
	out, m := s.out, s.conn.more
	s.run, s.out, s.isOpening = notRunning, nil, false
	if len(out) > 0 {
		s.conn.waiting(m).addRaw(out)
	}
	m.makeRoom()
}

// awaitFlush waits until no other goroutine writes output; the lock is held, but not while it
// waits.
func (s *session) awaitFlush() {
	for s.run == flushing {
		flushed := make(chan struct{})
		s.flushed = flushed
		s.conn.lock().Unlock()
		<-flushed
		s.conn.lock().Lock()
	}
}

// handleInput handles what the engine has read. The result Run means that output must be
// sent before there is more.
func (s *session) handleInput() engine.Next {
	for {
		in := s.engine.Buffered()
		if len(in) == 0 {
			return engine.Read
		}
		if s.loop != nil {
			if op, isDeflated, ok := s.reader.Begins(in); ok {
				s.beginMessage(op, isDeflated)
			}
		}
		used, p, err := s.reader.Next(in)
		s.read += used
		switch {
		case err != nil:
			s.violated(err.(*ws.Error))
		case p.Opcode.IsControl():
			s.handleControl(p)
		case p.Opcode != ws.OpContinuation:
			s.handlePiece(p)
		}
		s.engine.Discard(used)
		if isEnding, hasMuch := s.state(); isEnding || used == len(in) {
			return engine.Read
		} else if hasMuch {
			return engine.Run
		}
	}
}

// state tells whether the connection ends after this call, and whether there is much
// output, or, with callbacks, some that is being written.
func (s *session) state() (isEnding, hasMuch bool) {
	s.conn.lock().Lock()
	defer s.conn.lock().Unlock()
	return s.ending != endNot, len(s.out) >= flushSize || s.run == flushing && s.loop == nil
}

// deliver passes a message to the program, unless the connection is closing.
func (s *session) deliver(m Message) {
	s.conn.lock().Lock()
	isOpen, loop := s.conn.phase == phaseOpen, s.conn.more.loop()
	s.conn.lock().received++
	s.conn.lock().Unlock()
	switch f := s.host.Endpoint.OnMessage; {
	case !isOpen:
	case loop != nil:
		s.hand(loop, handed{Message: m})
	case f != nil:
		s.callMessage(f, m)
	}
}

// handleControl handles a control frame.
func (s *session) handleControl(p ws.Piece) {
	if p.Opcode == ws.OpClose {
		s.handleClose(p.Payload)
		return
	}
	if !s.controls.add() {
		s.fail(&CloseError{Code: CodePolicy, Reason: "too many control frames"})
		return
	}
	if p.Opcode == ws.OpPong {
		s.conn.ponged(p.Payload)
		return
	}
	s.conn.lock().Lock()
	defer s.conn.lock().Unlock()
	if s.conn.phase == phaseOpen {
		s.out = ws.AppendWhole(s.out, s.host.head(ws.OpPong), p.Payload)
	}
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
	s.note(&CloseError{Code: Code(code), Reason: string(reason), IsRemote: true})
	if s.conn.phase == phaseOpen {
		var answer [2]byte
		s.out = ws.AppendWhole(s.out, s.host.head(ws.OpClose), ws.AppendClose(answer[:0], code, ""))
	}
	if s.host.isClient && s.conn.phase != phaseClosed { // the server ends the connection (RFC 6455 section 7.1.1)
		s.conn.phase = phaseClosed
		s.conn.more.makeRoom()
		return
	}
	s.end(endClose)
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
		s.conn.more.dropOutbox() // the Close frame follows what is on its way
		s.conn.close(err)
	}
	s.note(err)
	s.end(endLinger)
}

// end ends the connection after this call; the lock is held.
func (s *session) end(how ending) {
	s.conn.phase = max(s.conn.phase, phaseClosed)
	s.ending = max(s.ending, how)
	s.conn.more.makeRoom()
}

// note stores why the connection ends; the lock is held.
func (s *session) note(err error) {
	if s.err == nil {
		s.err = err
	}
}

// goAway sends a Close frame if the server shuts down, and at the connection's time if
// another process replaces this one and does not take the connection over.
func (s *session) goAway() {
	switch s.host.server.Closing() {
	case upgrade.CloseSoon:
		if s.leavesSoon() && clock.Nanos() >= s.host.restartAt(s.conn.index) {
			s.sendAway(CodeServiceRestart, "the server restarts")
		}
	case upgrade.CloseNow:
		s.sendAway(CodeGoingAway, "the server shuts down")
	}
}

func (s *session) sendAway(code Code, reason string) {
	s.conn.lock().Lock()
	defer s.conn.lock().Unlock()
	if s.conn.phase == phaseOpen {
		s.conn.close(&CloseError{Code: code, Reason: reason})
	}
}

// count counts bytes of the connection.
func (s *session) count(read, written int) {
	if !s.isCarried {
		s.host.server.Count(read, written)
	}
}

// leavesSoon tells whether the connection ends when another process replaces this one.
func (s *session) leavesSoon() bool { return s.stays || !s.host.isMovable() }

// armClosing sets the time-out for the peer's Close frame.
func (s *session) armClosing() (isClosing bool) {
	s.conn.lock().Lock()
	isClosing = s.conn.phase != phaseOpen
	s.conn.lock().Unlock()
	if isClosing && !s.isLeaving {
		s.isLeaving = true
		s.engine.SetReadDeadline(clock.Nanos(), s.host.closeWithin)
	}
	return isClosing
}

// arm sets the time-out of the next wait for input. There is one: while a message is
// incomplete, it is that of the message, otherwise that of the peer's silence.
func (s *session) arm() {
	if s.armClosing() {
		return
	}
	now := clock.Nanos()
	if s.reader.IsBetween() {
		s.began = 0
		s.engine.SetReadDeadline(now, s.silence(now))
		return
	}
	if s.began == 0 || s.isInParts {
		s.began = now
	}
	s.engine.SetReadDeadline(s.began, s.host.messageWithin)
}

// silence returns how long a connection that is between messages waits for input.
func (s *session) silence(now int64) time.Duration {
	after := s.pingAfter()
	if s.host.server.Closing() == upgrade.CloseSoon && s.leavesSoon() {
		left := max(time.Duration(s.host.restartAt(s.conn.index)-now), 1)
		if after == 0 || left < after {
			return left
		}
	}
	return after
}

// pingAfter is that of the Endpoint, spread by a fifth, so that the pings of many
// connections that were opened together do not come together.
func (s *session) pingAfter() time.Duration {
	return upgrade.Around(s.conn.index, s.host.pingAfter)
}

// TimedOut sends a ping after silence, and otherwise ends the connection.
func (s *session) TimedOut(out []byte) ([]byte, engine.Next) {
	s.begin(out, flushSize)
	wasLeaving := s.isLeaving
	s.goAway()
	switch {
	case s.armClosing():
		if wasLeaving {
			s.abort(os.ErrDeadlineExceeded)
		}
	case !s.reader.IsBetween():
		s.fail(&CloseError{Code: CodePolicy, Reason: "a message took too long"})
	case s.isPinged:
		s.abort(&CloseError{Code: CodeAbnormal, Reason: "no answer to a ping", Cause: os.ErrDeadlineExceeded})
	default:
		s.isPinged = true
		s.conn.lock().Lock()
		s.out = ws.AppendWhole(s.out, s.host.head(ws.OpPing), nil)
		s.conn.lock().Unlock()
		s.engine.SetReadDeadline(clock.Nanos(), s.host.pongWithin)
	}
	return s.leave(engine.Read)
}

// abort ends the connection at once.
func (s *session) abort(err error) {
	s.conn.lock().Lock()
	defer s.conn.lock().Unlock()
	s.note(err)
	s.end(endAbort)
}

// HalfClosed ends a connection whose peer sends no more; see engine.Protocol.
func (s *session) HalfClosed(out []byte) []byte {
	s.begin(out, flushSize)
	s.conn.lock().Lock()
	s.note(&CloseError{Code: CodeAbnormal, Reason: "the peer has ended the connection", IsRemote: true})
	s.end(endClose)
	s.conn.lock().Unlock()
	out, _ = s.leave(engine.Close)
	return out
}

// Detached implements engine.Protocol; it is never called.
func (s *session) Detached(c net.Conn) { _ = c.Close() }

// Pause implements engine.Protocol.
func (s *session) Pause() (isIdle bool) {
	if !s.reader.IsBetween() {
		return false
	}
	s.conn.lock().Lock()
	defer s.conn.lock().Unlock()
	return s.conn.phase == phaseOpen && s.conn.writing() == nil
}

// Sleep releases s while the connection is idle; see engine.Sleeper.
func (s *session) Sleep() (engine.Memo, bool) {
	c := s.conn
	c.lock().Lock()
	if closing, ok := s.err.(*CloseError); ok {
		c.more.rarely().closing = closing // another goroutine has called Close meanwhile
	}
	c.more.session = nil
	if !c.more.keeps() {
		releaseExtra(c.more)
		c.more = nil
	}
	c.lock().Unlock()
	bits := uint64(0)
	if s.isPinged {
		bits |= memoPinged
	}
	if s.stays {
		bits |= memoStays
	}
	if s.isCarried {
		bits |= memoCarried
	}
	m := s.host.server.Memo(bits, uint64(c.index), int64(s.controls))
	releaseSession(s)
	return m, true
}
