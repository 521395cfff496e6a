package sluice

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"

	"github.com/sluicehttp/sluice/internal/compress"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// Levels of gzip and deflate. -1 means level 5. Any other level outside this
// range means CompressDefaultCompression.
const (
	CompressNoCompression      = 0
	CompressBestSpeed          = 1
	CompressBestCompression    = 9
	CompressDefaultCompression = 6
	CompressHuffmanOnly        = -2
)

// Levels of brotli. A level outside this range means
// CompressBrotliDefaultCompression. Levels 1 to 4 use a faster encoder for
// messages of 8 KiB or more that are not streams.
const (
	CompressBrotliNoCompression      = 0
	CompressBrotliBestSpeed          = 0
	CompressBrotliBestCompression    = 11
	CompressBrotliDefaultCompression = 4
)

// Levels of zstd. CompressZstdSpeedNotSet, and a level outside this range, mean
// CompressZstdDefault.
const (
	CompressZstdSpeedNotSet     = 0
	CompressZstdBestSpeed       = 1
	CompressZstdDefault         = 2
	CompressZstdSpeedBetter     = 3
	CompressZstdBestCompression = 4
)

// AppendGzipBytes appends src to dst, encoded in the gzip format. src and dst
// must not overlap.
func AppendGzipBytes(dst, src []byte) []byte {
	return AppendGzipBytesLevel(dst, src, CompressDefaultCompression)
}

// AppendGzipBytesLevel is AppendGzipBytes with a compression level.
func AppendGzipBytesLevel(dst, src []byte, level int) []byte {
	return compress.Append(dst, src, compress.Gzip, level)
}

// WriteGzip writes p to w, encoded in the gzip format, and returns the number
// of encoded bytes.
func WriteGzip(w io.Writer, p []byte) (int, error) {
	return WriteGzipLevel(w, p, CompressDefaultCompression)
}

// WriteGzipLevel is WriteGzip with a compression level.
func WriteGzipLevel(w io.Writer, p []byte, level int) (int, error) {
	return compress.Write(w, p, compress.Gzip, level)
}

// AppendGunzipBytes decodes src, which is in the gzip format, and appends the
// result to dst. As of all functions of this kind, the output has no limit, and after an
// error dst contains the bytes that were decoded before it.
func AppendGunzipBytes(dst, src []byte) ([]byte, error) {
	return compress.AppendDecoded(dst, src, compress.Gzip, 0)
}

// WriteGunzip is AppendGunzipBytes, but writes the result to w and returns the number of
// decoded bytes.
func WriteGunzip(w io.Writer, p []byte) (int, error) {
	return compress.WriteDecoded(w, p, compress.Gzip, 0)
}

// AppendDeflateBytes is AppendGzipBytes for the zlib format, which is that of the content
// coding deflate (RFC 9110 section 8.4.1.2).
func AppendDeflateBytes(dst, src []byte) []byte {
	return AppendDeflateBytesLevel(dst, src, CompressDefaultCompression)
}

// AppendDeflateBytesLevel is AppendDeflateBytes with a compression level.
func AppendDeflateBytesLevel(dst, src []byte, level int) []byte {
	return compress.Append(dst, src, compress.Deflate, level)
}

// WriteDeflate is WriteGzip for the zlib format.
func WriteDeflate(w io.Writer, p []byte) (int, error) {
	return WriteDeflateLevel(w, p, CompressDefaultCompression)
}

// WriteDeflateLevel is WriteDeflate with a compression level.
func WriteDeflateLevel(w io.Writer, p []byte, level int) (int, error) {
	return compress.Write(w, p, compress.Deflate, level)
}

// AppendInflateBytes is AppendGunzipBytes for the zlib format.
func AppendInflateBytes(dst, src []byte) ([]byte, error) {
	return compress.AppendDecoded(dst, src, compress.Deflate, 0)
}

// WriteInflate is WriteGunzip for the zlib format.
func WriteInflate(w io.Writer, p []byte) (int, error) {
	return compress.WriteDecoded(w, p, compress.Deflate, 0)
}

// AppendBrotliBytes is AppendGzipBytes for the brotli format (RFC 7932).
func AppendBrotliBytes(dst, src []byte) []byte {
	return AppendBrotliBytesLevel(dst, src, CompressBrotliDefaultCompression)
}

// AppendBrotliBytesLevel is AppendBrotliBytes with a compression level.
func AppendBrotliBytesLevel(dst, src []byte, level int) []byte {
	return compress.Append(dst, src, compress.Brotli, level)
}

// WriteBrotli is WriteGzip for the brotli format.
func WriteBrotli(w io.Writer, p []byte) (int, error) {
	return WriteBrotliLevel(w, p, CompressBrotliDefaultCompression)
}

// WriteBrotliLevel is WriteBrotli with a compression level.
func WriteBrotliLevel(w io.Writer, p []byte, level int) (int, error) {
	return compress.Write(w, p, compress.Brotli, level)
}

// AppendUnbrotliBytes is AppendGunzipBytes for the brotli format. Bytes after the end of
// the encoded data are an error.
func AppendUnbrotliBytes(dst, src []byte) ([]byte, error) {
	return compress.AppendDecoded(dst, src, compress.Brotli, 0)
}

// WriteUnbrotli is WriteGunzip for the brotli format.
func WriteUnbrotli(w io.Writer, p []byte) (int, error) {
	return compress.WriteDecoded(w, p, compress.Brotli, 0)
}

// AppendZstdBytes is AppendGzipBytes for the zstd format (RFC 8878).
func AppendZstdBytes(dst, src []byte) []byte {
	return AppendZstdBytesLevel(dst, src, CompressZstdDefault)
}

// AppendZstdBytesLevel is AppendZstdBytes with a compression level.
func AppendZstdBytesLevel(dst, src []byte, level int) []byte {
	return compress.Append(dst, src, compress.Zstd, level)
}

// WriteZstdLevel is WriteGzipLevel for the zstd format.
func WriteZstdLevel(w io.Writer, p []byte, level int) (int, error) {
	return compress.Write(w, p, compress.Zstd, level)
}

// AppendUnzstdBytes is AppendGunzipBytes for the zstd format. A window over 8 MiB is an
// error (RFC 9659).
func AppendUnzstdBytes(dst, src []byte) ([]byte, error) {
	return compress.AppendDecoded(dst, src, compress.Zstd, 0)
}

// WriteUnzstd is WriteGunzip for the zstd format; see AppendUnzstdBytes.
func WriteUnzstd(w io.Writer, p []byte) (int, error) {
	return compress.WriteDecoded(w, p, compress.Zstd, 0)
}

// BodyGunzip returns the body decoded from gzip, whatever Content-Encoding
// says. The result is a new slice. The limit is that of BodyUncompressed.
func (b *messageBody) BodyGunzip() ([]byte, error) { return b.decoded(compress.Gzip, 0) }

// BodyGunzipWithLimit is BodyGunzip with a limit of maxBodySize bytes: if the
// result is larger, the error is ErrBodyTooLarge. maxBodySize <= 0 means the
// limit of BodyGunzip.
func (b *messageBody) BodyGunzipWithLimit(maxBodySize int) ([]byte, error) {
	return b.decoded(compress.Gzip, maxBodySize)
}

// BodyInflate returns the body decoded from deflate, the zlib format; see
// BodyGunzip.
func (b *messageBody) BodyInflate() ([]byte, error) { return b.decoded(compress.Deflate, 0) }

// BodyInflateWithLimit is BodyInflate with a limit; see BodyGunzipWithLimit.
func (b *messageBody) BodyInflateWithLimit(maxBodySize int) ([]byte, error) {
	return b.decoded(compress.Deflate, maxBodySize)
}

// BodyUnbrotli returns the body decoded from brotli; see BodyGunzip.
func (b *messageBody) BodyUnbrotli() ([]byte, error) { return b.decoded(compress.Brotli, 0) }

// BodyUnbrotliWithLimit is BodyUnbrotli with a limit; see BodyGunzipWithLimit.
func (b *messageBody) BodyUnbrotliWithLimit(maxBodySize int) ([]byte, error) {
	return b.decoded(compress.Brotli, maxBodySize)
}

// BodyUnzstd returns the body decoded from zstd; see BodyGunzip.
func (b *messageBody) BodyUnzstd() ([]byte, error) { return b.decoded(compress.Zstd, 0) }

// BodyUnzstdWithLimit is BodyUnzstd with a limit; see BodyGunzipWithLimit.
func (b *messageBody) BodyUnzstdWithLimit(maxBodySize int) ([]byte, error) {
	return b.decoded(compress.Zstd, maxBodySize)
}

// decoded returns the decoded body in a new slice.
func (b *messageBody) decoded(c compress.Coding, limit int) ([]byte, error) {
	content, err := b.content()
	if err != nil {
		return nil, err
	}
	out, err := compress.AppendDecoded(nil, content, c, b.bound(limit))
	if err != nil {
		return nil, publicLimitError(err)
	}
	return out, nil
}

// uncompressed returns the body, decoded according to Content-Encoding.
func (b *messageBody) uncompressed(encoding []byte, limit int) ([]byte, error) {
	coding, isEncoded, err := contentCoding(encoding)
	if err != nil {
		return nil, err
	}
	if isEncoded {
		return b.decoded(coding, limit)
	}
	content, err := b.content()
	if err != nil {
		return nil, err
	}
	if limit > 0 && len(content) > limit {
		return nil, ErrBodyTooLarge
	}
	return content, nil
}

// contentCoding returns the coding of a Content-Encoding value. isEncoded is
// false for identity and an empty value. Several codings are an error. Empty
// members of the list do not count (RFC 9110 section 5.6.1.2).
func contentCoding(encoding []byte) (c compress.Coding, isEncoded bool, err error) {
	encoding = bytes.Trim(encoding, ", \t")
	if len(encoding) == 0 || ascii.EqualFold(encoding, "identity") {
		return 0, false, nil
	}
	c, isEncoded = compress.ByName(encoding)
	if !isEncoded {
		err = ErrContentEncodingUnsupported
	}
	return c, isEncoded, err
}

// publicLimitError replaces errors of other packages about too much output with
// ErrBodyTooLarge.
func publicLimitError(err error) error {
	switch {
	case errors.Is(err, compress.ErrTooLarge):
		return ErrBodyTooLarge
	case errors.Is(err, multipart.ErrMessageTooLarge): // too many parts, or too many bytes outside files
		return fmt.Errorf("%w: %w", ErrBodyTooLarge, err)
	}
	return err
}
