package ws

import (
	"encoding/binary"
	"math/bits"
)

// A Key is a masking key (RFC 6455 section 5.3). Its lowest byte, which is the first one
// on the wire, masks the next byte of the payload.
type Key uint32

// notASCII has the highest bit of each byte.
const notASCII = 0x8080808080808080

// Mask masks p in place, or removes the mask. next is the key for the byte after p.
// isASCII reports whether the result contains only ASCII. With key 0, Mask only tests p.
// BenchmarkMask measures it.
func Mask(p []byte, key Key) (next Key, isASCII bool) {
	next = Key(bits.RotateLeft32(uint32(key), -8*(len(p)&3)))
	if len(p) < blockSize {
		return next, maskShort(p, key)&notASCII == 0
	}
	n, seen := maskBlocks(p, wide(key))
	return next, (seen|maskShort(p[n:], key))&notASCII == 0
}

// blockSize is the size of the blocks of maskBlocks.
const blockSize = 64

// wide returns the key for 8 bytes.
func wide(key Key) uint64 { return uint64(key)<<32 | uint64(key) }

// maskShort is Mask without blocks. seen has the bits that are set in the result.
func maskShort(p []byte, key Key) (seen uint64) {
	wide := wide(key)
	i := 0
	for ; i <= len(p)-32; i += 32 {
		b := p[i : i+32 : i+32]
		w0 := binary.LittleEndian.Uint64(b[0:]) ^ wide
		w1 := binary.LittleEndian.Uint64(b[8:]) ^ wide
		w2 := binary.LittleEndian.Uint64(b[16:]) ^ wide
		w3 := binary.LittleEndian.Uint64(b[24:]) ^ wide
		binary.LittleEndian.PutUint64(b[0:], w0)
		binary.LittleEndian.PutUint64(b[8:], w1)
		binary.LittleEndian.PutUint64(b[16:], w2)
		binary.LittleEndian.PutUint64(b[24:], w3)
		seen |= w0 | w1 | w2 | w3
	}
	for ; i <= len(p)-8; i += 8 {
		w := binary.LittleEndian.Uint64(p[i:]) ^ wide
		binary.LittleEndian.PutUint64(p[i:], w)
		seen |= w
	}
	for ; i < len(p); i++ { // at most 7 bytes, which begin with the lowest byte of wide
		p[i] ^= byte(wide >> (8 * (i & 7)))
		seen |= uint64(p[i])
	}
	return seen
}
