//go:build linux && (amd64 || arm64)

package core

import (
	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/engine"
)

// wideInput is the size of a buffer for the messages of a Receiver that do not fit into the
// input buffer. Such a message would take three reads: the first buffer, the rest, and one
// that finds nothing more. A wide buffer takes it with one, where it stays for the Protocol;
// and the buffer, which all connections of a worker use, stays in the processor's cache.
//
// A connection has one while it is served, like the room of a message. It gets it only when
// the message before, on any connection of the worker, would have used it.
const wideInput = 128 << 10

// isReceiver reports whether the connection's Protocol, which may be asleep, is a Receiver.
func (c *conn) isReceiver() bool {
	if c.Protocol == nil {
		return c.slot().has(flagReceives)
	}
	return c.Can.Has(engine.CanReceive)
}

// widened returns what is to be read to instead of room, for a worker that isWide.
func (c *conn) widened(room []byte) []byte {
	w := c.worker
	if &room[0] != &c.In[0] || c.tlsConn != nil || !c.isReceiver() {
		return room
	}
	if w.wide == nil {
		w.wide = buf.Get(wideInput)
	}
	return w.wide.B[:wideInput]
}

// narrowed returns got, which was read, in the input buffer if it is there or fits there. The
// next read of the worker is a wide one if this one was of use: it needed the wide buffer, and
// did not fill it.
func (c *conn) narrowed(got []byte) []byte {
	w := c.worker
	if w.wide == nil || &got[0] != &w.wide.B[:1][0] {
		return got
	}
	w.isWide = len(got) > len(c.In) && len(got) < wideInput
	if len(got) > len(c.In) {
		return got
	}
	copy(c.In, got)
	w.dropWide()
	return c.In[:len(got)]
}

// measure is called when a read of n bytes has left no room. It finds out whether the message
// fits into a wide buffer.
func (c *conn) measure(n int) {
	if n == len(c.In) && c.tlsConn == nil && c.Can.Has(engine.CanReceive) {
		rest := c.Room()
		c.worker.isWide = &rest[0] != &c.In[0] && n+len(rest) < wideInput
	}
}
