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

// A zstd decoder allocates the window that the data asks for before it decodes
// the first byte. So the window is bounded by the limit of the output, but not
// below minZstdWindow, which ordinary encoders use whatever they encode. The
// upper bound is the one of the content coding (RFC 9659).
const (
	minZstdWindow = 2 << 20
	maxZstdWindow = 8 << 20
	zstdWindows   = 3 // 2, 4 and 8 MiB
)

// windowIndex returns which of the zstdWindows fits a limit of the output; no
// limit is 0.
func windowIndex(limit int) int {
	switch {
	case limit <= 0 || limit > 4<<20:
		return 2
	case limit > minZstdWindow:
		return 1
	}
	return 0
}

// decoder is what the readers of all four codings have in common.
type decoder interface {
	io.Reader
	// reset starts anew with r. Output beyond limit will not be wanted; 0 is no
	// limit. Without r it forgets what it read from before.
	reset(r io.Reader, limit int) error
}

// A Reader decodes. It returns io.EOF only where the encoded data is complete
// and nothing but, for deflate, other data follows it. Close must be called;
// the Reader must not be used afterwards. Not for concurrent use.
type Reader struct {
	decoder decoder
	source  bytes.Reader
	left    int // of the limit
	limited bool
	coding  Coding
	window  uint8
	err     error
	// isUnread says that the source was not looked at yet: gzip and zlib read
	// their heads when they are reset.
	isUnread bool
	from     io.Reader
}

// NewReader returns a Reader of coding c. More than limit bytes of output are
// ErrTooLarge; 0 is no limit.
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
	// One byte more than allowed tells the end from a violation.
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

// Close gives the decoder back. It does not close the underlying reader.
func (z *Reader) Close() error {
	z.source.Reset(nil)
	z.from, z.err = nil, nil
	z.decoder.reset(nil, 0)
	if d, ok := z.decoder.(*brotliDecoder); ok && d.source.bits > maxPooledBrotli {
		return nil // it has memory for that
	}
	decoderPool(z.coding, int(z.window)).Put(z)
	return nil
}

// AppendDecoded appends src, decoded, to dst. Decoding to more than limit
// bytes is ErrTooLarge; 0 is no limit. With an error it returns dst and what
// was decoded before.
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

// WriteDecoded writes src, decoded, to w and returns how many bytes that were.
// Decoding to more than limit bytes is ErrTooLarge; 0 is no limit.
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
		panic(err) // the options are wrong
	}
	return zstdDecoder{d}
}

// nothing is what an idle decoder reads from.
type nothing struct{}

// Read implements io.Reader.
func (nothing) Read([]byte) (int, error) { return 0, io.EOF }

// ReadByte implements io.ByteReader: decoders need no buffer to read from it.
func (nothing) ReadByte() (byte, error) { return 0, io.EOF }

// gzipDecoder reads all members (RFC 1952 section 2.2). What follows the last
// one and is no member is an error.
type gzipDecoder struct{ gzip.Reader }

func (d *gzipDecoder) reset(r io.Reader, _ int) error {
	if r == nil {
		r = nothing{} // it fails, and forgets what it read from before
	}
	err := d.Reset(r)
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// zlibDecoder makes its reader when there is a head to read: a zlib.Reader
// cannot exist without.
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
