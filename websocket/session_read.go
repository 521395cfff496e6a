package websocket

import (
	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

const (
	// minRoom is the smallest part of a message that is worth a read of its own. Less is
	// copied from the buffer of the engine, which reads what follows with it.
	minRoom = 4 << 10
	// wholeRoom is the size of the engine's buffer: a smaller room would cost more reads,
	// unless the frame ends with it.
	wholeRoom = 16 << 10
	// aheadFactor and freelyAhead bound the memory that a message has before it arrives.
	aheadFactor = 7
	freelyAhead = 1 << 20
)

// fed is what Feed has found in a room.
type fed struct {
	opcode     ws.Opcode // of the message that is whole now; OpContinuation: none
	isDeflated bool
	error      error // of the Reader
}

func (f *fed) isNothing() bool { return f.opcode == ws.OpContinuation && f.error == nil }

// Room lends the engine the buffer of a message that is incomplete; see engine.Receiver.
// Without it, what has arrived is in the engine's buffer, and Run copies it.
func (s *session) Room() []byte {
	missing := s.reader.Missing()
	if s.partial == nil || missing < minRoom {
		return nil
	}
	have, enough := len(s.partial.B), int(min(missing, wholeRoom))
	if cap(s.partial.B) < have+enough {
		larger := capacityFor(have, missing)
		if larger < have+enough {
			return nil
		}
		s.partial = enlarged(s.partial, larger)
	}
	return s.partial.B[have:min(int64(cap(s.partial.B)), int64(have)+missing)]
}

// Feed takes what was read into the room. It leaves everything else to Run, because
// callbacks may block.
func (s *session) Feed(in []byte) (used int, next engine.Next) {
	b := s.partial
	if b == nil || len(b.B) == cap(b.B) || &in[0] != &b.B[:len(b.B)+1][len(b.B)] {
		return 0, engine.Run
	}
	b.B = b.B[:len(b.B)+len(in)]
	_, p, err := s.reader.Next(in) // a part of one frame
	s.read += len(in)
	if err == nil && !p.IsLast {
		return len(in), engine.Read
	}
	s.fed = fed{p.Opcode, p.IsDeflated, err}
	return len(in), engine.Run
}

// handleFed handles what Feed has found.
func (s *session) handleFed() {
	f := s.fed
	s.fed = fed{}
	switch {
	case f.isNothing():
	case f.error != nil:
		s.violated(f.error.(*ws.Error))
	default:
		s.receivePartial(f.opcode, f.isDeflated)
	}
}

// handlePiece handles a part of a message. One that is whole stays where the engine has
// read it.
func (s *session) handlePiece(p ws.Piece) {
	if s.isInParts {
		s.handPart(p)
		return
	}
	if p.IsFirst && p.IsLast {
		s.receive(p.Opcode, p.IsDeflated, p.Payload)
		return
	}
	s.partial = grown(s.partial, len(p.Payload), s.reader.Missing())
	s.partial.B = append(s.partial.B, p.Payload...)
	if p.IsLast {
		s.receivePartial(p.Opcode, p.IsDeflated)
	}
}

// receivePartial passes on the message in s.partial.
func (s *session) receivePartial(op ws.Opcode, isDeflated bool) {
	s.receive(op, isDeflated, s.partial.B)
	s.partial.ReleaseHeld()
	s.partial = nil
}

// receive passes on a message with the payload data.
func (s *session) receive(op ws.Opcode, isDeflated bool, data []byte) {
	if isDeflated {
		s.inflate(Kind(op), data)
		return
	}
	s.deliver(Message{Kind: Kind(op), Data: data})
}

// grown returns b with room for size more bytes. missing is what the frame lacks after
// them. A longer message is copied a few times while it arrives.
func grown(b *buf.Buffer, size int, missing int64) *buf.Buffer {
	if b == nil {
		return buf.Get(capacityFor(size, missing))
	}
	need := len(b.B) + size
	if need <= cap(b.B) {
		return b
	}
	if missing == 0 { // more frames may come
		return enlarged(b, max(need, 2*cap(b.B)))
	}
	return enlarged(b, capacityFor(need, missing))
}

// enlarged returns a buffer with what b has, and with at least this capacity. It releases b.
func enlarged(b *buf.Buffer, capacity int) *buf.Buffer {
	larger := buf.Get(capacity)
	larger.B = append(larger.B, b.B...)
	b.ReleaseHeld()
	return larger
}

// capacityFor returns the size of the buffer of a message of which have bytes have arrived,
// or are about to. missing is what its frame lacks. A peer that only says that a message is
// long gets no memory: it is up to 7 times what has arrived, up to 1 MiB, and above that as
// much as has arrived.
func capacityFor(have int, missing int64) int {
	ahead := max(have, min(aheadFactor*have, freelyAhead))
	return have + int(min(missing, int64(ahead)))
}
