package compress

import (
	"sync"

	"github.com/klauspost/compress/flate"
)

// encoders holds idle *Writers by coding and level. decoders holds idle *Readers by
// coding and, for zstd, by window.
var (
	encoders [int(codings) * levels]sync.Pool
	decoders [int(codings) + zstdWindows - 1]sync.Pool
)

func encoderPool(c Coding, slot int) *sync.Pool { return &encoders[int(c)*levels+slot] }

// decoderPool returns the pool for a coding. zstd, the last coding, has a pool for
// each window.
func decoderPool(c Coding, window int) *sync.Pool { return &decoders[int(c)+window] }

// flateWriters holds idle compressors of messages, by the bits of their window.
// flateReaders holds idle decompressors. A goroutine owns one while it encodes or decodes a
// message, which does not wait; so there are hardly more than processors.
var (
	flateWriters [MaxWindowBits + 1]sync.Pool
	flateReaders sync.Pool
)

func acquireFlateWriter(bits uint8) *flateWriter {
	if z, ok := flateWriters[bits].Get().(*flateWriter); ok {
		return z
	}
	return newFlateWriter(bits)
}

func releaseFlateWriter(z *flateWriter, bits uint8) { flateWriters[bits].Put(z) }

func acquireFlateReader() *flateReader {
	if z, ok := flateReaders.Get().(*flateReader); ok {
		return z
	}
	return &flateReader{ReadCloser: flate.NewReader(&messageSource{})}
}

func releaseFlateReader(z *flateReader) { flateReaders.Put(z) }
