package proxy

import (
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// A splice connects a client and an upstream whose connections are on event engines. It is a
// tunnel, or with events the body of a response. If one connection is idle, bytes from the
// other are written to it immediately, and memory holds only the splice and the slots of the
// engines. Otherwise they wait in end.pending, and the engine reads no more from their connection
// until the other one has taken them: in each direction there is what one read returns, and what
// the engine holds of the piece before.
type splice struct {
	host     *spliceHost
	engine   engine.Engine // of the upstream's connection
	upstream *upstream
	events   *eventBody // what goes to the client; nil: what comes
	index    uint32     // in spliceHost.splices

	mu     sync.Mutex
	usedAt int64 // when the last bytes came, in clock.Nanos
	ends   [2]end
}

// A side names an end of a splice.
type side uint8

const (
	clientSide side = iota
	upstreamSide
)

func (s side) other() side { return 1 - s }

// An end is what a splice knows of one of its connections. splice.mu guards it.
type end struct {
	target  engine.Target // zero while it is opening
	pending *buf.Buffer   // of the other end, to be written here; nil: nothing
	state   endState
	isFull  bool // what came from here is still the other end's pending
	isShut  bool // its output has ended
}

// An endState is how far an end has come.
type endState uint8

const (
	endOpening endState = iota // the engine has not adopted it yet
	endOpen
	endSilent // its peer has ended its output
	endClosed
)

// promptLocked makes the engine of an end call Prompted.
func (s *splice) promptLocked(at side) {
	target := s.ends[at].target
	if at == clientSide {
		s.host.server.Prompt(target)
	} else {
		s.engine.Prompt(target)
	}
}

// readOnLocked makes the engine read from an end again.
func (s *splice) readOnLocked(at side) {
	target := s.ends[at].target
	if at == clientSide {
		s.host.server.ReadOn(target)
	} else {
		s.engine.ReadOn(target)
	}
}

// begin notes that bytes have come. It returns whether they may be cast to the other end, and
// where that is.
func (s *splice) begin(from side) (to engine.Target, mayCast bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usedAt = clock.Nanos()
	o := &s.ends[from.other()]
	return o.target, o.state == endOpen && o.pending == nil
}

// leave leaves in, which could not be cast, to the other end. It returns false if the other end
// is closed.
func (s *splice) leave(from side, in []byte) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &s.ends[from.other()]
	if o.state == endClosed {
		return false
	}
	if o.pending == nil {
		o.pending = buf.Get(len(in))
	}
	o.pending.B = append(o.pending.B, in...)
	s.ends[from].isFull = true
	s.promptLocked(from.other())
	return true
}

// take appends to out what an end has to write, and returns what follows.
func (s *splice) take(at side, out []byte) ([]byte, engine.Next) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, o := &s.ends[at], &s.ends[at.other()]
	if e.pending != nil {
		out = append(out, e.pending.B...)
		e.drop()
	}
	if o.isFull {
		o.isFull = false
		s.readOnLocked(at.other())
	}
	switch {
	case o.state == endClosed, o.state == endSilent && e.state == endSilent:
		return out, engine.Close
	case o.state == endSilent && !e.isShut:
		e.isShut = true
		return out, engine.EndOutput
	}
	return out, engine.Read
}

func (e *end) drop() {
	if e.pending != nil {
		e.pending.Release()
		e.pending = nil
	}
}

// opened notes that the engine has an end. The result false means that the other one has
// closed meanwhile.
func (s *splice) opened(at side, target engine.Target) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &s.ends[at]
	if s.ends[at.other()].state == endClosed || target == (engine.Target{}) {
		return false
	}
	e.target, e.state = target, endOpen
	if e.pending != nil || s.ends[at.other()].state == endSilent {
		s.promptLocked(at)
	}
	return true
}

// silent notes that the peer of an end has ended its output.
func (s *splice) silent(at side) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends[at].state == endOpen {
		s.ends[at].state = endSilent
		s.usedAt = clock.Nanos()
		s.promptLocked(at.other())
	}
}

// stops reports whether nothing is to be read from an end, and whether that is because the
// other one has not taken what came before.
func (s *splice) stops(at side) (stops, isFull bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &s.ends[at]
	return e.isFull || e.state == endSilent, e.isFull
}

// left returns how long nothing may come until the splice ends; 0: for ever. It is below zero
// when it must end.
func (s *splice) left() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.upstream.options.TunnelTimeout
	if s.events != nil || s.ends[clientSide].state == endSilent || s.ends[upstreamSide].state == endSilent {
		limit = s.upstream.options.Timeout
	}
	if limit <= 0 {
		return 0
	}
	if left := limit - time.Duration(clock.Nanos()-s.usedAt); left != 0 {
		return left
	}
	return -1
}

// closed notes that an end has closed, and ends the other one.
func (s *splice) closed(at side) {
	s.mu.Lock()
	e, o := &s.ends[at], &s.ends[at.other()]
	wasClosed := e.state == endClosed
	e.state = endClosed
	e.drop()
	isLast := !wasClosed && o.state == endClosed
	if o.state == endOpen || o.state == endSilent {
		s.promptLocked(at.other())
	}
	s.mu.Unlock()
	if isLast {
		s.host.remove(s)
		if s.events == nil {
			s.upstream.tunnels.Add(-1)
		}
		s.upstream.ended.Add(1)
	}
}
