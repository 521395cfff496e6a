package websocket

import (
	"fmt"
	"unicode/utf8"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/compress"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// A Compression says whether messages are compressed (permessage-deflate, RFC 7692), if the
// peer agrees. Messages of less than 128 bytes, and those that would become longer, are
// not compressed.
//
// The length of a compressed message tells something of its content. Do not let an attacker
// add text to messages with secrets: with CompressionTakeover, to the messages before them
// too.
type Compression uint8

const (
	// CompressionOff: nothing is compressed.
	CompressionOff Compression = iota
	// CompressionShared: each message is compressed for itself. An idle connection holds
	// nothing for it.
	CompressionShared
	// CompressionTakeover: a message may refer to those before it, which makes short ones
	// much smaller. A connection keeps up to 4 KiB of what it has sent, and 4 KiB of what
	// it has received, or 32 KiB if the client does not let the server choose. With
	// SlowDropOld, messages to the peer do not refer to others.
	CompressionTakeover
)

// String returns "off", "shared" or "takeover".
func (c Compression) String() string {
	if c > CompressionTakeover {
		return fmt.Sprintf("Compression(%d)", uint8(c))
	}
	return [...]string{"off", "shared", "takeover"}[c]
}

const (
	// minDeflated is the size from which messages are compressed, in bytes.
	minDeflated = 128
	// windowBits is the size of windows where this side chooses, as a power of 2; see
	// BenchmarkMessage of internal/compress.
	windowBits = 12
)

// deflates returns what e wants of permessage-deflate.
func (e *Endpoint) deflates() ws.DeflatePolicy {
	isAlone := e.Compression != CompressionTakeover
	return ws.DeflatePolicy{
		SendsAlone:    isAlone || e.Slow == SlowDropOld, // nothing may refer to what was dropped
		ReceivesAlone: isAlone,
		ReceiveBits:   windowBits,
	}
}

// negotiate returns the answer to the first acceptable offer of compression. isOn is false
// if there is none.
func (set *settings) negotiate(ctx *sluice.RequestCtx) (answer ws.Deflate, isOn bool) {
	if set.Endpoint.Compression == CompressionOff {
		return ws.Deflate{}, false
	}
	for _, list := range values(&ctx.Request.Header, ws.FieldExtensions) {
		if offer, _, ok := ws.NextDeflate(list); ok {
			return set.Endpoint.deflates().Answer(offer), true
		}
	}
	return ws.Deflate{}, false
}

// windows are the ends of what was compressed in both directions, for messages that refer
// to it. The lock of the Conn guards them.
type windows struct {
	sent, received []byte
	count          uint64 // of the messages that have changed sent
}

// deflate begins compression with what was agreed for each side; the lock is held.
func (c *Conn) deflate(out, in ws.DeflateSide) {
	c.out, c.in = out, in
	if out.Keeps() || in.Keeps() {
		c.extra().rarely().windows = &windows{}
	}
}

// windows returns those of c, nil if it has none, or has ended; the lock is held.
func (c *Conn) windows() *windows {
	if c.more == nil || c.more.rare() == nil {
		return nil
	}
	return c.more.rare().windows
}

// slide returns window with p after it, without the beginning that exceeds size.
func slide(window, p []byte, size int) []byte {
	if len(p) >= size {
		window, p = window[:0], p[len(p)-size:]
	} else if over := len(window) + len(p) - size; over > 0 {
		window = window[:copy(window, window[over:])]
	}
	if need := len(window) + len(p); need > cap(window) {
		window = append(make([]byte, 0, min(max(2*cap(window), need), size)), window...)
	}
	return append(window, p...)
}

// sentSize is how much of what it sends a connection keeps at most.
func sentSize(side ws.DeflateSide) int { return 1 << min(side.Bits(), windowBits) }

// receivedSize is sentSize for what the peer sends. zlib silently uses a window of 9 bits where
// 8 were agreed.
func receivedSize(side ws.DeflateSide) int { return 1 << max(side.Bits(), ws.MinWindowBits+1) }

// pack compresses m if that was agreed and makes it shorter. The lock is not held: a long
// message delays no other. So another message may be sent meanwhile, to which this one does
// not refer; then fits returns false, and pack, called again, refers to none.
func (c *Conn) pack(m *message) {
	isAgain := m.packed != nil
	m.release()
	if c.out == 0 || len(m.p) < minDeflated {
		return
	}
	var history *buf.Buffer
	m.isAlone = isAgain || !c.out.Keeps()
	if !m.isAlone {
		history = buf.Get(1 << windowBits)
		defer history.Release()
		c.lock().Lock()
		if w := c.windows(); w != nil {
			history.B, m.after = append(history.B, w.sent...), w.count
		}
		c.lock().Unlock()
	}
	packed := buf.Get(len(m.p))
	packed.B = compress.AppendMessage(packed.B, m.p, historyOf(history), c.out.Bits())
	if len(packed.B) >= len(m.p) {
		packed.Release()
		return
	}
	m.packed = packed
}

func historyOf(b *buf.Buffer) []byte {
	if b == nil {
		return nil
	}
	return b.B
}

// fits tells whether m may be the next message; the lock is held.
func (c *Conn) fits(m *message) bool {
	if m.packed == nil || m.isAlone {
		return true
	}
	w := c.windows()
	return w == nil || w.count == m.after
}

// packedIsSent records that m, which is compressed, was sent; the lock is held.
func (c *Conn) packedIsSent(m *message) {
	if w := c.windows(); w != nil && c.out.Keeps() {
		w.sent = slide(w.sent, m.p, sentSize(c.out))
		w.count++
	}
}

// forgetSent makes the next messages refer to none before them: what comes now is shared, and
// its place in the windows may be taken by another message (SlowCoalesce). The lock is held.
func (c *Conn) forgetSent() {
	if w := c.windows(); w != nil {
		w.sent = w.sent[:0]
		w.count++
	}
}

// release ends the use of m.
func (m *message) release() {
	if m.packed != nil {
		m.packed.Release()
		m.packed = nil
	}
}

// inflate decodes a message and delivers it.
func (s *session) inflate(k Kind, data []byte) {
	var w *windows
	var history []byte
	if s.conn.in.Keeps() {
		s.conn.lock().Lock()
		w = s.conn.windows()
		s.conn.lock().Unlock()
		history = w.received // only the session uses it
	}
	out, err := compress.InflateMessage(data, history, int(s.host.readLimit))
	switch {
	case err == compress.ErrTooLarge:
		s.violated(ws.ErrTooLarge)
		return
	case err != nil:
		s.violated(ws.ErrDeflate)
		return
	}
	defer out.ReleaseHeld()
	if k == Text && !utf8.Valid(out.B) {
		s.violated(ws.ErrText)
		return
	}
	if w != nil {
		w.received = slide(w.received, out.B, receivedSize(s.conn.in))
	}
	s.deliver(Message{Kind: k, Data: out.B})
}
