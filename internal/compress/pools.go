package compress

import "sync"

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
