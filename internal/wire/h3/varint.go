package h3

import "encoding/binary"

// MaxVarint is the largest variable-length integer (RFC 9000 section 16).
const MaxVarint = 1<<62 - 1

// AppendVarint appends n, which is at most MaxVarint, in its shortest form.
func AppendVarint(dst []byte, n uint64) []byte {
	switch {
	case n < 1<<6:
		return append(dst, byte(n))
	case n < 1<<14:
		return binary.BigEndian.AppendUint16(dst, uint16(n)|0x4000)
	case n < 1<<30:
		return binary.BigEndian.AppendUint32(dst, uint32(n)|0x8000_0000)
	}
	return binary.BigEndian.AppendUint64(dst, n|0xc000_0000_0000_0000)
}

// ReadVarint reads the integer at the beginning of in. size is the number of its bytes; 0: in
// ends before it does.
func ReadVarint(in []byte) (n uint64, size int) {
	if len(in) == 0 {
		return 0, 0
	}
	size = 1 << (in[0] >> 6)
	if len(in) < size {
		return 0, 0
	}
	n = uint64(in[0] & 0x3f)
	for _, c := range in[1:size] {
		n = n<<8 | uint64(c)
	}
	return n, size
}
