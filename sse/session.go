package sse

import (
	"io"
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// flushSize is the size of pending output from which the engine sends it before more events
// are taken from the log.
const flushSize = 32 << 10

// A session is the engine.Protocol of a stream that is awake. What the client sends is
// ignored.
type session struct {
	host   *host
	stream *stream
	conn   engine.Conn
	// streamConn is conn, if that is a stream of HTTP/2. It keeps the session until its end.
	streamConn upgrade.StreamConn
	stays      bool // it does not move: the connection cannot, or no other process wants it
	owned      invariants.Pooled
}

var (
	_ engine.Protocol = (*session)(nil)
	_ engine.Packer   = (*session)(nil)
	_ engine.Prompted = (*session)(nil)
	_ engine.Sleeper  = (*session)(nil)
)

func (x *session) hub() *Hub { return x.host.hub }

// Capabilities implements engine.Protocol.
func (x *session) Capabilities() engine.Capabilities {
	can := engine.CanPrompt | engine.CanSleep | engine.SaysGoodbye
	if x.host.isMovable() {
		can |= engine.CanPack
	}
	return can
}

// Feed implements engine.Protocol.
func (x *session) Feed(in []byte) (used int, next engine.Next) {
	x.host.server.Count(len(in), 0)
	return len(in), engine.Read
}

// Run continues to send; see engine.Protocol.
func (x *session) Run(out []byte) ([]byte, engine.Next) { return x.send(out) }

// Prompted sends what is due; see engine.Prompted.
func (x *session) Prompted(out []byte) ([]byte, engine.Next) { return x.send(out) }

// send appends events. While a cast is about to send one, it leaves them to the cast, which
// prompts the stream if there are more.
func (x *session) send(out []byte) ([]byte, engine.Next) {
	h, s, before := x.hub(), x.stream, len(out)
	done, size := caughtUp, flushSize
	if x.streamConn != nil {
		size = x.streamConn.Room()
	}
	h.mu.Lock()
	isCast := s.isCast
	if !isCast {
		out, done = h.takeLocked(s, out, before+size)
	}
	h.mu.Unlock()
	switch {
	case done == hasLost:
		out = x.end(out, ErrSlow)
	case done == hasMore:
	case !isCast && x.isLeaving():
		out = x.end(out, ErrGoingAway)
		done = hasLost
	default:
		x.arm(clock.Nanos())
	}
	x.count(len(out) - before)
	return out, done.next()
}

// count counts n bytes that the engine has got. HTTP/2 counts its own.
func (x *session) count(n int) {
	if x.streamConn == nil {
		x.host.server.Count(0, n)
	}
}

// next returns what the engine does after take.
func (p progress) next() engine.Next {
	switch p {
	case hasMore:
		return engine.Run
	case hasLost:
		return engine.Close
	}
	return engine.Read
}

// end appends the end of the body, and stores why.
func (x *session) end(out []byte, why error) []byte {
	if why == ErrGoingAway {
		out = x.stream.form.append(out, x.hub().reconnectText())
	}
	x.note(why)
	return x.stream.form.appendEnd(out)
}

// note stores why the stream ends; the first reason counts.
func (x *session) note(err error) {
	h := x.hub()
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := x.stream.ensureExtra(); m.err == nil {
		m.err = err
	}
}

// isLeaving reports whether the stream ends now, because the server shuts down, or is replaced
// by a process to which the stream cannot move.
func (x *session) isLeaving() bool {
	switch x.host.server.Closing() {
	case upgrade.CloseSoon:
		now := clock.Nanos()
		return x.leavesSoon() && now >= x.host.restartAt(x.stream.index, now)
	case upgrade.CloseNow:
		return true
	}
	return false
}

// leavesSoon reports whether the stream ends when another process replaces this one.
func (x *session) leavesSoon() bool { return x.stays || !x.host.isMovable() }

// arm sets the time-out of the next wait for input: that of the heartbeat after silence
// since a time, or the end of the stream.
func (x *session) arm(since int64) {
	wait := x.hub().heartbeat(x.stream.index)
	if x.host.server.Closing() == upgrade.CloseSoon && x.leavesSoon() {
		now := clock.Nanos()
		left := max(time.Duration(x.host.restartAt(x.stream.index, now)-now), 1)
		if wait == 0 || left < time.Duration(since-now)+wait {
			since, wait = now, left
		}
	}
	x.conn.SetReadDeadline(since, wait)
}

// comment is a heartbeat.
const comment = ":\n\n"

// TimedOut sends a comment after silence, and ends the stream at its time.
func (x *session) TimedOut(out []byte) ([]byte, engine.Next) {
	if x.isLeaving() {
		return x.send(out)
	}
	h, s, before := x.hub(), x.stream, len(out)
	now := clock.Nanos()
	h.mu.Lock()
	since := s.lastAt()
	if s.isCast {
		since = now
	}
	h.mu.Unlock()
	if now-since >= int64(h.heartbeat(s.index)) {
		out, since = s.form.append(out, []byte(comment)), now
		x.count(len(out) - before)
	}
	x.arm(since)
	return out, engine.Read
}

// HalfClosed implements engine.Protocol.
func (x *session) HalfClosed(out []byte) []byte {
	x.note(io.EOF)
	return out
}

// Detached implements engine.Protocol; it is never called.
func (x *session) Detached(c net.Conn) { _ = c.Close() }

// Pause implements engine.Protocol.
func (x *session) Pause() (isIdle bool) {
	h := x.hub()
	h.mu.Lock()
	defer h.mu.Unlock()
	return x.stream.phase == phaseOpen
}

// memoStays is the bit of Memo.ID for session.stays.
const memoStays = 1

// Sleep releases x while nothing is sent; see engine.Sleeper.
func (x *session) Sleep() (engine.Memo, bool) {
	bits := uint64(0)
	if x.stays {
		bits = memoStays
	}
	m := x.host.server.Memo(bits, uint64(x.stream.index), 0)
	releaseSession(x)
	return m, true
}

// Closed ends the stream; see engine.Protocol.
func (x *session) Closed(err error) {
	h, s := x.hub(), x.stream
	h.mu.Lock()
	if m := s.extra; m.err != nil {
		err = m.err
	}
	h.mu.Unlock()
	if err == nil {
		err = net.ErrClosed
	}
	h.end(s, err)
	releaseSession(x)
}

// end ends s, unless it has moved.
func (h *Hub) end(s *stream, err error) {
	h.mu.Lock()
	isOpen := s.phase == phaseOpen
	if isOpen {
		s.phase = phaseEnded
		h.leaveLocked(s)
	}
	s.extra.host.removeLocked(s)
	h.mu.Unlock()
	if f := h.options.OnClose; f != nil && isOpen {
		f(s.topics(), err)
	}
	if f := s.extra.ended; f != nil {
		f(err)
	}
}
