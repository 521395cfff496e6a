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

// ErrTooLarge is returned when data decodes to more than the limit, or when it
// could not be decoded without more memory than the limit stands for.
var ErrTooLarge = errors.New("sluice: decompressed data is longer than the limit")

// Levels of gzip and deflate go from huffmanOnly to maxFlate, those of brotli
// from 0 to maxBrotli, those of zstd from minZstd to maxZstd.
const (
	huffmanOnly   = -2
	defaultFlate  = 6
	maxFlate      = 9
	defaultBrotli = 4
	maxBrotli     = 11
	minZstd       = 1
	defaultZstd   = 2
	maxZstd       = 4

	// levels is the number of slots a coding needs in a table by level: that
	// of brotli is the longest.
	levels = maxBrotli + 1 + maxLongBrotli
)

// Long messages are encoded with brotli by another encoder, which cannot flush
// and does not know brotli's dictionary. It is more than twice as fast. At 8 KiB
// JSON becomes 1 % smaller and HTML 4 % larger, at 64 KiB 6 % and 1 % smaller:
// go -C bench run ./compress -case br, and with -file doc/go_spec.html of Go.
// Shorter messages lose more.
const (
	minLongBrotli = 8 << 10

	// maxLongBrotli is the highest level that is worth it. Those above are for
	// users to whom size is all.
	maxLongBrotli = 4
	longBrotli    = maxBrotli // the slot of long messages' level 0, which is none
)

// slotFor is slot for a message of which all is there.
func (c Coding) slotFor(level, size int) int {
	slot := c.slot(level)
	if c == Brotli && size >= minLongBrotli && slot > 0 && slot <= maxLongBrotli {
		return longBrotli + slot
	}
	return slot
}

// slot returns the place of a level in a table of levels entries. A level that
// the coding does not have is its default.
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
