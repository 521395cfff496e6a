package h1

import (
	"encoding/binary"
	"math/bits"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// The scanners process words of eight bytes. Each test below marks certain bytes by
// setting their top bit. A borrow or carry can mark more bytes, but only later ones
// than a correctly marked byte. So the first mark is always correct; outsideValue
// describes its exceptions.
const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080
)

// tokenEnd returns the position of the first byte at or after i that may not be in a
// token, or len(s).
func tokenEnd(s []byte, i int) int { return i + ascii.Prefix(s[i:], ascii.Token) }

// isPlainWord reports whether each byte of w is a letter, a digit or a hyphen. Sums reach
// the top bit from the first byte of a range on, and have no carry if w is ASCII.
func isPlainWord(w uint64) bool {
	lower, hyphen := w|0x20*ones, w^'-'*ones
	letters := (lower + (0x80-'a')*ones) &^ (lower + (0x7f-'z')*ones)
	digits := (w + (0x80-'0')*ones) &^ (w + (0x7f-'9')*ones)
	return (letters|digits|(tops-hyphen))&^w&tops == tops
}

// nameColon returns the position of the first colon at or after i, or -1 if the next
// few words of eight bytes contain none. Most names are that short, and finding the
// colon is cheaper than checking each byte.
func nameColon(s []byte, i int) int {
	for stop := min(len(s)-8, i+24); i <= stop; i += 8 {
		w := binary.LittleEndian.Uint64(s[i:]) ^ ':'*ones
		if m := (w - ones) &^ w & tops; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	return -1
}

// plainEnd returns the position of the first byte at or after i that is not one of the
// characters from lowest to "~", or len(s). lowest is repeated in each byte of its word.
// It may stop early if s has less than eight bytes.
func plainEnd(s []byte, i int, lowest uint64) int {
	rest, n := s[i:], 0
	for ; n <= len(rest)-16; n += 16 {
		v, w := binary.LittleEndian.Uint64(rest[n:]), binary.LittleEndian.Uint64(rest[n+8:])
		if m := ((v - lowest) | (v + ones)) & tops; m != 0 {
			return i + n + bits.TrailingZeros64(m)>>3
		}
		if m := ((w - lowest) | (w + ones)) & tops; m != 0 {
			return i + n + 8 + bits.TrailingZeros64(m)>>3
		}
	}
	if n <= len(rest)-8 {
		w := binary.LittleEndian.Uint64(rest[n:])
		if m := ((w - lowest) | (w + ones)) & tops; m != 0 {
			return i + n + bits.TrailingZeros64(m)>>3
		}
		n += 8
	}
	if left := len(rest) - n; left > 0 && len(s) >= 8 { // zeros follow the last byte
		w := binary.LittleEndian.Uint64(s[len(s)-8:]) >> (64 - 8*left&63)
		return i + n + bits.TrailingZeros64(((w-lowest)|(w+ones))&tops)>>3
	}
	return i + n
}

// valueEnd returns the position of the first byte at or after i that may not be in a
// field value, or len(s) (RFC 9110 section 5.5).
func valueEnd(s []byte, i int) int {
	i = plainEnd(s, i, ' '*ones)
	if i == len(s) || s[i] == '\r' {
		return i
	}
	rest := s[i:]
	for len(rest) >= 8 {
		n := 8
		if m := outsideValue(binary.LittleEndian.Uint64(rest)); m != 0 {
			n = bits.TrailingZeros64(m) >> 3
			if !ascii.Is(rest[n], ascii.Value) {
				return len(s) - len(rest) + n
			}
			n++
		}
		rest = rest[n:]
	}
	return len(s) - len(rest) + ascii.Prefix(rest, ascii.Value)
}

// IsValue reports whether s may be a field's value (RFC 9110 section 5.5), except that
// it does not look for white space around it.
func IsValue(s []byte) bool { return valueEnd(s, 0) == len(s) }

// outsideValue marks bytes below 0x20 and 0x7f. It also marks HTAB, and may mark a
// "~" after a byte 0xff because of the carry.
func outsideValue(w uint64) uint64 {
	return ((w - 0x20*ones) | (w + ones)) &^ w & tops
}

// pathEnd returns the position of the first byte at or after i that is not in the
// part of a request target before its query: "?", a byte that may not be in a target,
// or a "%" without two hex digits after it; or len(s).
func pathEnd(s []byte, i int) int {
	for {
		for i+8 <= len(s) {
			w := binary.LittleEndian.Uint64(s[i:])
			percent, question := w^'%'*ones, w^'?'*ones
			m := outsideTarget(w) | ((percent-ones)&^percent|(question-ones)&^question)&tops
			if m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		for i < len(s) && s[i] != '%' && s[i] != '?' && ascii.Is(s[i], ascii.Target) {
			i++
		}
		if i+2 >= len(s) || s[i] != '%' || !isEscape(s[i:]) {
			return i
		}
		i += 3
	}
}

// queryEnd returns the position of the first byte at or after i that may not be in
// the query of a request target, or len(s). A "%" need not begin an escape: browsers
// send it unescaped, and nothing depends on its meaning.
func queryEnd(s []byte, i int) int {
	for i+8 <= len(s) {
		if m := outsideTarget(binary.LittleEndian.Uint64(s[i:])); m != 0 {
			i += bits.TrailingZeros64(m) >> 3
			if !ascii.Is(s[i], ascii.Target) {
				return i
			}
			i++
			continue
		}
		i += 8
	}
	for i < len(s) && ascii.Is(s[i], ascii.Target) {
		i++
	}
	return i
}

// IsPath reports whether s consists of bytes that the path and the query of a request
// target may have. It is true for an empty s.
func IsPath(s []byte) bool {
	i := pathEnd(s, 0)
	if i < len(s) && s[i] == '?' {
		i = queryEnd(s, i)
	}
	return i == len(s)
}

// IsFieldValue reports whether s is a field value without blanks around it (RFC 9110
// section 5.5), as it is after parsing.
func IsFieldValue(s []byte) bool {
	if n := len(s); n > 0 && (isBlank(s[0]) || isBlank(s[n-1])) {
		return false
	}
	return valueEnd(s, 0) == len(s)
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// outsideTarget marks bytes below 0x21, "#" and 0x7f. It may also mark a "~" after a
// byte 0xff because of the carry.
func outsideTarget(w uint64) uint64 {
	hash := w ^ '#'*ones
	return ((w-0x21*ones)&^w | (w+ones)&^w | (hash-ones)&^hash) & tops
}

// isEscape reports whether two hex digits follow the "%" at the beginning of s, which
// has at least three bytes.
func isEscape(s []byte) bool { return ascii.Is(s[1], ascii.Hex) && ascii.Is(s[2], ascii.Hex) }
