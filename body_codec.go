package sluice

import (
	"errors"
	"fmt"
	"io"
	"mime/multipart"

	"github.com/sluicehttp/sluice/internal/ascii"
	"github.com/sluicehttp/sluice/internal/compress"
)

// Levels of gzip and deflate. A level that is none of these or between them is
// CompressDefaultCompression; -1 is 5.
const (
	CompressNoCompression      = 0
	CompressBestSpeed          = 1
	CompressBestCompression    = 9
	CompressDefaultCompression = 6
	CompressHuffmanOnly        = -2
)

// Levels of brotli. A level that is none of these or between them is
// CompressBrotliDefaultCompression. Levels 1 to 4 encode messages of 8 KiB or
// more, unless they are streams, in a quicker way.
const (
	CompressBrotliNoCompression      = 0
	CompressBrotliBestSpeed          = 0
	CompressBrotliBestCompression    = 11
	CompressBrotliDefaultCompression = 4
)

// Levels of zstd. A level that is none of these, and CompressZstdSpeedNotSet,
// are CompressZstdDefault.
const (
	CompressZstdSpeedNotSet     = 0
	CompressZstdBestSpeed       = 1
	CompressZstdDefault         = 2
	CompressZstdSpeedBetter     = 3
	CompressZstdBestCompression = 4
)

// AppendGzipBytes appends src, in the gzip format, to dst, which it must not
// overlap.
func AppendGzipBytes(dst, src []byte) []byte {
	return AppendGzipBytesLevel(dst, src, CompressDefaultCompression)
}

// AppendGzipBytesLevel is AppendGzipBytes with a level of compression.
func AppendGzipBytesLevel(dst, src []byte, level int) []byte {
	return compress.Append(dst, src, compress.Gzip, level)
}

// WriteGzip writes p, in the gzip format, to w and returns how many bytes that
// were.
func WriteGzip(w io.Writer, p []byte) (int, error) {
	return WriteGzipLevel(w, p, CompressDefaultCompression)
}

// WriteGzipLevel is WriteGzip with a level of compression.
func WriteGzipLevel(w io.Writer, p []byte, level int) (int, error) {
	return compress.Write(w, p, compress.Gzip, level)
}

// AppendGunzipBytes appends src, which is in the gzip format, to dst, decoded.
// There is no limit to the output. After an error dst has what was decoded
// before.
func AppendGunzipBytes(dst, src []byte) ([]byte, error) {
	return compress.AppendDecoded(dst, src, compress.Gzip, 0)
}

// WriteGunzip writes p, which is in the gzip format, to w, decoded, and returns
// how many bytes that were. There is no limit to the output.
func WriteGunzip(w io.Writer, p []byte) (int, error) {
	return compress.WriteDecoded(w, p, compress.Gzip, 0)
}

// AppendDeflateBytes appends src, in the zlib format, to dst, which it must not
// overlap. That is the format of the content coding deflate (RFC 9110 section
// 8.4.1.2).
func AppendDeflateBytes(dst, src []byte) []byte {
	return AppendDeflateBytesLevel(dst, src, CompressDefaultCompression)
}

// AppendDeflateBytesLevel is AppendDeflateBytes with a level of compression.
func AppendDeflateBytesLevel(dst, src []byte, level int) []byte {
	return compress.Append(dst, src, compress.Deflate, level)
}

// WriteDeflate writes p, in the zlib format, to w and returns how many bytes
// that were.
func WriteDeflate(w io.Writer, p []byte) (int, error) {
	return WriteDeflateLevel(w, p, CompressDefaultCompression)
}

// WriteDeflateLevel is WriteDeflate with a level of compression.
func WriteDeflateLevel(w io.Writer, p []byte, level int) (int, error) {
	return compress.Write(w, p, compress.Deflate, level)
}

// AppendInflateBytes appends src, which is in the zlib format, to dst, decoded.
// There is no limit to the output. After an error dst has what was decoded
// before.
func AppendInflateBytes(dst, src []byte) ([]byte, error) {
	return compress.AppendDecoded(dst, src, compress.Deflate, 0)
}

// WriteInflate writes p, which is in the zlib format, to w, decoded, and
// returns how many bytes that were. There is no limit to the output.
func WriteInflate(w io.Writer, p []byte) (int, error) {
	return compress.WriteDecoded(w, p, compress.Deflate, 0)
}

// AppendBrotliBytes appends src, in the brotli format (RFC 7932), to dst, which
// it must not overlap.
func AppendBrotliBytes(dst, src []byte) []byte {
	return AppendBrotliBytesLevel(dst, src, CompressBrotliDefaultCompression)
}

// AppendBrotliBytesLevel is AppendBrotliBytes with a level of compression.
func AppendBrotliBytesLevel(dst, src []byte, level int) []byte {
	return compress.Append(dst, src, compress.Brotli, level)
}

// WriteBrotli writes p, in the brotli format, to w and returns how many bytes
// that were.
func WriteBrotli(w io.Writer, p []byte) (int, error) {
	return WriteBrotliLevel(w, p, CompressBrotliDefaultCompression)
}

// WriteBrotliLevel is WriteBrotli with a level of compression.
func WriteBrotliLevel(w io.Writer, p []byte, level int) (int, error) {
	return compress.Write(w, p, compress.Brotli, level)
}

// AppendUnbrotliBytes appends src, which is in the brotli format, to dst,
// decoded. There is no limit to the output. Bytes behind the end of the format
// are an error. After an error dst has what was decoded before.
func AppendUnbrotliBytes(dst, src []byte) ([]byte, error) {
	return compress.AppendDecoded(dst, src, compress.Brotli, 0)
}

// WriteUnbrotli writes p, which is in the brotli format, to w, decoded, and
// returns how many bytes that were. There is no limit to the output.
func WriteUnbrotli(w io.Writer, p []byte) (int, error) {
	return compress.WriteDecoded(w, p, compress.Brotli, 0)
}

// AppendZstdBytes appends src, in the zstd format (RFC 8878), to dst, which it
// must not overlap.
func AppendZstdBytes(dst, src []byte) []byte {
	return AppendZstdBytesLevel(dst, src, CompressZstdDefault)
}

// AppendZstdBytesLevel is AppendZstdBytes with a level of compression.
func AppendZstdBytesLevel(dst, src []byte, level int) []byte {
	return compress.Append(dst, src, compress.Zstd, level)
}

// WriteZstdLevel writes p, in the zstd format, to w and returns how many bytes
// that were.
func WriteZstdLevel(w io.Writer, p []byte, level int) (int, error) {
	return compress.Write(w, p, compress.Zstd, level)
}

// AppendUnzstdBytes appends src, which is in the zstd format, to dst, decoded.
// There is no limit to the output, but windows over 8 MiB are an error (RFC
// 9659). After an error dst has what was decoded before.
func AppendUnzstdBytes(dst, src []byte) ([]byte, error) {
	return compress.AppendDecoded(dst, src, compress.Zstd, 0)
}

// WriteUnzstd writes p, which is in the zstd format, to w, decoded, and returns
// how many bytes that were. There is no limit to the output, but windows over 8
// MiB are an error (RFC 9659).
func WriteUnzstd(w io.Writer, p []byte) (int, error) {
	return compress.WriteDecoded(w, p, compress.Zstd, 0)
}

// BodyGunzip returns the body decoded from gzip, whatever Content-Encoding says.
// Its limit is that of BodyUncompressed.
func (b *body) BodyGunzip() ([]byte, error) { return b.decoded(compress.Gzip, 0) }

// BodyGunzipWithLimit is BodyGunzip for at most maxBodySize bytes; more are
// ErrBodyTooLarge. maxBodySize <= 0 stands for the limit of BodyGunzip.
func (b *body) BodyGunzipWithLimit(maxBodySize int) ([]byte, error) {
	return b.decoded(compress.Gzip, maxBodySize)
}

// BodyInflate returns the body decoded from deflate, which is the zlib format,
// whatever Content-Encoding says. Its limit is that of BodyUncompressed.
func (b *body) BodyInflate() ([]byte, error) { return b.decoded(compress.Deflate, 0) }

// BodyInflateWithLimit is BodyInflate for at most maxBodySize bytes; more are
// ErrBodyTooLarge. maxBodySize <= 0 stands for the limit of BodyInflate.
func (b *body) BodyInflateWithLimit(maxBodySize int) ([]byte, error) {
	return b.decoded(compress.Deflate, maxBodySize)
}

// BodyUnbrotli returns the body decoded from brotli, whatever Content-Encoding
// says. Its limit is that of BodyUncompressed.
func (b *body) BodyUnbrotli() ([]byte, error) { return b.decoded(compress.Brotli, 0) }

// BodyUnbrotliWithLimit is BodyUnbrotli for at most maxBodySize bytes; more are
// ErrBodyTooLarge. maxBodySize <= 0 stands for the limit of BodyUnbrotli.
func (b *body) BodyUnbrotliWithLimit(maxBodySize int) ([]byte, error) {
	return b.decoded(compress.Brotli, maxBodySize)
}

// BodyUnzstd returns the body decoded from zstd, whatever Content-Encoding says.
// Its limit is that of BodyUncompressed.
func (b *body) BodyUnzstd() ([]byte, error) { return b.decoded(compress.Zstd, 0) }

// BodyUnzstdWithLimit is BodyUnzstd for at most maxBodySize bytes; more are
// ErrBodyTooLarge. maxBodySize <= 0 stands for the limit of BodyUnzstd.
func (b *body) BodyUnzstdWithLimit(maxBodySize int) ([]byte, error) {
	return b.decoded(compress.Zstd, maxBodySize)
}

// bound returns the limit of a body that is decoded: what the caller asks for,
// else the limit that the message was received with. 0 is no limit. Whatever
// decodes a body, or parses one as a form, asks it.
func (b *body) bound(limit int) int {
	if limit > 0 {
		return limit
	}
	return b.limit
}

// decoded returns the body, decoded, in memory of its own.
func (b *body) decoded(c compress.Coding, limit int) ([]byte, error) {
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

// uncompressed returns the body, decoded from the given Content-Encoding.
func (b *body) uncompressed(encoding []byte, limit int) ([]byte, error) {
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

// contentCoding returns the content coding that a Content-Encoding names, if any.
func contentCoding(encoding []byte) (c compress.Coding, isEncoded bool, err error) {
	if len(encoding) == 0 || ascii.EqualFold(encoding, "identity") {
		return 0, false, nil
	}
	c, isEncoded = codingByName(encoding)
	if !isEncoded {
		err = ErrContentEncodingUnsupported
	}
	return c, isEncoded, err
}

// codingByName returns the content coding of that name (RFC 9110 section
// 8.4.1).
func codingByName(name []byte) (c compress.Coding, ok bool) {
	switch {
	case ascii.EqualFold(name, "gzip"), ascii.EqualFold(name, "x-gzip"):
		return compress.Gzip, true
	case ascii.EqualFold(name, "br"):
		return compress.Brotli, true
	case ascii.EqualFold(name, "zstd"):
		return compress.Zstd, true
	case ascii.EqualFold(name, "deflate"):
		return compress.Deflate, true
	}
	return 0, false
}

// codingName is the inverse of codingByName.
func codingName(c compress.Coding) string {
	switch c {
	case compress.Gzip:
		return "gzip"
	case compress.Brotli:
		return "br"
	case compress.Zstd:
		return "zstd"
	}
	return "deflate"
}

// publicLimitError turns errors of packages below for too much output into
// ErrBodyTooLarge.
func publicLimitError(err error) error {
	switch {
	case errors.Is(err, compress.ErrTooLarge):
		return ErrBodyTooLarge
	case errors.Is(err, multipart.ErrMessageTooLarge): // too many parts, or too much besides files
		return fmt.Errorf("%w: %w", ErrBodyTooLarge, err)
	}
	return err
}
