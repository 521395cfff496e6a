package sluice

import (
	"math"
	"net"
	"os"
	"time"

	"github.com/sluicehttp/sluice/internal/client/dial"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/conditional"
)

// AppendHTMLEscape appends s to dst with < > & " ' replaced by character
// references. The result can be used in the text and in quoted attributes of an
// HTML document.
func AppendHTMLEscape(dst []byte, s string) []byte { return ascii.AppendHTMLEscape(dst, s) }

// AppendHTMLEscapeBytes is AppendHTMLEscape for bytes.
func AppendHTMLEscapeBytes(dst, s []byte) []byte { return ascii.AppendHTMLEscape(dst, s) }

// AppendQuotedArg appends src to dst, encoded as a key or value of
// application/x-www-form-urlencoded.
func AppendQuotedArg(dst, src []byte) []byte { return ascii.AppendArg(dst, src) }

// AppendUnquotedArg appends src to dst, decoded as a key or value of
// application/x-www-form-urlencoded. Malformed percent-encodings are kept
// verbatim. dst may be src[:0]; src is then overwritten.
func AppendUnquotedArg(dst, src []byte) []byte { return ascii.AppendUnescapedArg(dst, src) }

// AppendNormalizedHeaderKey appends the field name key to dst in the form
// "Content-Type": the first letter and each letter after "-" in upper case, all
// others in lower case. A key that is not a token (RFC 9110 section 5.1) keeps
// its case, and control characters in it become spaces.
func AppendNormalizedHeaderKey(dst []byte, key string) []byte {
	return ascii.AppendCanonicalKey(dst, key)
}

// AppendNormalizedHeaderKeyBytes is AppendNormalizedHeaderKey for bytes.
func AppendNormalizedHeaderKeyBytes(dst, key []byte) []byte {
	return ascii.AppendCanonicalKey(dst, key)
}

// AppendUint appends n in decimal to dst. It panics if n is negative, because
// numbers in HTTP have no sign.
func AppendUint(dst []byte, n int) []byte {
	if n < 0 {
		panic("sluice: AppendUint of a negative number")
	}
	return ascii.AppendUint(dst, uint64(n))
}

// ParseUint parses buf as a decimal number, which must consist of digits only.
// With an error the number is -1.
func ParseUint(buf []byte) (int, error) {
	n, err := ascii.ParseUint(buf)
	if n > math.MaxInt {
		return -1, ascii.ErrNumberRange
	}
	return int(n), err
}

// ParseUfloat parses buf as a number: digits with an optional point, exponent
// and leading "+". With an error the number is -1.
func ParseUfloat(buf []byte) (float64, error) { return ascii.ParseUfloat(buf) }

// AppendIPv4 appends ip in dotted decimal to dst. If ip is not an IPv4 address,
// it appends "non-v4 ip passed to AppendIPv4", which no parser accepts as an address.
func AppendIPv4(dst []byte, ip net.IP) []byte {
	ip = ip.To4()
	if ip == nil {
		return append(dst, "non-v4 ip passed to AppendIPv4"...)
	}
	for i, part := range ip {
		if i > 0 {
			dst = append(dst, '.')
		}
		dst = ascii.AppendUint(dst, uint64(part))
	}
	return dst
}

// ParseIPv4 parses ipStr as an address: four decimal numbers with dots between
// them. It refuses leading zeros, because some parsers read such a number as
// octal. The address is written into dst if dst has four bytes, and into new
// memory otherwise. After an error dst is returned unchanged.
func ParseIPv4(dst net.IP, ipStr []byte) (net.IP, error) {
	parts, ok := ascii.ParseIPv4(ipStr)
	if !ok {
		return dst, errIPv4
	}
	if len(dst) != net.IPv4len {
		dst = make(net.IP, net.IPv4len)
	}
	copy(dst, parts[:])
	return dst, nil
}

// ParseByteRange parses a Range field with one byte range of a content of
// contentLength bytes (RFC 9110 section 14.1.2): "bytes=2-5", "bytes=2-" or
// "bytes=-3". It returns the first and the last position, both inclusive. A last
// position after the end becomes the last position of the content. A malformed
// field, a field with several ranges, and a range without any byte of the
// content are errors.
func ParseByteRange(byteRange []byte, contentLength int) (startPos, endPos int, err error) {
	unit, positions, found := ascii.Cut(byteRange, '=')
	if !found || !ascii.EqualFold(unit, "bytes") {
		return 0, 0, errRangeMalformed
	}
	span, isSatisfiable, ok := conditional.ParseSpec(positions, int64(contentLength))
	switch {
	case !ok:
		return 0, 0, errRangeMalformed
	case !isSatisfiable, span.Length <= 0:
		return 0, 0, errRangeUnsatisfiable
	}
	return int(span.Offset), int(span.Offset + span.Length - 1), nil
}

// VisitHeaderParams calls f with each parameter of a field value, for example
// charset and utf-8 of "text/html; charset=utf-8" (RFC 9110 section 5.6.6). It
// stops if f returns false or a parameter is malformed. Empty parameters, as in
// "a;;b=c", are skipped. Quotes around a value are removed; a backslash between
// them is kept, with the character that it quotes. f must not retain the slices.
func VisitHeaderParams(b []byte, f func(key, value []byte) bool) { message.VisitParams(b, f) }

// AddMissingPort returns addr with port 80, or 443 if isTLS, unless addr has a
// port or is empty. An IPv6 address without brackets is returned unchanged: its
// last group cannot be distinguished from a port.
func AddMissingPort(addr string, isTLS bool) string { return dial.AddMissingPort(addr, isTLS) }

// FileLastModified returns the time of the file's last modification, in UTC and
// in whole seconds, the precision of Last-Modified.
func FileLastModified(path string) (time.Time, error) {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime().UTC().Truncate(time.Second), nil
}

// CoarseTimeNow returns the current time, truncated to whole seconds. It costs
// less than time.Now.
func CoarseTimeNow() time.Time { return clock.Coarse().Truncate(time.Second) }

// AppendHTTPDate appends date as an HTTP date, for example
// "Tue, 10 Nov 2009 23:00:00 GMT" (RFC 9110 section 5.6.7).
func AppendHTTPDate(dst []byte, date time.Time) []byte { return message.AppendDate(dst, date) }

// ParseHTTPDate parses an HTTP date in the preferred form or in one of the two
// obsolete forms (RFC 9110 section 5.6.7). The location of the result is GMT, or
// UTC for the form of asctime, which names none. In the location GMT,
// Format(time.RFC1123) formats the result as an HTTP date. The name of the
// weekday is not checked against the date. The text of the error does not
// depend on date.
func ParseHTTPDate(date []byte) (time.Time, error) { return message.ParseDate(date) }
