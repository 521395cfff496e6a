package recall

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// Hubs send each other letters among their messages, whose first byte is smaller:
//
//	0 kind u8   1 from u32   5 to u32   9 nonce u32   13 count uvarint
//	cursors: number of them uvarint, for each run u32, number and evicted uvarint
//	messages: size uvarint, bytes
//
// Numbers are little-endian; to is 0 for all hubs. Only a page has messages; count is 1 in the
// last one.
type letter struct {
	kind     kind
	isLast   bool
	from, to uint32
	nonce    uint32 // of the question
	count    uint64 // of messages in the history
	cursors  []Cursor
	messages [][]byte
}

type kind uint8

const (
	kindAsk  kind = 0xf1 // who is there?
	kindHere kind = 0xf2 // the answer
	kindWant kind = 0xf3 // what do I not have?
	kindPage kind = 0xf4 // the answer, or a part of it
)

const letterHead = 13

// maxCursors is how many processes a hub knows.
const maxCursors = 64

func appendLetter(dst []byte, l letter) []byte {
	dst = append(dst, byte(l.kind))
	for _, n := range [...]uint32{l.from, l.to, l.nonce} {
		dst = binary.LittleEndian.AppendUint32(dst, n)
	}
	if l.isLast {
		l.count = 1
	}
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, l.count), uint64(len(l.cursors)))
	for _, c := range l.cursors {
		dst = binary.LittleEndian.AppendUint32(dst, c.Run)
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, c.Number), c.Evicted)
	}
	for _, m := range l.messages {
		dst = append(binary.AppendUvarint(dst, uint64(len(m))), m...)
	}
	return dst
}

// parseLetter is the reverse of appendLetter. The messages are parts of in.
func parseLetter(in []byte) (l letter, ok bool) {
	if len(in) < letterHead || in[0] < byte(kindAsk) || in[0] > byte(kindPage) {
		return l, false
	}
	l.kind = kind(in[0])
	l.from, l.to, l.nonce = binary.LittleEndian.Uint32(in[1:]), binary.LittleEndian.Uint32(in[5:]), binary.LittleEndian.Uint32(in[9:])
	rest := in[letterHead:]
	number := func() (n uint64) {
		n, size := binary.Uvarint(rest)
		if ok = ok && size > 0; ok {
			rest = rest[size:]
		}
		return n
	}
	ok = true
	l.count = number()
	l.isLast = l.kind == kindPage && l.count == 1
	cursors := number()
	if ok = ok && cursors <= maxCursors; !ok {
		return letter{}, false
	}
	for range cursors {
		if ok = ok && len(rest) >= 4; !ok {
			return letter{}, false
		}
		c := Cursor{Run: binary.LittleEndian.Uint32(rest)}
		rest = rest[4:]
		c.Number, c.Evicted = number(), number()
		l.cursors = append(l.cursors, c)
	}
	for ok && len(rest) > 0 {
		size := number()
		if ok = ok && l.kind == kindPage && size <= uint64(len(rest)); ok {
			l.messages, rest = append(l.messages, rest[:size]), rest[size:]
		}
	}
	if !ok {
		return letter{}, false
	}
	return l, true
}

// clone returns a letter that keeps nothing of what it was parsed from.
func (l letter) clone() letter {
	l.messages = slices.Clone(l.messages)
	for i, m := range l.messages {
		l.messages[i] = bytes.Clone(m)
	}
	return l
}
