package websocket

import (
	"slices"

	"github.com/sluicehttp/sluice/internal/ws"
)

// A Prepared is a message that is encoded once, to be sent to any number of connections.
// It never changes. Connections that must wait for their peer hold a reference to it and
// no copy.
type Prepared struct {
	kind  Kind
	key   string
	frame []byte
	head  int // bytes of frame before the payload
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

// WritePrepared is TryWrite for p. It does not copy p while it waits.
func (c *Conn) WritePrepared(p *Prepared) error {
	c.lock().Lock()
	defer c.lock().Unlock()
	return c.offer(&message{shared: p}, c.host.Endpoint.Slow)
}
