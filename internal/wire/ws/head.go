package ws

import "encoding/binary"

// An Opcode is the kind of a frame (RFC 6455 section 5.2).
type Opcode uint8

// The opcodes of RFC 6455 section 11.8. The values from OpClose on are control frames.
const (
	OpContinuation Opcode = 0x0
	OpText         Opcode = 0x1
	OpBinary       Opcode = 0x2
	OpClose        Opcode = 0x8
	OpPing         Opcode = 0x9
	OpPong         Opcode = 0xa
)

// IsControl reports whether frames with this opcode are control frames.
func (o Opcode) IsControl() bool { return o >= OpClose }

const (
	// MaxControl is the largest payload of a control frame, in bytes.
	MaxControl = 125
	// MaxHead is the largest size of a Head on the wire, in bytes.
	MaxHead = 14

	finalBit     = 0x80 // of the first byte
	deflatedBit  = 0x40 // RSV1
	reservedBits = 0x30
	opcodeBits   = 0x0f
	maskBit      = 0x80 // of the second byte
	lengthIn16   = 126  // the length follows in 2 bytes
	lengthIn64   = 127  // the length follows in 8 bytes
)

// A Head is what stands before the payload of a frame (RFC 6455 section 5.2).
type Head struct {
	Length   int64 // of the payload, in bytes
	Key      Key   // of the mask; 0 if the frame is not masked
	Opcode   Opcode
	IsFinal  bool // the message ends with this frame
	IsMasked bool
	// IsDeflated: the payloads of the message are compressed (RFC 7692 section 6). Only its
	// first frame says so.
	IsDeflated bool
}

// ParseHead parses the head that in begins with. size is its length in in; it is 0 if the
// head is incomplete, and h then of no use. It reports an error as soon as the first wrong byte
// has arrived. h.IsDeflated is an error too if compression was not agreed; the caller must check it.
func ParseHead(in []byte) (h Head, size int, err error) {
	if len(in) == 0 {
		return Head{}, 0, nil
	}
	first := in[0]
	h.Opcode, h.IsFinal, h.IsDeflated = Opcode(first&opcodeBits), first&finalBit != 0, first&deflatedBit != 0
	switch {
	case first&reservedBits != 0, h.IsDeflated && h.Opcode != OpText && h.Opcode != OpBinary:
		return Head{}, 0, ErrReserved
	case h.Opcode > OpPong || h.Opcode > OpBinary && h.Opcode < OpClose:
		return Head{}, 0, ErrOpcode
	case h.Opcode.IsControl() && !h.IsFinal:
		return Head{}, 0, ErrControl
	case len(in) < 2:
		return h, 0, nil
	}
	h.IsMasked = in[1]&maskBit != 0
	h.Length = int64(in[1] &^ maskBit)
	if h.Opcode.IsControl() && h.Length > MaxControl {
		return Head{}, 0, ErrControl
	}
	size = 2
	switch {
	case h.Length < lengthIn16:
	case h.Length == lengthIn16 && len(in) >= 4:
		h.Length, size = int64(binary.BigEndian.Uint16(in[2:])), 4
		if h.Length < lengthIn16 {
			return Head{}, 0, ErrLength
		}
	case h.Length == lengthIn64 && len(in) >= 10:
		h.Length, size = int64(binary.BigEndian.Uint64(in[2:])), 10
		if h.Length < 1<<16 { // a 64th bit makes it negative
			return Head{}, 0, ErrLength
		}
	default:
		return h, 0, nil
	}
	if !h.IsMasked {
		return h, size, nil
	}
	if len(in) < size+4 {
		return h, 0, nil
	}
	h.Key = Key(binary.LittleEndian.Uint32(in[size:]))
	return h, size + 4, nil
}

// AppendHead appends h to dst. The caller appends the payload, masked with h.Key if
// h.IsMasked.
func AppendHead(dst []byte, h Head) []byte {
	first := byte(h.Opcode)
	if h.IsFinal {
		first |= finalBit
	}
	if h.IsDeflated {
		first |= deflatedBit
	}
	var mask byte
	if h.IsMasked {
		mask = maskBit
	}
	switch {
	case h.Length < lengthIn16:
		dst = append(dst, first, mask|byte(h.Length))
	case h.Length < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, first, mask|lengthIn16), uint16(h.Length))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, first, mask|lengthIn64), uint64(h.Length))
	}
	if h.IsMasked {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(h.Key))
	}
	return dst
}

// AppendFrame appends the frame of a server that is a whole message, or a control frame.
func AppendFrame(dst []byte, op Opcode, payload []byte) []byte {
	switch n := len(payload); { // AppendWhole, in a third of the instructions
	case n < lengthIn16:
		return append(append(dst, finalBit|byte(op), byte(n)), payload...)
	case n < 1<<16:
		return append(append(dst, finalBit|byte(op), lengthIn16, byte(n>>8), byte(n)), payload...)
	}
	return AppendWhole(dst, Head{Opcode: op}, payload)
}

// AppendWhole appends a frame that is a whole message, or a control frame. It completes h
// with the length, and masks the payload if h.IsMasked.
func AppendWhole(dst []byte, h Head, payload []byte) []byte {
	h.IsFinal = true
	return AppendPart(dst, h, payload)
}

// AppendPart is AppendWhole for a frame that is the last one of its message if h.IsFinal.
func AppendPart(dst []byte, h Head, payload []byte) []byte {
	h.Length = int64(len(payload))
	dst = AppendHead(dst, h)
	start := len(dst)
	dst = append(dst, payload...)
	if h.IsMasked {
		Mask(dst[start:], h.Key)
	}
	return dst
}

// AppendMasked appends the frame of a client that is a whole message, or a control frame.
// key must be unpredictable and used once (RFC 6455 section 5.3).
func AppendMasked(dst []byte, op Opcode, key Key, payload []byte) []byte {
	return AppendWhole(dst, Head{Opcode: op, IsMasked: true, Key: key}, payload)
}
