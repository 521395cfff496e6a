package enginetest

import (
	"bytes"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// A session is the suite's protocol. Both directions are frames, "5:hello": a
// decimal length, a colon and a payload. A request's payload is a command and
// its arguments (commands.go); the answer's payload is what the command says.
//
// A session checks the contract of engine.Protocol wherever it is called.
type session struct {
	acceptor *acceptor
	conn     engine.Conn
	head     []byte // of an incomplete frame
	payload  []byte // of the complete frame that Run is to handle
	missing  int    // bytes that payload lacks; 0: head is incomplete
	room     []byte // what Room has returned last
	wantsRun bool   // Feed or Run returned Run
	silent   bool   // Read was not the last answer: Feed must not come
	extra    string // the command that the next Run is to execute instead
	isPaused bool   // the last call was a Pause that returned true
	refused  int    // how often Sleep has refused
	hasSaid  bool   // goodbye
	keeps    keeps
	inside   atomic.Int32
	dead     atomic.Bool
}

// enter checks that calls do not overlap, and that none comes after Closed or
// Sleep.
func (s *session) enter(call string) (leave func()) {
	if s.inside.Add(1) != 1 {
		s.acceptor.violate("%s called while another call was going on", call)
	}
	if s.dead.Load() {
		s.acceptor.violate("%s called after Closed or Sleep", call)
	}
	s.isPaused = false
	return func() { s.inside.Add(-1) }
}

// await sets the deadline for input.
func (s *session) await(timeout time.Duration) {
	now := clock.Nanos()
	s.conn.SetReadDeadline(now, timeout)
	s.keeps.due = 0
	if timeout > 0 {
		s.keeps.due = now + int64(timeout)
	}
}

// awaitNext sets the deadline for the next frame.
func (s *session) awaitNext() {
	if s.keeps.idle > 0 {
		s.await(s.keeps.idle)
	} else {
		s.await(s.acceptor.idle)
	}
}

// Capabilities implements engine.Protocol.
func (s *session) Capabilities() engine.Capabilities {
	can := engine.CanSwitch | engine.CanRewind | engine.CanPrompt
	if s.acceptor.mute {
		can = 0
	}
	if s.acceptor.packs {
		can |= engine.CanPack
	}
	if s.acceptor.room > 0 {
		can |= engine.CanReceive
	}
	if s.acceptor.parting != partsSilently {
		can |= engine.SaysGoodbye
	}
	return can
}

// Feed implements engine.Protocol.
func (s *session) Feed(in []byte) (int, engine.Next) {
	defer s.enter("Feed")()
	if s.silent || s.wantsRun {
		s.acceptor.violate("Feed called although no input was wanted")
	}
	if len(in) == 0 {
		s.acceptor.violate("Feed called without input")
	}
	if g := s.acceptor.feedGate.Swap(nil); g != nil {
		g.pass()
	}
	used, complete := s.parse(in)
	s.room = nil
	s.acceptor.fed.Add(int64(used))
	if complete {
		s.wantsRun = true
		return used, engine.Run
	}
	s.await(s.acceptor.head)
	return used, engine.Read
}

// parse takes from in up to the end of a frame.
func (s *session) parse(in []byte) (used int, complete bool) {
	if len(s.room) > 0 && &in[0] == &s.room[0] {
		return s.received(len(in))
	}
	if s.missing == 0 {
		colon := bytes.IndexByte(in, ':')
		if colon < 0 {
			s.head = append(s.head, in...)
			return len(in), false
		}
		s.head = append(s.head, in[:colon]...)
		length, err := strconv.Atoi(string(s.head))
		if err != nil || length < 1 {
			s.acceptor.violate("input is damaged: frame length %q", s.head)
			length = 1
		}
		s.head, s.payload, s.missing = nil, make([]byte, 0, length), length
		used = colon + 1
	}
	n := min(s.missing, len(in)-used)
	s.payload = append(s.payload, in[used:used+n]...)
	s.missing -= n
	return used + n, s.missing == 0
}

// Run implements engine.Protocol.
func (s *session) Run(out []byte) ([]byte, engine.Next) {
	defer s.enter("Run")()
	if !s.wantsRun {
		s.acceptor.violate("Run called although none was wanted")
	}
	s.wantsRun = false
	s.acceptor.runs.Add(1)
	out, next := s.execute(out)
	if next == engine.Read && s.acceptor.engine.Life().Has(engine.StageClosing) && (s.hasSaid || s.acceptor.parting != partsPolitely) {
		next = engine.Close
	}
	s.silent = next != engine.Read
	s.wantsRun = next == engine.Run
	s.awaitNext()
	return out, next
}

// Pause implements engine.Protocol.
func (s *session) Pause() (isIdle bool) {
	defer s.enter("Pause")()
	s.acceptor.pauses.Add(1)
	s.isPaused = len(s.head) == 0 && s.missing == 0 && !s.hasSaid
	return s.isPaused
}

// CanRewind implements engine.Rewinder.
func (s *session) CanRewind() bool {
	defer s.enter("CanRewind")()
	return s.acceptor.rewinds && len(s.head) > 0
}

// Rewind implements engine.Rewinder.
func (s *session) Rewind() []byte {
	defer s.enter("Rewind")()
	head := s.head
	if len(head) == 0 {
		s.acceptor.violate("Rewind called where there is nothing to give back")
	}
	s.head = nil
	return head
}

// HalfClosed implements engine.Protocol.
func (s *session) HalfClosed(out []byte) []byte {
	defer s.enter("HalfClosed")()
	s.silent = true
	if len(s.head) > 0 || s.missing > 0 {
		out = appendFrame(out, "truncated")
	}
	if n := s.acceptor.farewell; n > 0 {
		return s.sendFile(out, 0, n)
	}
	return out
}

// TimedOut implements engine.Protocol.
func (s *session) TimedOut(out []byte) ([]byte, engine.Next) {
	defer s.enter("TimedOut")()
	s.acceptor.timeouts.Add(1)
	if due := s.keeps.due; due == 0 || clock.Nanos() < due {
		s.acceptor.violate("TimedOut called %v before the deadline (%d)", time.Duration(due-clock.Nanos()), due)
	}
	if s.keeps.pings > 0 {
		s.keeps.pings--
		s.awaitNext()
		return appendFrame(out, "ping"), engine.Read
	}
	s.keeps.due = 0
	if s.keeps.pings < 0 { // silent for good, without a deadline
		return out, engine.Read
	}
	s.silent = true
	if n := s.acceptor.farewell; n > 0 {
		return s.sendFile(out, 0, n), engine.Close
	}
	return appendFrame(out, "timeout"), engine.Close
}

// Detached implements engine.Protocol.
func (s *session) Detached(c net.Conn) {
	defer s.enter("Detached")()
	s.acceptor.detached(c)
}

// Closed implements engine.Protocol.
func (s *session) Closed(err error) {
	defer s.enter("Closed")()
	s.dead.Store(true)
	s.acceptor.mu.Lock()
	if len(s.acceptor.errors) < maxErrors {
		s.acceptor.errors = append(s.acceptor.errors, err)
	}
	s.acceptor.mu.Unlock()
	s.acceptor.closed.Add(1)
}

// Successor implements engine.Switcher.
func (s *session) Successor() engine.Protocol {
	defer s.enter("Successor")()
	if !s.silent {
		s.acceptor.violate("Successor called although nothing was to follow")
	}
	s.dead.Store(true)
	next := &session{acceptor: s.acceptor, conn: s.conn, keeps: s.keeps}
	next.keeps.rank++
	return s.acceptor.protocol(next)
}

// A starterSession is a session that implements engine.Starter.
type starterSession struct {
	*session
	started bool
}

// Capabilities implements engine.Protocol.
func (s *starterSession) Capabilities() engine.Capabilities {
	return s.session.Capabilities() | engine.CanStart
}

// Start implements engine.Starter.
func (s *starterSession) Start() engine.Next {
	defer s.enter("Start")()
	if s.started {
		s.acceptor.violate("Start called twice")
	}
	s.started = true
	if s.acceptor.start == nil {
		return engine.Read
	}
	s.silent = *s.acceptor.start != engine.Read
	return *s.acceptor.start
}

// Feed implements engine.Protocol.
func (s *starterSession) Feed(in []byte) (int, engine.Next) {
	if !s.started {
		s.acceptor.violate("Feed called before Start")
	}
	return s.session.Feed(in)
}

// appendFrame appends a frame with payload.
func appendFrame(dst []byte, payload string) []byte {
	dst = strconv.AppendInt(dst, int64(len(payload)), 10)
	dst = append(dst, ':')
	return append(dst, payload...)
}

// patternPeriod is a prime, so that nobody's buffers are a multiple of it.
const patternPeriod = 65521

// longestPattern is what patterns are taken from.
var longestPattern = sync.OnceValue(func() string { return string(newPattern(1 << 25)) })

// pattern returns n bytes of which a shift or a gap would be noticed.
func pattern(n int) []byte { return []byte(patternText(n)) }

// patternText is pattern as text, which costs nothing once the longest pattern is made.
func patternText(n int) string { return longestPattern()[:n] }

func newPattern(n int) []byte {
	p := make([]byte, n)
	x := uint32(1)
	for i := range min(n, patternPeriod) {
		x = x*1664525 + 1013904223
		p[i] = 'a' + byte(x>>24)%26
	}
	for done := patternPeriod; done < n; done *= 2 {
		copy(p[done:], p[:done])
	}
	return p
}
