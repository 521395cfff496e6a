package websocket

import (
	"context"
	"math"
	"net"
	"runtime/debug"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

var (
	_ engine.Protocol = (*session)(nil)
	_ engine.Packer   = (*session)(nil)
	_ engine.Prompted = (*session)(nil)
	_ engine.Receiver = (*session)(nil)
	_ engine.Reusable = (*session)(nil)
	_ engine.Sleeper  = (*session)(nil)
	_ engine.Starter  = (*session)(nil)
)

// Capabilities implements engine.Protocol.
func (s *session) Capabilities() engine.Capabilities {
	can := engine.CanStart | engine.CanPrompt | engine.CanReceive | engine.CanSleep | engine.CanReuse | engine.SaysGoodbye
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
	s.begin(out, math.MaxInt, false)
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
	if !s.fed.isNothing() {
		return s.runParts(out)
	}
	in := s.engine.Buffered()
	used, op, data := s.reader.Whole(in)
	if used == 0 {
		return s.runParts(out)
	}
	s.heard()
	s.read += used
	if isOpen := s.begin(out, math.MaxInt, op != ws.OpContinuation); op == ws.OpContinuation {
		s.violated(ws.ErrText)
	} else if isOpen {
		s.pass(Message{Kind: Kind(op), Data: data})
	}
	s.engine.Discard(used)
	next := engine.Read
	if used < len(in) {
		var isOver bool
		if next, isOver = s.isOver(); !isOver {
			next = s.handleInput()
		}
	}
	if s.loop != nil {
		s.readMeanwhile()
	}
	s.armOpen(s.goAway())
	return s.leave(next)
}

// runParts is Run for input that does not begin with a whole message, or for none.
func (s *session) runParts(out []byte) ([]byte, engine.Next) {
	limit := flushSize
	hasInput := len(s.engine.Buffered()) > 0 || !s.fed.isNothing()
	if hasInput {
		limit = math.MaxInt
		s.heard()
	}
	s.begin(out, limit, false)
	s.handleFed()
	next := s.handleInput()
	if s.loop != nil && s.readMeanwhile() {
		hasInput = true
	}
	closing := s.goAway()
	if hasInput { // output does not end the peer's silence
		s.armOpen(closing)
	}
	return s.leave(next)
}

// Prompted sends what was written meanwhile; see engine.Prompted.
func (s *session) Prompted(out []byte) ([]byte, engine.Next) {
	s.begin(out, flushSize, false)
	hasRead := s.loop != nil && s.readMeanwhile()
	if hasRead {
		s.heard()
	}
	closing := s.goAway()
	if hasRead || closing != upgrade.CloseNot && s.awaits != awaitsPong {
		s.armOpen(closing) // also the time of its end
	}
	return s.leave(engine.Read)
}

// begin starts a call of the engine. It takes frames from the outbox until there are limit
// bytes of output. A call that may call the program takes all, because what the program
// writes is sent during the call only if the outbox is empty. isMessage counts a message; isOpen
// reports whether the program gets it.
func (s *session) begin(out []byte, limit int, isMessage bool) (isOpen bool) {
	mu := s.conn.lock()
	mu.Lock()
	m := s.conn.guarded
	if m == nil || m.identity != nil || m.calls != nil {
		s.attachLocked()
		m = s.conn.guarded
	} else { // attachLocked, in fewer instructions
		s.isDetached, s.loop, m.session = false, nil, s
	}
	if isMessage {
		mu.received++
	}
	isOpen = s.conn.phase == phaseOpen
	s.run, s.out, s.counted = running, out, len(out)
	if m.pending != nil {
		s.takeLocked(limit)
		m.makeRoomLocked()
	}
	mu.Unlock()
	return isOpen
}

// leaveToOutbox ends a call that is not the engine's. Its output waits in the outbox, before
// what others write from then on.
func (s *session) leaveToOutbox() {
	s.conn.lock().Lock()
	defer s.conn.lock().Unlock()
	s.awaitFlushLocked()
	s.takeLocked(math.MaxInt)
	out, m := s.out, s.conn.guarded
	s.restLocked()
	s.out, s.isOpening = nil, false
	if len(out) > 0 {
		s.conn.waitingLocked(m).addRaw(out)
	}
	m.makeRoomLocked()
}

// restLocked is the end of a call.
func (s *session) restLocked() {
	s.run = notRunning
	s.isResting = s.conn.phase == phaseOpen && s.conn.writingLocked() == nil
}

// HalfClosed ends a connection whose peer sends no more; see engine.Protocol.
func (s *session) HalfClosed(out []byte) []byte {
	s.begin(out, flushSize, false)
	s.conn.lock().Lock()
	s.noteLocked(&CloseError{Code: CodeAbnormal, Reason: "the peer has ended the connection", IsRemote: true})
	s.endLocked(endClose)
	s.conn.lock().Unlock()
	out, _ = s.leave(engine.Close)
	return out
}

// Detached implements engine.Protocol; it is never called.
func (s *session) Detached(c net.Conn) { _ = c.Close() }

// Pause implements engine.Protocol.
func (s *session) Pause() (isIdle bool) {
	return s.isResting && s.reader.IsBetween()
}

// Sleep releases s while the connection is idle; see engine.Sleeper.
func (s *session) Sleep() (engine.Memo, bool) {
	m := s.Retire()
	releaseSession(s)
	return m, true
}

// Release implements engine.Reusable.
func (s *session) Release() { releaseSession(s) }

// Retire returns what Sleep does; see engine.Reusable.
func (s *session) Retire() engine.Memo {
	if !s.isDetached { // otherwise the end of the last call has done it
		mu := s.conn.lock()
		mu.Lock()
		if closing, ok := s.err.(*CloseError); ok { // another goroutine has called Close meanwhile
			s.conn.guarded.ensureCallsLocked().closing = closing
		}
		s.detachLocked()
		mu.Unlock()
	}
	bits := uint64(0)
	if s.awaits == awaitsPong {
		bits |= memoPinged
	}
	if s.stays {
		bits |= memoStays
	}
	if s.overHTTP2 {
		bits |= memoHTTP2
	}
	m := engine.Memo{ID: uint64(s.conn.index)<<memoBits | bits, Served: s.host.mark, Opened: int64(s.controls)}
	s.conn, s.engine, s.loop, s.err, s.isResting = nil, nil, nil, nil, false
	return m
}

// Reuse restores what Retire of this or of another session of the host has returned; see
// engine.Reusable.
func (s *session) Reuse(conn engine.Conn, left engine.Memo, arrived int64) bool {
	if left.Served != s.host.mark { // of another host, or of HTTP
		return false
	}
	s.serve(s.host.conns.get(uint32(left.ID>>memoBits)), conn)
	s.wake(left)
	s.arrived = arrived
	return true
}

// call calls a callback before the engine has s.
func (s *session) call(f func(*Conn) error) {
	hasReturned := false
	defer func() {
		switch v := recover(); {
		case v != nil:
			s.recovered(v)
		case !hasReturned: // Goexit: the engine does not get s
			s.exited()
		}
	}()
	s.called(f(s.conn))
	hasReturned = true
}

// exited ends a connection whose goroutine ends before the engine has s.
func (s *session) exited() {
	s.conn.lock().Lock()
	s.awaitFlushLocked()
	s.conn.lock().Unlock()
	s.Closed(&CloseError{Code: CodeInternal})
}

// Closed handles the end of the connection; see engine.Protocol.
func (s *session) Closed(err error) {
	c := s.conn
	c.lock().Lock()
	s.attachLocked()
	isMoved := c.phase == phaseMoved
	c.phase = max(c.phase, phaseClosed)
	if err == nil {
		err = net.ErrClosed // by Shutdown, unless there is another reason
	}
	s.noteLocked(err)
	s.run = running // the addresses are known
	m := c.guarded
	m.makeRoomLocked()
	r := m.calls
	if r == nil {
		r = &callState{}
	}
	r.endPingsLocked(len(r.pings))
	m.dropOutboxLocked()
	m.dropBehindLocked()
	err = s.err
	c.lock().closed++
	c.lock().Unlock()
	if !isMoved {
		s.host.closes.count(err)
	}
	if r.cancel != nil {
		r.cancel(err)
	}
	c.leaveGroups()
	switch f := s.host.Endpoint.OnClose; {
	case s.loop != nil:
		s.loop.end(err)
	case f != nil && !isMoved:
		s.callClose(f, err)
	}
	if s.partial != nil {
		s.partial.ReleaseHeld()
	}
	c.lock().Lock()
	c.guarded = nil // m is not used again: other goroutines may know its channels
	if s.loop != nil {
		c.guarded = &connState{identity: &identity{number: m.identity.number, loop: s.loop}} // Read returns its error
	}
	c.lock().Unlock()
	s.host.conns.remove(c.index)
	releaseSession(s)
}

// callClose calls OnClose.
func (s *session) callClose(f func(*Conn, error), err error) {
	defer func() {
		if v := recover(); v != nil {
			s.host.server.Printf("panic in OnClose of a WebSocket: %v\n%s", v, debug.Stack())
		}
	}()
	f(s.conn, err)
}

// open begins a connection; see upgrade.Takeover.
func (h *host) open(conn engine.Conn, out []byte, o opening) (engine.Protocol, []byte) {
	s := h.begin(conn, o)
	return s, s.open(out, o.serve)
}

// begin makes the Conn and the session of a connection.
func (h *host) begin(conn engine.Conn, o opening) *session {
	c := h.conns.add()
	c.host, c.target, c.protocol = h, conn.Target(), o.protocol
	c.lock().Lock()
	c.lock().opened++
	if o.out != 0 {
		c.deflateLocked(o.out, o.in)
	}
	if w := c.windowsLocked(); w != nil {
		w.received = append(w.received, o.window...)
	}
	s := acquireSession(h, c, conn)
	s.stays, s.overHTTP2 = o.stays, o.overHTTP2
	m := c.ensureStateLocked()
	m.session, m.value = s, o.state
	if c.target.Generation == 0 {
		a := m.ensureIdentityLocked()
		a.prompter, a.number = conn.Prompter(), h.numbers.Add(1)
	}
	if o.loop != noLoop {
		s.loop = newLoop(o.loop)
		a := m.ensureIdentityLocked()
		a.loop, a.remote, a.local = s.loop, conn.RemoteAddr(), conn.LocalAddr()
	}
	c.lock().Unlock()
	if f := o.ended; f != nil {
		end := c.Context()
		context.AfterFunc(end, func() { f(context.Cause(end)) })
	}
	conn.SetWriteTimeout(h.writeTimeout)
	return s
}

// The bits of Memo.ID. Those above them are Conn.index.
const (
	memoPinged = 1 << iota // awaitsPong
	memoStays              // session.stays
	memoHTTP2              // session.overHTTP2

	memoBits = iota
)

// Wake implements upgrade.Host.
func (h *host) Wake(conn engine.Conn, left engine.Memo) engine.Protocol {
	s := acquireSession(h, h.conns.get(uint32(left.ID>>memoBits)), conn)
	s.wake(left)
	return s
}

// wake restores what left has of a connection that slept. The next call attaches s to it.
func (s *session) wake(left engine.Memo) {
	s.stays, s.overHTTP2 = left.ID&memoStays != 0, left.ID&memoHTTP2 != 0
	s.awaits = awaitsInput
	if left.ID&memoPinged != 0 {
		s.awaits = awaitsPong
	}
	s.controls, s.isDetached = controls(left.Opened), true
}

// detachLocked makes the connection one that is asleep to other goroutines, until the next call.
func (s *session) detachLocked() {
	m := s.conn.guarded
	s.isDetached, m.session = true, nil
	if !m.keepsLocked() {
		s.dropStateLocked()
	}
}

// dropStateLocked takes the state of a connection that keeps nothing, so it is empty.
func (s *session) dropStateLocked() {
	if s.spare == nil {
		s.spare = s.conn.guarded
	} else {
		releaseConnState(s.conn.guarded)
	}
	s.conn.guarded = nil
}

// attachLocked ends what detachLocked has begun, or wake.
func (s *session) attachLocked() {
	if !s.isDetached {
		return
	}
	s.isDetached = false
	if s.conn.guarded == nil && s.spare != nil {
		s.conn.guarded, s.spare = s.spare, nil
	}
	m := s.conn.ensureStateLocked()
	m.session, s.loop = s, m.loopLocked()
	if r := m.calls; r != nil && r.closing != nil {
		s.noteLocked(r.closing)
	}
}
