package h1

import (
	"encoding/binary"
	"math/bits"

	"github.com/sluicehttp/sluice/internal/ascii"
)

// The scanners look at words of eight bytes. Each test below marks the bytes
// that it is about: it sets their top bit. A borrow or carry can mark more, but
// only above (that is: behind) a byte that is rightly marked, so the lowest mark
// is always right; outsideValue says where it differs.
const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080
)

// tokenEnd returns the place of the first byte at or after i that is not in a
// token, len(s) if there is none.
func tokenEnd(s []byte, i int) int {
	for i < len(s) && ascii.Is(s[i], ascii.Token) {
		i++
	}
	return i
}

// nameColon returns the place of the first colon at or after i, -1 if the next
// few words of eight bytes hold none. Most names are that short, and to find
// where one ends is cheaper than to look at each of its bytes.
func nameColon(s []byte, i int) int {
	for stop := min(len(s)-8, i+24); i <= stop; i += 8 {
		w := binary.LittleEndian.Uint64(s[i:]) ^ ':'*ones
		if m := (w - ones) &^ w & tops; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	return -1
}

// valueEnd returns the place of the first byte at or after i that no field
// value may contain, len(s) if there is none (RFC 9110 section 5.5).
func valueEnd(s []byte, i int) int {
	for i+16 <= len(s) { // two words in a step: BenchmarkParse/Browser -6 %
		two := s[i : i+16]
		m := outsideValue(binary.LittleEndian.Uint64(two))
		n := outsideValue(binary.LittleEndian.Uint64(two[8:]))
		if m|n == 0 {
			i += 16
			continue
		}
		if m == 0 {
			m = n
			i += 8
		}
		i += bits.TrailingZeros64(m) >> 3
		if !ascii.Is(s[i], ascii.Value) {
			return i
		}
		i++
	}
	for i < len(s) && ascii.Is(s[i], ascii.Value) {
		i++
	}
	return i
}

// outsideValue marks the bytes that no value contains: those below 0x20, and
// 0x7f. It also marks HTAB, and may mark a "~" that the carry of a byte 0xff
// before it has reached.
func outsideValue(w uint64) uint64 {
	return ((w - 0x20*ones) | (w + ones)) &^ w & tops
}

// pathEnd returns the place of the first byte at or after i that is not in the
// part of a request target before its query: the "?", a byte that no target
// contains, or a "%" not followed by two hex digits; len(s) if there is none.
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

// queryEnd returns the place of the first byte at or after i that is not in the
// query of a request target, len(s) if there is none. A "%" need not begin an
// escape there: browsers send it raw, and nothing depends on what it means.
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

// outsideTarget marks the bytes that no target contains: those below 0x21, "#"
// and 0x7f. It may also mark a "~" that the carry of a byte 0xff before it has
// reached.
func outsideTarget(w uint64) uint64 {
	hash := w ^ '#'*ones
	return ((w-0x21*ones)&^w | (w+ones)&^w | (hash-ones)&^hash) & tops
}

// isEscape tells whether two hex digits follow the "%" that s, at least three
// bytes, begins with.
func isEscape(s []byte) bool { return ascii.Is(s[1], ascii.Hex) && ascii.Is(s[2], ascii.Hex) }
