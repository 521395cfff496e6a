package fieldlist

import (
	"encoding/binary"
	"slices"
)

// minHuffmanBits is the length of the shortest codes.
const minHuffmanBits = 5

// AppendHuffmanDecoded appends the text of the Huffman-coded string src (RFC 7541
// section 5.2). isValid is false if src is none.
func AppendHuffmanDecoded(dst, src []byte) (text []byte, isValid bool) {
	at := len(dst)
	dst = slices.Grow(dst, len(src)*8/minHuffmanBits+2) // a pair writes two bytes
	out := dst[:cap(dst)]
	var bits uint64 // the next bits, left-aligned
	have := uint(0) // how many of them are valid, less than 64; the others are zeros, or those of src
	for i := 0; ; {
		if i+8 <= len(src) {
			bits |= binary.BigEndian.Uint64(src[i:]) >> (have & 63)
			i += int(63-have) >> 3
			have |= 56
		} else {
			for ; have < 56 && i < len(src); i++ {
				bits |= uint64(src[i]) << (56 - have&63)
				have += 8
			}
		}
		for have >= huffmanBits {
			pair := huffmanPairs[bits>>(64-huffmanBits)]
			if pair == 0 {
				break
			}
			out[at+1] = byte(pair >> 8)
			out[at] = byte(pair)
			at += int(pair >> 24)
			used := uint(pair>>16) & 15
			bits <<= used
			have -= used
		}
		if have < huffmanLongest && i < len(src) {
			continue
		}
		symbol, used := firstSymbol(bits)
		if used == 0 || used > have {
			if i < len(src) || have >= 8 || bits>>56 != 0xff<<(8-have)&0xff { // the padding is ones
				return dst[:at], false
			}
			return dst[:at], true
		}
		out[at] = symbol
		at++
		bits <<= used & 63
		have -= used
	}
}

// firstSymbol returns the symbol that bits begin with, and the length of its code; 0: that
// of EOS.
func firstSymbol(bits uint64) (symbol byte, used uint) {
	for steps := &huffmanSteps[0]; ; used += 8 {
		step := steps[bits>>56]
		if n := uint(step >> 8); n > 0 {
			return byte(step), used + n
		}
		if step == 0 {
			return 0, 0
		}
		steps = &huffmanSteps[step]
		bits <<= 8
	}
}

// huffmanLength returns how many bytes appendHuffman appends for s, whose length is
// bounded by a message's.
func huffmanLength(s []byte) int {
	bits := 0
	for _, c := range s {
		bits += int(huffmanLengths[c])
	}
	return (bits + 7) >> 3
}

// appendHuffman appends s in Huffman codes, padded with ones.
func appendHuffman(dst, s []byte) []byte {
	var bits uint64
	have := 0
	for _, c := range s {
		entry := huffmanCodes[c]
		bits = bits<<(entry>>32) | entry&(1<<32-1)
		if have += int(entry >> 32); have >= 32 {
			have -= 32
			dst = binary.BigEndian.AppendUint32(dst, uint32(bits>>have))
		}
	}
	if have&7 != 0 {
		pad := 8 - have&7
		bits = bits<<pad | (1<<pad - 1)
		have += pad
	}
	for ; have > 0; have -= 8 {
		dst = append(dst, byte(bits>>(have-8)))
	}
	return dst
}
