package conditional

import (
	"strconv"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// The elements of a multipart/byteranges body. PartsLength counts exactly what the
// appenders write.
const (
	crlf              = "\r\n"
	dashes            = "--"
	contentTypeStart  = "Content-Type: "
	contentRangeStart = "Content-Range: "
	rangeStart        = "bytes "
)

// AppendContentRange appends the value of Content-Range for s in a representation of
// size bytes, as in "bytes 0-4/1040" (RFC 9110 section 14.4). s must not be empty.
func AppendContentRange(dst []byte, s Span, size int64) []byte {
	dst = append(dst, rangeStart...)
	dst = strconv.AppendInt(dst, s.Offset, 10)
	dst = append(dst, '-')
	dst = strconv.AppendInt(dst, s.end()-1, 10)
	dst = append(dst, '/')
	return strconv.AppendInt(dst, size, 10)
}

// AppendUnsatisfied appends the value of Content-Range for a 416: "bytes */1040" (RFC
// 9110 section 14.4).
func AppendUnsatisfied(dst []byte, size int64) []byte {
	dst = append(dst, rangeStart...)
	dst = append(dst, "*/"...)
	return strconv.AppendInt(dst, size, 10)
}

// AppendPartHead appends what precedes the bytes of a part of a multipart/byteranges
// body (RFC 9110 section 14.6): the delimiter, contentType if it is not empty, and
// Content-Range. Control characters in contentType become spaces. The caller chooses
// the boundary: 1 to 70 characters that MIME allows (RFC 2046 section 5.1.1), which
// must not occur in the bytes. It is also the parameter of the response's
// Content-Type.
func AppendPartHead(dst []byte, boundary string, isFirst bool, contentType []byte, s Span, size int64) []byte {
	if !isFirst {
		dst = append(dst, crlf...)
	}
	dst = append(dst, dashes...)
	dst = append(dst, boundary...)
	dst = append(dst, crlf...)
	if len(contentType) > 0 {
		dst = append(dst, contentTypeStart...)
		dst = ascii.AppendFieldText(dst, contentType)
		dst = append(dst, crlf...)
	}
	dst = append(dst, contentRangeStart...)
	dst = AppendContentRange(dst, s, size)
	return append(dst, crlf+crlf...)
}

// AppendPartsEnd appends the end of a multipart/byteranges body.
func AppendPartsEnd(dst []byte, boundary string) []byte {
	dst = append(dst, crlf+dashes...)
	dst = append(dst, boundary...)
	return append(dst, dashes+crlf...)
}

// PartsLength returns the exact length of the multipart/byteranges body with spans as
// its parts: its Content-Length.
func PartsLength(boundary string, contentType []byte, spans []Span, size int64) int64 {
	each := len(crlf+dashes) + len(boundary) + len(crlf)
	if len(contentType) > 0 {
		each += len(contentTypeStart) + len(contentType) + len(crlf)
	}
	each += len(contentRangeStart+rangeStart) + len("-/") + digits(size) + len(crlf+crlf)
	end := len(crlf+dashes) + len(boundary) + len(dashes+crlf)
	total := int64(end + each*len(spans))
	for _, s := range spans {
		total += int64(digits(s.Offset)+digits(s.end()-1)) + s.Length
	}
	if len(spans) > 0 {
		total -= int64(len(crlf)) // the first part has none before it
	}
	return total
}

// digits returns how many decimal digits n has. n must not be negative.
func digits(n int64) int {
	count := 1
	for ; n > 9; n /= 10 {
		count++
	}
	return count
}
