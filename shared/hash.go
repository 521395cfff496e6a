package shared

import (
	"encoding/binary"
	"math/bits"
)

// A hasher hashes keys with secrets that only the processes of a segment know, so
// that clients cannot choose keys that collide. (hash/maphash is not usable: its
// seeds cannot be shared between processes.)
type hasher [4]uint64

// sum folds 16 bytes at a time by a 128-bit product in which each factor is
// masked by a secret.
func (h *hasher) sum(key []byte) uint64 {
	length := uint64(len(key))
	state := h[0] ^ length
	for len(key) > 16 {
		state = fold(binary.LittleEndian.Uint64(key)^h[1], binary.LittleEndian.Uint64(key[8:])^state)
		key = key[16:]
	}
	var low, high uint64
	switch n := len(key); {
	case n >= 8:
		low, high = binary.LittleEndian.Uint64(key), binary.LittleEndian.Uint64(key[n-8:])
	case n >= 4:
		low, high = uint64(binary.LittleEndian.Uint32(key)), uint64(binary.LittleEndian.Uint32(key[n-4:]))
	case n > 0:
		low = uint64(key[0])<<16 | uint64(key[n/2])<<8 | uint64(key[n-1])
	}
	return fold(fold(low^h[1], high^state)^h[2], h[3]^length)
}

func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}
