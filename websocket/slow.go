package websocket

import (
	"fmt"
	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// A SlowPolicy says what happens to a message that must not wait for room, of TryWrite,
// WritePrepared and Group.Broadcast, when MaxPending or MaxPendingTotal is reached.
type SlowPolicy uint8

const (
	// SlowClose: the messages that wait are dropped, and the connection is closed with
	// CodeTryAgain. TryWrite returns ErrFull. It is for peers that a gap would mislead:
	// they connect again.
	SlowClose SlowPolicy = iota
	// SlowBlock: TryWrite returns ErrFull. A broadcast closes the connection as SlowClose
	// does, because it never waits.
	SlowBlock
	// SlowDropNew: the message is dropped. TryWrite returns ErrFull.
	SlowDropNew
	// SlowDropOld: the oldest messages that wait are dropped to make room. If that is not
	// enough, the message is dropped, and TryWrite returns ErrFull.
	SlowDropOld
	// SlowCoalesce: a message of PrepareKeyed takes the place of the one with the same key
	// that waits. If none waits, or if the message is longer than that one and there is no
	// room, SlowClose applies.
	SlowCoalesce
)

// String returns "close", "block", "drop new", "drop old" or "coalesce".
func (s SlowPolicy) String() string {
	if s > SlowCoalesce {
		return fmt.Sprintf("SlowPolicy(%d)", uint8(s))
	}
	return [...]string{"close", "block", "drop new", "drop old", "coalesce"}[s]
}

// A message is what offer gets: p, or a shared one.
type message struct {
	shared *Prepared
	// isPacked: shared is compressed, without a history.
	isPacked bool
	kind     Kind
	p        []byte
	// packed is p, compressed; nil: p is not compressed. It refers to what was sent with the
	// messages up to number after, or to nothing: see Conn.pack.
	packed  *buf.Buffer
	after   uint64
	isAlone bool
}

// size returns how many bytes the message counts for MaxPending.
func (m *message) size() int {
	switch {
	case m.shared != nil:
		return len(m.shared.bytes(m.isPacked))
	case m.packed != nil:
		return len(m.packed.B)
	}
	return len(m.p)
}

// offer sends m, or does what policy says; the lock is held.
func (c *Conn) offer(m *message, policy SlowPolicy) error {
	if c.phase != phaseOpen {
		return c.ended()
	}
	if policy == SlowCoalesce && m.shared != nil && m.shared.key != "" && c.queue() != nil &&
		c.queue().replace(m.shared, m.isPacked, c.host.maxPending) {
		c.dropped(1)
		return nil
	}
	if c.hasRoom(m.size()) {
		c.append(m)
		return nil
	}
	switch policy {
	case SlowBlock:
		return ErrFull
	case SlowDropOld:
		if o := c.queue(); o != nil {
			c.dropped(o.dropOldest(m.size(), c.host.maxPending))
			if c.hasRoom(m.size()) {
				c.append(m)
				return nil
			}
		}
		fallthrough
	case SlowDropNew:
		c.dropped(1)
		return ErrFull
	}
	if o := c.queue(); o != nil {
		c.dropped(o.dropMessages())
	}
	c.close(&CloseError{Code: CodeTryAgain, Reason: "too slow"})
	return ErrFull
}

// dropped counts dropped messages; the lock is held.
func (c *Conn) dropped(n int) {
	if n > 0 {
		c.lock().dropped += uint64(n)
		c.extra().rarely().dropped += uint64(n)
	}
}

// Dropped returns how many messages were dropped because the peer is slow; see SlowPolicy.
// After the end of the connection it is 0.
func (c *Conn) Dropped() uint64 {
	c.lock().Lock()
	defer c.lock().Unlock()
	if c.more == nil || c.more.rare() == nil {
		return 0
	}
	return c.more.rare().dropped
}

// append makes frames of m and passes them on; the lock is held.
func (c *Conn) append(m *message) {
	c.lock().sent++
	if w := c.writing(); w != nil {
		w.hold(m)
		return
	}
	switch {
	case m.packed != nil:
		c.packedIsSent(m)
		c.appendFrame(ws.Head{Opcode: ws.Opcode(m.kind), IsDeflated: true}, m.packed.B)
		return
	case m.shared == nil:
		c.appendFrame(ws.Head{Opcode: ws.Opcode(m.kind)}, m.p)
		return
	}
	if m.isPacked {
		c.forgetSent()
	}
	e := c.extra()
	if s := e.inCall(); s != nil {
		s.out = append(s.out, m.shared.bytes(m.isPacked)...)
		e.pokeLoop()
		return
	}
	c.waiting(e).addShared(m.shared, m.isPacked)
}

// appendFrame appends a frame with p to what waits, and makes the engine send it. h is its
// head, without the length; the lock is held, but for a while not if p has minDirect bytes.
func (c *Conn) appendFrame(h ws.Head, p []byte) {
	if c.host.isClient {
		h.IsMasked, h.Key = true, newKey()
	}
	e := c.extra()
	if s := e.inCall(); s != nil {
		if len(p) >= minDirect && !h.IsMasked {
			s.sendNow(h, p)
		} else {
			s.out = ws.AppendWhole(s.out, h, p)
		}
		e.pokeLoop()
		return
	}
	c.waiting(e).add(h, p)
}

// inCall returns the session of a call that sends what is appended to its output; nil: frames
// go to the outbox. The lock is held.
func (m *extra) inCall() *session {
	if s := m.session; s != nil && s.run == running && m.pending == nil {
		return s
	}
	return nil
}

// waiting returns the outbox, which is about to get a frame. If there was none, the engine
// is prompted to send it; the lock is held.
func (c *Conn) waiting(e *extra) *outbox {
	if e.pending != nil {
		return e.pending
	}
	e.pending = acquireOutbox(&c.host.pendingTotal)
	if c.target.Generation != 0 {
		c.host.server.Prompt(c.target)
	} else {
		e.apart.prompter.Prompt()
	}
	return e.pending
}
