package ws

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// A Reader finds messages and control frames in the input of one side of a connection.
// The zero value reads what a client sends, without limits. It holds at most one
// incomplete head or control frame; the caller keeps the pieces of messages.
type Reader struct {
	Limit        int64 // bytes of a message; 0: no limit
	MaxFragments int   // frames of a message; 0: no limit
	FromServer   bool  // the peer is a server, which does not mask
	Deflates     bool  // permessage-deflate was agreed: messages may be compressed

	kind       Opcode // of the message that has begun; OpContinuation: none
	phase      readerPhase
	isDeflated bool // the message is compressed
	isFinal    bool // the current frame ends the message
	isBegun    bool // a piece of the message was returned
	key        Key  // for the next byte of the payload
	left       int64
	size       int64 // bytes of the message up to the end of the current frame
	fragments  int
	text       Text

	small     [MaxHead + MaxControl]byte // an incomplete head, or control frame
	smallSize uint8
}

// A readerPhase is what the next byte belongs to.
type readerPhase uint8

const (
	readingHead readerPhase = iota
	readingPayload
)

// A Piece is what Next has found. Payload is not masked, and valid until the input changes
// or Next is called again. It may be modified.
type Piece struct {
	// Opcode is OpText or OpBinary for a part of a message, or that of a control frame,
	// which is whole. OpContinuation: nothing was found.
	Opcode  Opcode
	IsFirst bool // the message begins with this piece
	IsLast  bool // the message ends with this piece
	// IsDeflated: the message is compressed. Its text was not checked, and it may be a
	// little longer than Reader.Limit.
	IsDeflated bool
	Payload    []byte
}

// IsBetween reports whether no frame and no message has begun. The Reader is then the same
// as a new one with these limits.
func (r *Reader) IsBetween() bool {
	return r.kind == OpContinuation && r.phase == readingHead && r.smallSize == 0
}

// Begins reports whether the first byte of in begins a message, and of which kind.
func (r *Reader) Begins(in []byte) (op Opcode, isDeflated, ok bool) {
	if !r.IsBetween() || len(in) == 0 {
		return 0, false, false
	}
	op = Opcode(in[0] & opcodeBits)
	return op, in[0]&deflatedBit != 0, op == OpText || op == OpBinary
}

// Missing returns how many bytes of payload the current frame of a message lacks: Next returns
// the next so many bytes of input as a piece, in place. 0: the next byte is one of a head.
func (r *Reader) Missing() int64 {
	if r.phase != readingPayload {
		return 0
	}
	return r.left
}

// Next returns the first piece of in, and how many bytes it has used. If nothing was
// found, it has used all of in. Next removes masks in in. Text is checked up to the last
// byte that has arrived. After an error, which is an *Error, the Reader must not be used.
func (r *Reader) Next(in []byte) (used int, p Piece, err error) {
	if used, op, payload := r.Whole(in); used > 0 {
		if op == OpContinuation {
			return used, Piece{}, ErrText
		}
		return used, Piece{Opcode: op, IsFirst: true, IsLast: true, Payload: payload}, nil
	}
	for {
		if r.phase == readingPayload {
			n, p, err := r.readPayload(in[used:])
			return used + n, p, err
		}
		if used == len(in) {
			return used, Piece{}, nil
		}
		h, n, payload, err := r.readHead(in[used:])
		used += n
		switch {
		case err != nil:
			return used, Piece{}, err
		case n == 0:
			return len(in), Piece{}, nil
		case h.Opcode.IsControl():
			Mask(payload, h.Key)
			return used, Piece{Opcode: h.Opcode, IsFirst: true, IsLast: true, Payload: payload}, nil
		}
		if err := r.beginFrame(h); err != nil {
			return used, Piece{}, err
		}
	}
}

// Whole takes the message that in begins with, if it is as most are: one frame of a client, of
// less than 64 KiB, that is not compressed, and has all arrived. Otherwise used is 0, and
// nothing has changed. The rest of Next would do the same, with a third of the speed: see
// BenchmarkReader. It returns OpContinuation for a text that is not UTF-8: that is ErrText.
func (r *Reader) Whole(in []byte) (used int, op Opcode, payload []byte) {
	if !r.IsBetween() || len(in) < 8 || r.FromServer {
		return 0, 0, nil
	}
	head := binary.LittleEndian.Uint64(in)
	size, length, key := 6, int(byte(head>>8))-maskBit, Key(head>>16)
	if length >= lengthIn16 {
		size, length, key = 8, int(bits.ReverseBytes16(uint16(head>>16))), Key(head>>32)
		if byte(head>>8) != maskBit|lengthIn16 || length < lengthIn16 {
			return 0, 0, nil
		}
	}
	op, used = Opcode(head)-finalBit, size+length
	if length < 0 || op-OpText > OpBinary-OpText || used > len(in) || r.Limit > 0 && int64(length) > r.Limit {
		return 0, 0, nil
	}
	payload = in[size:used:used]
	isASCII := false
	if length < blockSize {
		isASCII = maskShort(payload, key)&notASCII == 0
	} else {
		_, isASCII = Mask(payload, key)
	}
	if op == OpText && !isASCII && !utf8.Valid(payload) {
		return used, OpContinuation, nil
	}
	return used, op, payload
}

// readHead takes a head, and the payload if it is a control frame. used is 0 if in, which
// is stored then, does not complete it.
func (r *Reader) readHead(in []byte) (h Head, used int, payload []byte, err error) {
	held := int(r.smallSize)
	from := in
	if held > 0 {
		held += copy(r.small[held:], in)
		from = r.small[:held]
	}
	if from[0]&deflatedBit != 0 && !r.Deflates {
		return h, 0, nil, ErrReserved
	}
	h, size, err := ParseHead(from)
	if err != nil {
		return h, 0, nil, err
	}
	whole := size
	if size > 0 {
		if h.IsMasked == r.FromServer {
			return h, 0, nil, r.maskError()
		}
		if h.Opcode.IsControl() {
			whole += int(h.Length)
		}
	}
	if size == 0 || whole > len(from) {
		r.smallSize = uint8(copy(r.small[:], from))
		return h, 0, nil, nil
	}
	used = whole - int(r.smallSize)
	r.smallSize = 0
	return h, used, from[size:whole:whole], nil
}

func (r *Reader) maskError() error {
	if r.FromServer {
		return ErrMasked
	}
	return ErrUnmasked
}

// beginFrame begins a data frame.
func (r *Reader) beginFrame(h Head) error {
	switch {
	case h.Opcode != OpContinuation && r.kind != OpContinuation:
		return ErrInterleaved
	case h.Opcode != OpContinuation:
		r.kind, r.isBegun, r.isDeflated = h.Opcode, false, h.IsDeflated
		r.size, r.fragments, r.text = 0, 0, Text{}
	case r.kind == OpContinuation:
		return ErrContinuation
	}
	if limit := r.wireLimit(); limit > 0 && h.Length > limit-r.size {
		return ErrTooLarge
	}
	r.fragments++
	if r.MaxFragments > 0 && r.fragments > r.MaxFragments {
		return ErrFragments
	}
	r.size += h.Length
	r.phase, r.isFinal, r.left, r.key = readingPayload, h.IsFinal, h.Length, h.Key
	return nil
}

// wireLimit returns how many bytes of the message may arrive. DEFLATE makes what it cannot
// compress a little longer.
func (r *Reader) wireLimit() int64 {
	if r.Limit > 0 && r.isDeflated {
		return r.Limit + r.Limit>>8 + deflateSlack
	}
	return r.Limit
}

// deflateSlack is what DEFLATE may add to a short message, in bytes, with several flushes.
const deflateSlack = 64

// readPayload returns what in has of the current frame.
func (r *Reader) readPayload(in []byte) (used int, p Piece, err error) {
	if int64(len(in)) > r.left {
		in = in[:r.left]
	}
	if len(in) == 0 && r.left > 0 {
		return 0, Piece{}, nil
	}
	var isASCII bool
	r.key, isASCII = Mask(in, r.key)
	if r.left -= int64(len(in)); r.left == 0 {
		r.phase = readingHead
	}
	p = Piece{Opcode: r.kind, IsFirst: !r.isBegun, IsLast: r.left == 0 && r.isFinal, IsDeflated: r.isDeflated, Payload: in[:len(in):len(in)]}
	r.isBegun = true
	if r.kind == OpText && !r.isDeflated && !r.checkText(in, isASCII, p.IsLast) {
		return len(in), Piece{}, ErrText
	}
	if p.IsLast {
		r.kind = OpContinuation
	}
	return len(in), p, nil
}

// checkText reports whether a text message that has p as its next part may be UTF-8.
func (r *Reader) checkText(p []byte, isASCII, isLast bool) bool {
	isValid := false
	if isASCII {
		isValid = r.text.FeedASCII(len(p))
	} else {
		isValid = r.text.Feed(p)
	}
	return isValid && (!isLast || r.text.IsWhole())
}
