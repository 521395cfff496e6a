package compress

import (
	"io"

	"github.com/andybalholm/brotli"
)

// Windows of brotli by the power of two that they are long. Those from
// minBrotliWindow up are declared in the low 4 bits of the first byte: a 1, and 3
// bits that are never 0 for the power less 17 (RFC 7932 section 9.1).
const (
	minBrotliWindow = 18
	maxBrotliWindow = 24

	// maxPooledBrotli is the largest window that an idle decoder may have memory
	// for.
	maxPooledBrotli = 22
)

// brotliDecoder refuses what follows the end of the data.
//
// It may allocate a window, up to 16 MiB, for data that declares a window and a
// block of that size, whatever comes of it. So the window is lowered to what
// holds the output that is wanted: no distance can be longer than the output
// before it, so that the output is the same.
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

// brotliWindow returns the smallest window for output up to limit and one byte
// more, which tells that there is too much. Windows are 16 bytes shorter than
// the power of two.
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

// brotliSource passes on what it reads from r, with a lower window.
type brotliSource struct {
	r     io.Reader
	most  uint8 // the largest window that is passed on
	bits  uint8 // the window; 0: not known, or below minBrotliWindow
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
