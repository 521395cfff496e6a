package prefork

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/shared"
)

// errNoDescriptor is why a worker does not serve a connection of another worker.
var errNoDescriptor = errors.New("sluice: no descriptor is free: raise RLIMIT_NOFILE")

// A connection travels from one worker to another with a parcel: the label's announcedTo in
// 4 bytes, little-endian; if parcelAsks is set in these, sender and batch in 4 bytes each,
// and index in one; if parcelHasState is set, the size of the state in 4 bytes and the state;
// if parcelHasTLS or parcelHasProxy is set, that of TLS and of the proxy's header in the same
// way; and the input that was read from the connection and not used. A worker sends state, TLS
// and headers only to those that have published the same version of them, and asks only those
// that have published their Room.
const (
	parcelWord     = 4
	parcelHasProxy = 1 << 28
	parcelHasTLS   = 1 << 29
	parcelAsks     = 1 << 30
	parcelHasState = 1 << 31
)

// A label says who is to be told that a connection has arrived.
type label struct {
	announcedTo int // the id of the process that counts it as Inbound; 0: none
	sender      int // the id of the process that keeps it until the answer; 0: none
	batch       uint32
	index       uint8 // in the batch
}

// appendParcel appends a connection's parcel to dst.
func appendParcel(dst []byte, l label, p sluice.Parcel) []byte {
	head := uint32(l.announcedTo)
	if l.sender != 0 {
		head |= parcelAsks
	}
	if len(p.State) > 0 {
		head |= parcelHasState
	}
	if len(p.TLS) > 0 {
		head |= parcelHasTLS
	}
	if len(p.Proxy) > 0 {
		head |= parcelHasProxy
	}
	// Growing later would leave copies of the keys.
	dst = slices.Grow(dst, 6*parcelWord+1+len(p.State)+len(p.TLS)+len(p.Proxy)+len(p.Leftover))
	dst = binary.LittleEndian.AppendUint32(dst, head)
	if l.sender != 0 {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(l.sender))
		dst = append(binary.LittleEndian.AppendUint32(dst, l.batch), l.index)
	}
	for _, part := range [][]byte{p.State, p.TLS, p.Proxy} {
		if len(part) > 0 {
			dst = append(binary.LittleEndian.AppendUint32(dst, uint32(len(part))), part...)
		}
	}
	return append(dst, p.Leftover...)
}

// parseParcel is the opposite of appendParcel.
func parseParcel(in []byte) (l label, p sluice.Parcel, ok bool) {
	if len(in) < parcelWord {
		return l, p, false
	}
	head, in := binary.LittleEndian.Uint32(in), in[parcelWord:]
	l.announcedTo = int(head &^ (parcelHasState | parcelHasTLS | parcelHasProxy | parcelAsks))
	if head&parcelAsks != 0 {
		if len(in) < 2*parcelWord+1 {
			return l, p, false
		}
		l.sender, l.batch = int(binary.LittleEndian.Uint32(in)), binary.LittleEndian.Uint32(in[parcelWord:])
		l.index, in = in[2*parcelWord], in[2*parcelWord+1:]
	}
	if head&parcelHasState != 0 {
		if p.State, in, ok = cutParcel(in); !ok {
			return l, sluice.Parcel{}, false
		}
	}
	if head&parcelHasTLS != 0 {
		if p.TLS, in, ok = cutParcel(in); !ok {
			return l, sluice.Parcel{}, false
		}
	}
	if head&parcelHasProxy != 0 {
		if p.Proxy, in, ok = cutParcel(in); !ok {
			return l, sluice.Parcel{}, false
		}
	}
	p.Leftover = in
	return l, p, true
}

// cutParcel cuts a part with its size off.
func cutParcel(in []byte) (part, rest []byte, ok bool) {
	if len(in) < parcelWord {
		return nil, nil, false
	}
	size := binary.LittleEndian.Uint32(in)
	if in = in[parcelWord:]; uint64(size) > uint64(len(in)) {
		return nil, nil, false
	}
	return in[:size], in[size:], true
}

// A batch holds the connections that were sent and may come back. Their receivers set bits of
// the sender's fields Taken and Refused, whose upper halves are the number of the batch.
type batch struct {
	page   *shared.Page // of the sender
	number uint32
	sent   []sentConn
}

// A sentConn is a connection in the inbox of another worker.
type sentConn struct {
	conn   net.Conn
	parcel sluice.Parcel
	to     int // the id of the process that answers; 0: none does
}

// newBatch begins a batch. Answers to earlier ones are ignored from now on.
func (w *worker) newBatch() *batch {
	w.batches++
	b := &batch{page: w.board.page, number: w.batches}
	for _, f := range [...]shared.Field{shared.Taken, shared.Refused} {
		b.page.Set(f, uint64(b.number)<<handOverBatch)
	}
	return b
}

// label is that of a connection which is sent to the process of a page.
func (b *batch) label(to *shared.Page, index int) label {
	l := label{announcedTo: to.PID()}
	if to.Get(shared.Room) != 0 {
		l.sender, l.batch, l.index = b.page.PID(), b.number, uint8(index)
	}
	return l
}

// add records that a connection was sent to a process.
func (b *batch) add(c net.Conn, p sluice.Parcel, to int) {
	b.sent = append(b.sent, sentConn{c, p, to})
}

// has reports whether a field says something of a connection.
func (b *batch) has(f shared.Field, index int) bool { return b.page.Get(f)>>index&1 != 0 }

// forget makes the number of a connection that was answered usable for another one.
func (b *batch) forget(index int) {
	b.page.Word(shared.Taken).And(^(uint64(1) << index))
	b.page.Word(shared.Refused).And(^(uint64(1) << index))
}

// settle waits for the answers to a batch. It serves the connections that were refused, and
// closes this process's descriptors of the others. It returns how many these are. What a
// process leaves in its inbox waits there for the next one.
func (w *worker) settle(ctx context.Context, b *batch) (taken int) {
	began := time.Now()
	for w.isDue(b) && (ctx.Err() == nil || time.Since(began) < inboundPatience) {
		time.Sleep(handOverPause)
	}
	for i, s := range b.sent {
		// Only who has refused a connection has surely not used its keys.
		if b.has(shared.Refused, i) {
			w.serveAgain(s.conn, s.parcel)
			continue
		}
		clear(s.parcel.TLS)
		s.conn.Close()
		taken++
	}
	return taken
}

// isDue reports whether an answer to a batch may still come.
func (w *worker) isDue(b *batch) bool {
	for i, s := range b.sent {
		if s.to != 0 && w.board.answers(s.to) && !b.has(shared.Taken, i) && !b.has(shared.Refused, i) {
			return true
		}
	}
	return false
}

// answers reports whether a process may still answer.
func (b *board) answers(pid int) bool {
	for p := range b.segment.Others() {
		if p.PID() == pid {
			state := shared.State(p.Get(shared.ProcessState))
			return (state == shared.Ready || state == shared.Draining) && p.Get(shared.Room) != 0
		}
	}
	return false
}

// answer tells the sender of a connection whether this process has taken it. It returns
// false if the sender did not ask, or does not wait any more.
func (b *board) answer(l label, isTaken bool) (isHeard bool) {
	if l.sender == 0 || l.index >= handOverBatch {
		return false
	}
	field := shared.Refused
	if isTaken {
		field = shared.Taken
	}
	if b.page.PID() == l.sender {
		return mark(b.page.Word(field), l)
	}
	for p := range b.segment.Others() {
		if p.PID() == l.sender {
			return mark(p.Word(field), l)
		}
	}
	return false
}

// mark sets the bit of a connection if the word is about its batch.
func mark(word *atomic.Uint64, l label) bool {
	for {
		old := word.Load()
		if old>>handOverBatch != uint64(l.batch) {
			return false
		}
		if word.CompareAndSwap(old, old|1<<l.index) {
			return true
		}
	}
}

// fill says that this process has no descriptors for more connections than it has now.
func (b *board) fill() {
	open := b.open()
	if room := b.page.Get(shared.Room); room == 0 || open+1 < room {
		b.page.Set(shared.Room, open+1)
	}
	b.isFull.Store(true)
}

// refill raises Room after fill, if descriptors have become free.
func (b *board) refill() {
	if !b.isFull.Load() {
		return
	}
	if room := roomFor(b.open()); room > b.page.Get(shared.Room) {
		b.page.Set(shared.Room, room)
	}
}

// open returns the number of open connections.
func (b *board) open() uint64 {
	done := b.page.Get(shared.Done)
	return uint64(max(int64(b.page.Get(shared.Accepted)-done), 0))
}
