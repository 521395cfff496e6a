package websocket

import (
	"slices"
	"sync"

	"github.com/sluicehttp/sluice/internal/compress"
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

// isLong tells whether p is compressed for connections whose messages are compressed as out
// says.
func (p *Prepared) isLong(out ws.DeflateSide) bool {
	size := len(p.frame) - p.head
	return out != 0 && size >= minDeflated && (out.Bits() == ws.MaxWindowBits || size <= 1<<out.Bits())
}

// pack makes p.packed, and tells whether it is shorter than the frame.
func (p *Prepared) pack() bool {
	p.once.Do(func() {
		packed := compress.AppendMessage(nil, p.Data(), nil, ws.MaxWindowBits)
		if len(packed) < len(p.Data()) {
			h := ws.Head{Opcode: ws.Opcode(p.kind), IsDeflated: true}
			p.packed = ws.AppendWhole(make([]byte, 0, len(packed)+ws.MaxHead), h, packed)
		}
	})
	return p.packed != nil
}

// bytes returns the frame. For isPacked, pack must have returned true.
func (p *Prepared) bytes(isPacked bool) []byte {
	if isPacked {
		return p.packed
	}
	return p.frame
}

// shared returns p as a message for c. It may compress p, so the lock is not held.
func (c *Conn) shared(p *Prepared) message {
	if c.host.isClient { // each frame has a mask of its own
		return message{kind: p.kind, p: p.Data()}
	}
	return message{shared: p, isPacked: p.isLong(c.out) && p.pack()}
}

// WritePrepared is TryWrite for p. It does not copy p while it waits.
func (c *Conn) WritePrepared(p *Prepared) error {
	m := c.shared(p)
	c.lock().Lock()
	defer c.lock().Unlock()
	return c.offer(&m, c.host.Endpoint.Slow)
}
