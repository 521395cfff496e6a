package compress

import (
	"io"

	"github.com/andybalholm/brotli"
)

// Brotli's windows as powers of two. Those from minBrotliWindow up are declared in
// the low 4 bits of the first byte: a 1, and 3 bits for the power less 17, which are
// never 0 (RFC 7932 section 9.1).
const (
	minBrotliWindow = 18
	maxBrotliWindow = 24

	// maxPooledBrotli is the largest window for which an idle decoder may keep
	// memory.
	maxPooledBrotli = 22
)

// brotliDecoder refuses data after the end.
//
// Data that declares a window and a block of up to 16 MiB makes the decoder allocate
// a window of that size, even if little output follows. So brotliSource lowers the
// declared window to what the wanted output needs. No distance can be longer than the
// output before it, so the output is the same.
type brotliDecoder struct {
	brotli.Reader
	source brotliSource
}

func (d *brotliDecoder) reset(r io.Reader, limit int) error {
	if r == nil {
		d.source.r = nothing{}
		return d.Reset(&d.source)
	}
	d.source = brotliSource{r: r, most: brotliWindow(limit)}
	return d.Reset(&d.source)
}

// brotliWindow returns the smallest window for limit bytes of output and one more,
// which shows that there is too much. Windows are 16 bytes shorter than the power of
// two.
func brotliWindow(limit int) uint8 {
	if limit <= 0 {
		return maxBrotliWindow
	}
	bits := uint8(minBrotliWindow)
	for bits < maxBrotliWindow && limit >= 1<<bits-16 {
		bits++
	}
	return bits
}

// brotliSource passes on r's data with a lower window.
type brotliSource struct {
	r     io.Reader
	most  uint8 // the largest window to pass on
	bits  uint8 // the window; 0: unknown, or below minBrotliWindow
	begun bool
}

// Read implements io.Reader.
func (s *brotliSource) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if n > 0 && !s.begun {
		s.begun = true
		if declared := p[0] & 0xf; declared&1 != 0 && declared != 1 {
			s.bits = min(17+declared>>1, s.most)
			p[0] = p[0]&^0xf | (s.bits-17)<<1 | 1
		}
	}
	return n, err
}
