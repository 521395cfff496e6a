package compress

import (
	"errors"
	"io"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/sluicehttp/sluice/internal/buf"
)

// encoder is implemented by the encoders of all four codings.
type encoder interface {
	io.WriteCloser
	Flush() error
	Reset(w io.Writer)
}

// A Writer encodes what is written to it. The caller must Close it, which ends the
// encoded data, and must not use it afterwards. It is not for concurrent use.
type Writer struct {
	encoder encoder
	out     sink
	coding  Coding
	slot    uint8
}

// sink writes the encoded data to w, or appends it to b.
type sink struct {
	w       io.Writer
	b       []byte
	written int
}

// Write implements io.Writer.
func (s *sink) Write(p []byte) (int, error) {
	if s.w == nil {
		s.b = append(s.b, p...)
		return len(p), nil
	}
	n, err := s.w.Write(p)
	s.written += n
	return n, err
}

// NewWriter returns a Writer of coding c that writes to w. A level that c does not
// have counts as its default.
func NewWriter(w io.Writer, c Coding, level int) *Writer {
	z := acquireWriter(c, c.slot(level))
	z.out.w = w
	z.encoder.Reset(&z.out)
	return z
}

// acquireWriter returns a Writer whose encoder must be Reset.
func acquireWriter(c Coding, slot int) *Writer {
	if z, ok := encoderPool(c, slot).Get().(*Writer); ok {
		return z
	}
	z := &Writer{coding: c, slot: uint8(slot)}
	z.encoder = newEncoder(c, slot)
	return z
}

// newEncoder panics on an error, which means that slot is wrong.
func newEncoder(c Coding, slot int) (e encoder) {
	var err error
	switch c {
	case Gzip:
		e, err = newGzipEncoder(slot + huffmanOnly)
	case Deflate:
		e, err = zlib.NewWriterLevel(nil, slot+huffmanOnly)
	case Brotli:
		e = newBrotliEncoder(slot)
	case Zstd:
		e, err = newZstdEncoder(slot)
	}
	if err != nil {
		panic(err)
	}
	return e
}

// gzipEncoder writes no time of modification (RFC 1952 section 2.3.1). The package's
// zero time would be one in 2042.
type gzipEncoder struct{ *gzip.Writer }

func newGzipEncoder(level int) (encoder, error) {
	z, err := gzip.NewWriterLevel(nil, level)
	return gzipEncoder{z}, err
}

// Reset implements encoder.
func (e gzipEncoder) Reset(w io.Writer) {
	e.Writer.Reset(w)
	e.ModTime = time.Unix(0, 0)
}

func newBrotliEncoder(slot int) encoder {
	if slot <= maxBrotli {
		return brotli.NewWriterLevel(nil, slot)
	}
	// A level of this encoder compares to the next higher one of the other.
	return messageEncoder{brotli.NewWriterV2(nil, max(slot-longBrotli-1, 1))}
}

// resettable is an encoder that cannot flush.
type resettable interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// messageEncoder encodes complete messages.
type messageEncoder struct{ resettable }

// Flush implements encoder. It is never called: NewWriter does not select this
// encoder.
func (messageEncoder) Flush() error { return errors.ErrUnsupported }

// newZstdEncoder keeps windows below 8 MiB, which every recipient of the content
// coding must accept (RFC 9659), and small enough for recipients that limit the
// body's size.
func newZstdEncoder(level int) (*zstd.Encoder, error) {
	window := 1 << 20
	if level > defaultZstd {
		window = minZstdWindow
	}
	return zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.EncoderLevel(level)),
		zstd.WithWindowSize(window),
		zstd.WithEncoderConcurrency(1),
		zstd.WithLowerEncoderMem(true),
		zstd.WithZeroFrames(true),
	)
}

// Write encodes p. Encoded data is written when there is enough of it.
func (z *Writer) Write(p []byte) (int, error) { return z.encoder.Write(p) }

// Flush writes everything that was encoded so far.
func (z *Writer) Flush() error { return z.encoder.Flush() }

// Close ends the encoded data. It does not close the underlying writer.
func (z *Writer) Close() error {
	err := z.encoder.Close()
	z.release()
	return err
}

func (z *Writer) release() {
	z.out = sink{}
	encoderPool(z.coding, int(z.slot)).Put(z)
}

// Append appends src, encoded, to dst. The two must not overlap.
func Append(dst, src []byte, c Coding, level int) []byte {
	z := acquireWriter(c, c.slotFor(level, len(src)))
	defer z.release()
	if e, ok := z.encoder.(*zstd.Encoder); ok {
		return e.EncodeAll(src, dst)
	}
	z.out.b = dst
	z.encoder.Reset(&z.out)
	// A sink without a writer returns no errors, so the encoders do not either.
	_, _ = z.encoder.Write(src)
	_ = z.encoder.Close()
	return z.out.b
}

// Write writes src, encoded, to w and returns the number of bytes written.
func Write(w io.Writer, src []byte, c Coding, level int) (written int, err error) {
	z := acquireWriter(c, c.slotFor(level, len(src)))
	defer z.release()
	if e, ok := z.encoder.(*zstd.Encoder); ok {
		b := buf.Get(len(src)/4 + 64)
		defer b.Release()
		b.B = e.EncodeAll(src, b.B)
		return w.Write(b.B)
	}
	z.out.w = w
	z.encoder.Reset(&z.out)
	_, err = z.encoder.Write(src)
	if closeErr := z.encoder.Close(); err == nil {
		err = closeErr
	}
	return z.out.written, err
}
