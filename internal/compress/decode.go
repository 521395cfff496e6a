package compress

import (
	"bytes"
	"errors"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/sluicehttp/sluice/internal/buf"
)

// Before a zstd decoder decodes the first byte, it allocates the window that the data
// requests. So the window is bounded by the limit of the output, but not below
// minZstdWindow, which ordinary encoders always use. The upper bound is that of the
// content coding (RFC 9659).
const (
	minZstdWindow = 2 << 20
	maxZstdWindow = 8 << 20
	zstdWindows   = 3 // 2, 4 and 8 MiB
)

// windowIndex returns the index of the zstdWindows for a limit of the output; limit 0
// means none.
func windowIndex(limit int) int {
	switch {
	case limit <= 0 || limit > 4<<20:
		return 2
	case limit > minZstdWindow:
		return 1
	}
	return 0
}

// decoder is implemented by the decoders of all four codings.
type decoder interface {
	io.Reader
	// reset begins to decode r. Output beyond limit will not be read; 0 is no limit.
	// If r is nil, the decoder drops its references to the last source.
	reset(r io.Reader, limit int) error
}

// A Reader decodes. It returns io.EOF only if the encoded data is complete and,
// except for deflate, nothing follows it. The caller must Close the Reader, and must
// not use it afterwards. It is not for concurrent use.
type Reader struct {
	decoder decoder
	source  bytes.Reader
	left    int // output still allowed
	limited bool
	coding  Coding
	window  uint8
	err     error
	// isUnread: the source was not read yet. gzip and zlib read their heads when they
	// are reset.
	isUnread bool
	from     io.Reader
}

// NewReader returns a Reader of coding c. More than limit bytes of output are
// ErrTooLarge; limit 0 means no limit.
func NewReader(r io.Reader, c Coding, limit int) *Reader {
	z := acquireReader(c, limit)
	z.from, z.isUnread = r, true
	return z
}

func acquireReader(c Coding, limit int) *Reader {
	window := 0
	if c == Zstd {
		window = windowIndex(limit)
	}
	z, ok := decoderPool(c, window).Get().(*Reader)
	if !ok {
		z = &Reader{coding: c, window: uint8(window), decoder: newDecoder(c, window)}
	}
	z.left, z.limited = limit, limit > 0
	return z
}

// Read implements io.Reader.
func (z *Reader) Read(p []byte) (int, error) {
	if z.err != nil || len(p) == 0 {
		return 0, z.err
	}
	if z.isUnread {
		z.isUnread = false
		if z.err = z.decoder.reset(z.from, z.left); z.err != nil {
			return 0, z.err
		}
	}
	// One more byte than allowed distinguishes the end from a violation.
	if z.limited && len(p)-1 > z.left {
		p = p[:z.left+1]
	}
	n, err := z.decoder.Read(p)
	if z.limited {
		if n > z.left {
			n, err = z.left, ErrTooLarge
		}
		z.left -= n
	}
	if errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		err = ErrTooLarge
	}
	z.err = err
	return n, err
}

// Close returns the decoder to its pool. It does not close the underlying reader.
func (z *Reader) Close() error {
	z.source.Reset(nil)
	z.from, z.err = nil, nil
	z.decoder.reset(nil, 0)
	if d, ok := z.decoder.(*brotliDecoder); ok && d.source.bits > maxPooledBrotli {
		return nil // do not pool it: its window is too large
	}
	decoderPool(z.coding, int(z.window)).Put(z)
	return nil
}

// AppendDecoded appends src, decoded, to dst. More than limit bytes of output are
// ErrTooLarge; limit 0 means no limit. With an error it returns dst and the bytes
// decoded before.
func AppendDecoded(dst, src []byte, c Coding, limit int) ([]byte, error) {
	z := acquireReader(c, limit)
	z.source.Reset(src)
	z.from, z.isUnread = &z.source, true
	defer z.Close()
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, make([]byte, max(512, min(len(src), len(dst))))...)[:len(dst)]
		}
		n, err := z.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return dst, err
		}
	}
}

// WriteDecoded writes src, decoded, to w and returns the number of bytes written.
// More than limit bytes of output are ErrTooLarge; limit 0 means no limit.
func WriteDecoded(w io.Writer, src []byte, c Coding, limit int) (written int, err error) {
	z := acquireReader(c, limit)
	z.source.Reset(src)
	z.from, z.isUnread = &z.source, true
	defer z.Close()
	b := buf.Get(copySize)
	defer b.Release()
	n, err := io.CopyBuffer(w, z, b.B[:cap(b.B)])
	return int(n), err
}

// copySize is how much WriteDecoded decodes at a time.
const copySize = 16 << 10

func newDecoder(c Coding, window int) decoder {
	switch c {
	case Gzip:
		return new(gzipDecoder)
	case Deflate:
		return new(zlibDecoder)
	case Brotli:
		return &brotliDecoder{Reader: *brotli.NewReader(nil)}
	}
	d, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(uint64(minZstdWindow)<<window),
	)
	if err != nil {
		panic(err) // cannot happen: the options are valid
	}
	return zstdDecoder{d}
}

// nothing is the source of an idle decoder.
type nothing struct{}

// Read implements io.Reader.
func (nothing) Read([]byte) (int, error) { return 0, io.EOF }

// decoders then need no buffer
func (nothing) ReadByte() (byte, error) { return 0, io.EOF }

// gzipDecoder reads all members (RFC 1952 section 2.2). Data after the last one that
// is not a member is an error.
type gzipDecoder struct{ gzip.Reader }

func (d *gzipDecoder) reset(r io.Reader, _ int) error {
	if r == nil {
		r = nothing{} // it fails, and drops the reference to the last source
	}
	err := d.Reset(r)
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// zlibDecoder makes its reader when there is a head to read, because a zlib.Reader
// cannot exist without one.
type zlibDecoder struct{ r io.ReadCloser }

func (d *zlibDecoder) reset(r io.Reader, _ int) (err error) {
	switch {
	case d.r != nil:
		if r == nil {
			r = nothing{}
		}
		err = d.r.(zlib.Resetter).Reset(r, nil)
	case r != nil:
		d.r, err = zlib.NewReader(r)
		if err != nil {
			d.r = nil
		}
	}
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Read implements io.Reader.
func (d *zlibDecoder) Read(p []byte) (int, error) { return d.r.Read(p) }

type zstdDecoder struct{ *zstd.Decoder }

func (d zstdDecoder) reset(r io.Reader, _ int) error { return d.Reset(r) }
