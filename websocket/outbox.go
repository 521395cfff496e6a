package websocket

import (
	"slices"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// An outbox holds the frames that wait while no call of the session is running. It exists
// only while there are some. A frame that many connections share is held by reference, so
// that a broadcast to slow connections costs 16 bytes for each. The lock of the Conn guards
// it.
//
// Frames leave at the front, in whole. What has left is output of the session or of the
// engine, and is not dropped any more.
type outbox struct {
	items  []waiting
	copies *buf.Buffer // the frames that are not shared, in order; nil: there was none
	used   int         // bytes of copies that have left
	gone   int         // items that were dropped
	bytes  int         // of all frames that wait
	total  *pendingTotal
}

// waiting is a frame in an outbox.
type waiting struct {
	shared *Prepared // nil: the next size bytes of copies
	size   int32
	kind   waitingKind
	// isPacked: shared is compressed.
	isPacked bool
}

type waitingKind uint8

const (
	waitingMessage waitingKind = iota
	waitingControl             // never dropped; also parts of a message
	waitingGone                // dropped; its copy is skipped
)

// A pendingTotal bounds what waits in all outboxes of an Endpoint.
type pendingTotal struct {
	limit    int64 // 0: none
	bytes    atomic.Int64
	outboxes atomic.Int64 // that are not empty
}

// fits reports whether an outbox that holds held bytes may get size more. When the limit is
// reached, those with more than an equal share may not: the largest give way first.
func (t *pendingTotal) fits(held, size int) bool {
	if t.limit == 0 || t.bytes.Load()+int64(size) <= t.limit {
		return true
	}
	return int64(held+size) <= t.limit/max(t.outboxes.Load(), 1)
}

func acquireOutbox(total *pendingTotal) *outbox {
	o := outboxPool.Get().(*outbox)
	o.total = total
	total.outboxes.Add(1)
	return o
}

// releaseOutbox drops what waits.
func releaseOutbox(o *outbox) {
	o.total.outboxes.Add(-1)
	o.total.bytes.Add(-int64(o.bytes))
	if o.copies != nil {
		o.copies.ReleaseHeld()
	}
	clear(o.items)
	items := o.items[:0]
	if cap(items) > maxPooledItems {
		items = nil
	}
	*o = outbox{items: items}
	outboxPool.Put(o)
}

// add appends a frame with p. h is its head, without the length.
func (o *outbox) add(h ws.Head, p []byte) {
	kind := waitingMessage
	if h.Opcode.IsControl() {
		kind = waitingControl
	}
	h.IsFinal = true
	o.addPart(h, p, kind)
}

// addPart is add for a frame that may be a part of a message.
func (o *outbox) addPart(h ws.Head, p []byte, kind waitingKind) {
	if o.copies == nil {
		o.copies = buf.Get(len(p) + ws.MaxHead)
	}
	before := len(o.copies.B)
	o.copies.B = ws.AppendPart(o.copies.B, h, p)
	o.push(waiting{size: int32(len(o.copies.B) - before), kind: kind})
}

// adopt appends what another outbox has, which is released then.
func (o *outbox) adopt(other *outbox) {
	from := other.used
	for _, w := range other.items {
		if w.shared == nil {
			if w.kind != waitingGone {
				if o.copies == nil {
					o.copies = buf.Get(int(w.size))
				}
				o.copies.B = append(o.copies.B, other.copies.B[from:from+int(w.size)]...)
			}
			from += int(w.size)
		}
		if w.kind != waitingGone {
			o.push(w)
		}
	}
}

// addRaw appends bytes that are frames. They are not dropped.
func (o *outbox) addRaw(frames []byte) {
	if o.copies == nil {
		o.copies = buf.Get(len(frames))
	}
	o.copies.B = append(o.copies.B, frames...)
	o.push(waiting{size: int32(len(frames)), kind: waitingControl})
}

// addShared appends a frame by reference.
func (o *outbox) addShared(p *Prepared, isPacked bool) {
	o.push(waiting{shared: p, size: int32(len(p.bytes(isPacked))), isPacked: isPacked})
}

func (o *outbox) push(w waiting) {
	o.items = append(o.items, w)
	o.count(int(w.size))
}

func (o *outbox) count(n int) {
	o.bytes += n
	o.total.bytes.Add(int64(n))
}

// take appends frames to dst until it has limit bytes, and at least one. It reports whether
// there are more.
func (o *outbox) take(dst []byte, limit int) (out []byte, hasMore bool) {
	n := 0
	for n < len(o.items) && (n == 0 || len(dst) < limit) {
		w := &o.items[n]
		n++
		if w.shared != nil {
			dst = append(dst, w.shared.bytes(w.isPacked)...)
		} else {
			if w.kind != waitingGone {
				dst = append(dst, o.copies.B[o.used:o.used+int(w.size)]...)
			}
			o.used += int(w.size)
		}
		if w.kind == waitingGone {
			o.gone--
		} else {
			o.count(-int(w.size))
		}
	}
	o.items = slices.Delete(o.items, 0, n) // clears the rest, which may refer to large messages
	o.compact()
	return dst, len(o.items) > 0
}

// compact frees what has left and what was dropped, if it is half or more of the memory.
// So an outbox that is never empty holds no more than twice what waits.
func (o *outbox) compact() {
	if 2*o.gone < max(len(o.items), 1) && (o.copies == nil || 2*o.used < max(len(o.copies.B), 1)) {
		return
	}
	from, to, kept := o.used, 0, o.items[:0]
	for _, w := range o.items {
		if w.shared == nil {
			if w.kind != waitingGone {
				to += copy(o.copies.B[to:], o.copies.B[from:from+int(w.size)])
			}
			from += int(w.size)
		}
		if w.kind != waitingGone {
			kept = append(kept, w)
		}
	}
	clear(o.items[len(kept):])
	o.items, o.used, o.gone = kept, 0, 0
	if o.copies != nil {
		o.copies.B = o.copies.B[:to]
	}
}

// replace puts p in the place of the message with its key, unless p is longer and has no
// room within limit bytes. It is compressed only if that one was: messages after it refer
// to none before it then.
func (o *outbox) replace(p *Prepared, isPacked bool, limit int) bool {
	for i := range o.items {
		w := &o.items[i]
		if w.shared == nil || w.kind != waitingMessage || w.shared.key != p.key {
			continue
		}
		isPacked = isPacked && w.isPacked
		size := len(p.bytes(isPacked))
		more := size - int(w.size)
		if more > 0 && (o.bytes+more > limit || !o.total.fits(o.bytes, more)) {
			return false
		}
		o.count(more)
		w.shared, w.size, w.isPacked = p, int32(size), isPacked
		return true
	}
	return false
}

// dropOldest drops messages from the front until size more bytes fit into limit, or until
// there are none. It returns how many.
func (o *outbox) dropOldest(size, limit int) (dropped int) {
	for i := range o.items {
		if o.bytes+size <= limit {
			break
		}
		if w := &o.items[i]; w.kind == waitingMessage {
			o.drop(w)
			dropped++
		}
	}
	o.compact()
	return dropped
}

// dropMessages drops all messages and returns how many.
func (o *outbox) dropMessages() (dropped int) { return o.dropOldest(0, -1) }

func (o *outbox) drop(w *waiting) {
	o.count(-int(w.size))
	o.gone++
	w.kind = waitingGone
	if w.shared != nil {
		w.shared, w.size = nil, 0
	}
}
