package websocket

import (
	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/compress"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

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

// deflateLocked begins compression with what was agreed for each side.
func (c *Conn) deflateLocked(out, in ws.DeflateSide) {
	c.out, c.in = out, in
	if out.Keeps() || in.Keeps() {
		c.ensureStateLocked().ensureCallsLocked().windows = &windows{}
	}
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
		if w := c.windowsLocked(); w != nil {
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

// fitsLocked reports whether m may be the next message.
func (c *Conn) fitsLocked(m *message) bool {
	if m.packed == nil || m.isAlone {
		return true
	}
	w := c.windowsLocked()
	return w == nil || w.count == m.after
}

// packedIsSentLocked records that m, which is compressed, was sent.
func (c *Conn) packedIsSentLocked(m *message) {
	if w := c.windowsLocked(); w != nil && c.out.Keeps() {
		w.sent = slide(w.sent, m.p, sentSize(c.out))
		w.count++
	}
}

// forgetSentLocked makes the next messages refer to none before them: what comes now is
// shared, and its place in the windows may be taken by another message (SlowCoalesce).
func (c *Conn) forgetSentLocked() {
	if w := c.windowsLocked(); w != nil {
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

// isLong reports whether p is compressed for connections whose messages are compressed as out
// says.
func (p *Prepared) isLong(out ws.DeflateSide) bool {
	size := len(p.frame) - p.head
	return out != 0 && size >= minDeflated && (out.Bits() == ws.MaxWindowBits || size <= 1<<out.Bits())
}

// pack makes p.packed, and reports whether it is shorter than the frame.
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
