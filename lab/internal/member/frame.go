//go:build linux

package member

import (
	"encoding/binary"
	"errors"
)

// What the lab speaks of WebSocket (RFC 6455): each message is binary and one
// frame. Libraries read frames from an io.Reader, and take memory for each; here
// they lie in the engine's buffers.

// opcode is the kind of a frame.
type opcode byte

// The opcodes that the lab knows.
const (
	opBinary opcode = 2
	opClose  opcode = 8
	opPing   opcode = 9
	opPong   opcode = 10
)

const (
	finalBit   = 0x80 // of the first byte: the message ends with this frame
	maskBit    = 0x80 // of the second byte
	lengthIn16 = 126  // the length follows, in 2 bytes
	lengthIn64 = 127  // in 8
	// maxPayload is what the lab takes at most: buffers have 64 KiB.
	maxPayload = 32 << 10
	maxControl = 125
)

var (
	errFrame     = errors.New("a frame breaks the rules of RFC 6455")
	errMask      = errors.New("a client's frame is not masked, or a server's is")
	errNotBinary = errors.New("the lab takes binary messages in one frame")
	errFrameSize = errors.New("a message is longer than 32 KiB")
)

// parseFrame returns the frame that in begins with, and its size in in; 0: it is
// not complete. isMasked says whether it has to be. payload is a part of in, in
// which it is unmasked, once the frame is complete.
func parseFrame(in []byte, isMasked bool) (op opcode, payload []byte, size int, err error) {
	if len(in) < 2 {
		return 0, nil, 0, nil
	}
	op = opcode(in[0] & 0x0f)
	switch {
	case in[0]&0x70 != 0: // extensions, which nobody has agreed on
		return 0, nil, 0, errFrame
	case (in[1]&maskBit != 0) != isMasked:
		return 0, nil, 0, errMask
	case op > opPong || op > opBinary && op < opClose:
		return 0, nil, 0, errFrame
	case op >= opClose && (in[0]&finalBit == 0 || in[1]&^maskBit > maxControl):
		return 0, nil, 0, errFrame
	case op < opBinary || in[0]&finalBit == 0:
		return 0, nil, 0, errNotBinary
	}
	length, at, err := parseLength(in)
	if err != nil || at == 0 {
		return 0, nil, 0, err
	}
	var key []byte
	if isMasked {
		key = in[at:min(at+4, len(in))]
		at += 4
	}
	size = at + length
	if len(in) < size {
		return 0, nil, 0, nil
	}
	payload = in[at:size:size]
	if isMasked {
		mask(payload, [4]byte(key))
	}
	return op, payload, size, nil
}

// parseLength returns the length of a payload, and where the length ends; 0: it
// is not all there.
func parseLength(in []byte) (length, end int, err error) {
	n, least := uint64(in[1]&^maskBit), uint64(0)
	switch end = 2; {
	case n == lengthIn16 && len(in) < 4, n == lengthIn64 && len(in) < 10:
		return 0, 0, nil
	case n == lengthIn16:
		n, end, least = uint64(binary.BigEndian.Uint16(in[2:])), 4, lengthIn16
	case n == lengthIn64:
		n, end, least = binary.BigEndian.Uint64(in[2:]), 10, 1<<16
	}
	switch {
	case n < least || n > 1<<63-1: // it has to be written as short as can be
		return 0, 0, errFrame
	case n > maxPayload:
		return 0, 0, errFrameSize
	}
	return int(n), end, nil
}

// appendFrame appends a server's frame.
func appendFrame(dst []byte, op opcode, payload []byte) []byte {
	return append(appendLength(dst, op, 0, len(payload)), payload...)
}

// appendMasked appends a client's frame.
func appendMasked(dst []byte, op opcode, key uint32, payload []byte) []byte {
	dst = appendLength(dst, op, maskBit, len(payload))
	dst = binary.BigEndian.AppendUint32(dst, key)
	at := len(dst)
	dst = append(dst, payload...)
	mask(dst[at:], [4]byte(dst[at-4:at]))
	return dst
}

func appendLength(dst []byte, op opcode, bit byte, length int) []byte {
	dst = append(dst, finalBit|byte(op))
	switch {
	case length < lengthIn16:
		return append(dst, bit|byte(length))
	case length < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, bit|lengthIn16), uint16(length))
	}
	return binary.BigEndian.AppendUint64(append(dst, bit|lengthIn64), uint64(length))
}

// mask masks or unmasks p, where it lies.
func mask(p []byte, key [4]byte) {
	for i := range p {
		p[i] ^= key[i&3]
	}
}
