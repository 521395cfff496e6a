package h1

import (
	"bytes"
	"encoding/binary"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// IsToken reports whether s is a token (RFC 9110 section 5.6.2), as method and field
// names are.
//
// Tokens mostly consist of letters, digits and hyphens, which are checked eight at a
// time (BenchmarkParse/Browser -4 %).
func IsToken(s []byte) bool {
	if len(s) < 8 {
		return len(s) > 0 && ascii.All(s, ascii.Token)
	}
	for i := 0; i < len(s)-8; i += 8 {
		if !isPlainWord(binary.LittleEndian.Uint64(s[i:])) {
			return ascii.All(s, ascii.Token)
		}
	}
	return isPlainWord(binary.LittleEndian.Uint64(s[len(s)-8:])) || ascii.All(s, ascii.Token)
}

// AppendFieldValue appends a value in a form that may be sent: CR, LF, NUL and other
// controls become spaces, and white space at the ends is removed (RFC 9110 section
// 5.5). A parser that reads the result finds exactly the same value.
func AppendFieldValue(dst, value []byte) []byte {
	for len(value) > 0 && becomesBlank(value[0]) {
		value = value[1:]
	}
	for len(value) > 0 && becomesBlank(value[len(value)-1]) {
		value = value[:len(value)-1]
	}
	if ascii.All(value, ascii.Value) {
		return append(dst, value...)
	}
	for _, c := range value {
		if !ascii.Is(c, ascii.Value) {
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst
}

// becomesBlank reports whether c is white space, or a control that AppendFieldValue
// replaces by a space.
func becomesBlank(c byte) bool {
	return c == ' ' || c == '\t' || !ascii.Is(c, ascii.Value)
}

// AppendField appends one field line. The name must be a token, and the value must be
// valid.
func AppendField(dst, name, value []byte) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// HasLineBreak reports whether s contains CR, LF or NUL, none of which may be sent
// within a line.
func HasLineBreak(s []byte) bool { return bytes.ContainsAny(s, "\r\n\x00") }
