package shared

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
	"unsafe"
)

// A segment consists of words. atomic.Uint64 is aligned to 8 bytes on 32-bit
// platforms too.
type word = atomic.Uint64

const (
	wordBytes = 8
	lineBytes = 64
	lineWords = lineBytes / wordBytes
	pageWords = 4096 / wordBytes
)

// wordsOf returns mapped memory, which begins at a page, as words. It is the only
// function that converts bytes to words; Go checks the bounds of the resulting
// slice.
func wordsOf(memory []byte) []word {
	return unsafe.Slice((*word)(unsafe.Pointer(unsafe.SliceData(memory))), len(memory)/wordBytes)
}

// bytesOf is the opposite of wordsOf, to give memory back.
func bytesOf(words []word) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*wordBytes)
}

// heapWords returns n words that begin at a cache line.
func heapWords(n int) []word {
	words := make([]word, n+lineWords)
	past := int(uintptr(unsafe.Pointer(unsafe.SliceData(words)))%lineBytes) / wordBytes
	if past > 0 {
		words = words[lineWords-past:]
	}
	return words[:n:n]
}

// wordsFor returns how many words n bytes take.
func wordsFor(n int) int { return (n + wordBytes - 1) / wordBytes }

// linesFor rounds a number of words up to whole cache lines.
func linesFor(words int) int { return (words + lineWords - 1) &^ (lineWords - 1) }

// putBytes stores data from the first word on. The last word is filled up with
// zeros.
func putBytes(words []word, data []byte) {
	whole := words[:len(data)/wordBytes]
	for i := range whole {
		whole[i].Store(binary.LittleEndian.Uint64(data[i*wordBytes:]))
	}
	if rest := data[len(whole)*wordBytes:]; len(rest) > 0 {
		words[len(whole)].Store(lastWord(rest))
	}
}

// lastWord returns up to 7 bytes as a word.
func lastWord(data []byte) (w uint64) {
	for i, b := range data {
		w |= uint64(b) << (8 * i)
	}
	return w
}

// appendBytes appends the first n bytes of words to dst.
func appendBytes(dst []byte, words []word, n int) []byte {
	before := len(dst)
	dst = slices.Grow(dst, n)[:before+n]
	out, whole := dst[before:], words[:n/wordBytes]
	for i := range whole {
		binary.LittleEndian.PutUint64(out[i*wordBytes:], whole[i].Load())
	}
	if rest := out[len(whole)*wordBytes:]; len(rest) > 0 {
		w := words[len(whole)].Load()
		for i := range rest {
			rest[i] = byte(w >> (8 * i))
		}
	}
	return dst
}

// holdsBytes reports whether words begin with data, filled up with zeros.
func holdsBytes(words []word, data []byte) bool {
	whole := words[:len(data)/wordBytes]
	for i := range whole {
		if whole[i].Load() != binary.LittleEndian.Uint64(data[i*wordBytes:]) {
			return false
		}
	}
	rest := data[len(whole)*wordBytes:]
	return len(rest) == 0 || words[len(whole)].Load() == lastWord(rest)
}
