package websocket

import (
	"fmt"
	"slices"
	"sync"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// A Prepared is a message that is encoded once, to be sent to any number of connections.
// It never changes. Connections that must wait for their peer hold a reference to it and
// no copy. It is compressed once, for the first connection that wants it so.
type Prepared struct {
	kind  Kind
	key   string
	frame []byte
	head  int // bytes of frame before the payload

	once   sync.Once
	packed []byte // the frame, compressed without a history; nil: not yet, or it would be longer
}

// Prepare encodes a message. It copies p. It panics if k is neither Text nor Binary.
func Prepare(k Kind, p []byte) *Prepared { return PrepareKeyed("", k, p) }

// PrepareKeyed is Prepare for a message that makes older ones with the same key obsolete,
// such as the price of one share: see SlowCoalesce. The key "" is that of no message.
func PrepareKeyed(key string, k Kind, p []byte) *Prepared {
	if k != Text && k != Binary {
		panic(ErrKind)
	}
	frame := ws.AppendFrame(make([]byte, 0, len(p)+ws.MaxHead), ws.Opcode(k), p)
	return &Prepared{kind: k, key: key, frame: slices.Clip(frame), head: len(frame) - len(p)}
}

// Kind returns the kind of the message.
func (p *Prepared) Kind() Kind { return p.kind }

// Key returns the key of PrepareKeyed; "" if there is none.
func (p *Prepared) Key() string { return p.key }

// Data returns the payload. It must not be modified.
func (p *Prepared) Data() []byte { return p.frame[p.head:] }

// bytes returns the frame. For isPacked, pack must have returned true.
func (p *Prepared) bytes(isPacked bool) []byte {
	if isPacked {
		return p.packed
	}
	return p.frame
}

// A Kind is the type of a message.
type Kind uint8

// The kinds of messages. A received Text is valid UTF-8. One that is sent must be; it is
// not checked.
const (
	Text   = Kind(ws.OpText)
	Binary = Kind(ws.OpBinary)
)

// String returns "text" or "binary".
func (k Kind) String() string {
	switch k {
	case Text:
		return "text"
	case Binary:
		return "binary"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// A Message is one that was received. Data is valid until OnMessage returns, or until the
// next Read, or Close of a connection of Dial; it may be modified.
type Message struct {
	Kind Kind   // Text or Binary
	Data []byte // the payload of all fragments; empty for an empty message
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
