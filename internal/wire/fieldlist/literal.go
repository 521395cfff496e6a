package fieldlist

// AppendString appends a string literal (RFC 7541 section 5.2, RFC 9204 section 4.1.2): in
// Huffman codes if that is shorter. Its length has a prefix of some bits; the bit above it
// tells Huffman codes, and first has the bits above that.
func AppendString(dst []byte, first byte, prefix int, s []byte) []byte {
	if n := huffmanLength(s); n < len(s) {
		dst = AppendInteger(dst, first|1<<prefix, prefix, n)
		return appendHuffman(dst, s)
	}
	dst = AppendInteger(dst, first, prefix, len(s))
	return append(dst, s...)
}

// AppendInteger appends n with a prefix of some bits (RFC 7541 section 5.1), in whose
// byte first has the other bits.
func AppendInteger(dst []byte, first byte, prefix, n int) []byte {
	full := 1<<prefix - 1
	if n < full {
		return append(dst, first|byte(n))
	}
	dst = append(dst, first|byte(full))
	for n -= full; n >= 0x80; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	return append(dst, byte(n))
}

// MaxInteger is the largest integer that ReadInteger accepts: what an int holds everywhere.
const MaxInteger = 1<<31 - 1

// ReadInteger reads the integer at in[at], which exists, with a prefix of some bits. next
// is the position after it, 0 if it is incomplete, or TooLarge.
func ReadInteger(in []byte, at, prefix int) (n, next int) {
	full := 1<<prefix - 1
	n = int(in[at]) & full
	at++
	if n < full {
		return n, at
	}
	sum := uint64(n)
	for shift := 0; at < len(in); shift += 7 {
		c := in[at]
		at++
		sum += uint64(c&0x7f) << shift
		if sum > MaxInteger || c >= 0x80 && shift == 28 {
			return 0, TooLarge
		}
		if c < 0x80 {
			return int(sum), at
		}
	}
	return 0, 0
}

// TooLarge is what ReadInteger returns for an integer that is larger than MaxInteger, or has
// more bytes than that needs.
const TooLarge = -1
