// Package compress encodes and decodes the content codings of HTTP: gzip,
// deflate (the zlib format, RFC 9110 section 8.4.1.2), br and zstd. Encoders
// and decoders are pooled by coding and level. It is the only package that
// imports compressors.
package compress

import "errors"

// A Coding is a content coding.
type Coding uint8

// The codings.
const (
	Gzip Coding = iota
	Deflate
	Brotli
	Zstd
	codings
)

// ErrTooLarge is returned when data decodes to more than the limit, or when decoding
// it would need more memory than the limit allows.
var ErrTooLarge = errors.New("sluice: decompressed data is longer than the limit")

// Levels of gzip and deflate range from huffmanOnly to maxFlate, those of brotli from
// 0 to maxBrotli, those of zstd from minZstd to maxZstd.
const (
	huffmanOnly   = -2
	defaultFlate  = 6
	maxFlate      = 9
	defaultBrotli = 4
	maxBrotli     = 11
	minZstd       = 1
	defaultZstd   = 2
	maxZstd       = 4

	// levels is the number of slots that a coding needs in a table by level. Brotli
	// needs most.
	levels = maxBrotli + 1 + maxLongBrotli
)

// Another encoder encodes long messages with brotli. It cannot flush and does not
// know brotli's dictionary, and is more than twice as fast. At 8 KiB JSON becomes 1 %
// smaller and HTML (doc/go_spec.html of Go) 4 % larger, at 64 KiB 6 % and 1 %
// smaller: go -C tools/bench run . ratios --table compress --bench br. Shorter messages
// lose more.
const (
	minLongBrotli = 8 << 10

	// maxLongBrotli is the highest level for which it is worth it. Higher levels are
	// for users to whom only the size matters.
	maxLongBrotli = 4
	longBrotli    = maxBrotli // the slot of long messages' level 0, which does not exist
)

// slotFor is slot for a complete message.
func (c Coding) slotFor(level, size int) int {
	slot := c.slot(level)
	if c == Brotli && size >= minLongBrotli && slot > 0 && slot <= maxLongBrotli {
		return longBrotli + slot
	}
	return slot
}

// slot returns the place of a level in a table of levels entries. A level that the
// coding does not have counts as its default.
func (c Coding) slot(level int) int {
	switch c {
	case Brotli:
		if level < 0 || level > maxBrotli {
			level = defaultBrotli
		}
		return level
	case Zstd:
		if level < minZstd || level > maxZstd {
			level = defaultZstd
		}
		return level
	}
	if level < huffmanOnly || level > maxFlate {
		level = defaultFlate
	}
	return level - huffmanOnly
}
