package websocket

import (
	"context"
	"errors"
	"io"

	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// errLeft is returned by the reader of a message after another call of Read or Reader.
var errLeft = errors.New("sluice: websocket: the message was left for the next one")

// Reader waits for the next message, as Read does, but returns when it begins. Its payload is
// read from r while it arrives, however long it is: ReadLimit and the limit of fragments do
// not apply. The rest waits in the socket, so a peer that is too fast is slowed down.
//
// r.Read returns io.EOF at the end of the message. Its other errors are those of Read; they
// may come after a part of the message. Of a Text, what has arrived is valid UTF-8, up to a
// character that is incomplete. ctx is for r, too: when it ends, r is of no use any more. The
// next call of Read or Reader skips the rest of the message, and ends the use of r.
//
// Endpoint.MessageWithin limits how long the peer may send nothing in the middle of the
// message. A message that is compressed comes when all of it has arrived, and has the limits of
// Read.
func (c *Conn) Reader(ctx context.Context) (k Kind, r io.Reader, err error) {
	l, err := c.ask(ctx, question{wantsParts: true})
	if err != nil {
		return 0, nil, err
	}
	return l.given.Kind, &reader{conn: c, ctx: ctx, part: l.given}, nil
}

// A reader is the io.Reader of a message. What it has not returned yet is in the buffer of
// the engine.
type reader struct {
	conn *Conn
	ctx  context.Context
	part handed
	err  error
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	for r.err == nil {
		switch n := r.take(p); {
		case n > 0 || len(p) == 0:
			return n, nil
		case r.err != nil:
		case !r.part.hasMore:
			r.err = io.EOF
		default:
			r.await()
		}
	}
	return 0, r.err
}

// await waits for the next part.
func (r *reader) await() {
	l, err := r.conn.ask(r.ctx, question{wantsParts: true, after: r.part.asked})
	if err != nil {
		r.err = err
		return
	}
	r.part = l.given
}

// take copies from the part that is there. The lock is held, because Close of a connection
// of Dial lets the session go on.
func (r *reader) take(p []byte) (n int) {
	c := r.conn
	c.lock().Lock()
	defer c.lock().Unlock()
	switch m := c.more; {
	case m == nil || m.loop() == nil: // after the end
		r.err = c.ended()
	case m.loop().asked != r.part.asked:
		r.err = errLeft
	case len(r.part.Data) > 0 && m.loop().isDone:
		r.err = ErrClosed
	default:
		n = copy(p, r.part.Data)
		r.part.Data = r.part.Data[n:]
	}
	return n
}

// beginMessage is called when a message begins, of which nothing is read yet. It waits until
// the loop asks for it: then it is known whether it wants the message in parts.
func (s *session) beginMessage(op ws.Opcode, isDeflated bool) {
	l := s.loop
	mu := s.conn.lock()
	mu.Lock()
	defer mu.Unlock()
	if !s.isAsked(l) || isDeflated || !l.question.wantsParts {
		return
	}
	mu.received++
	s.isInParts, s.reader.Limit, s.reader.MaxFragments = true, 0, 0
	s.give(l, handed{Message: Message{Kind: Kind(op)}, hasMore: true})
}

// handPart hands a part of a message to its reader.
func (s *session) handPart(p ws.Piece) {
	if len(p.Payload) > 0 || p.IsLast {
		s.hand(s.loop, handed{Message: Message{Kind: Kind(p.Opcode), Data: p.Payload}, isRest: true, hasMore: !p.IsLast})
	}
	if p.IsLast {
		s.isInParts, s.reader.Limit, s.reader.MaxFragments = false, s.host.readLimit, s.host.maxFragments
	}
}
