package ascii

import (
	"bytes"
	"encoding/binary"
)

// Cut slices s around the first separator. found reports whether there is one;
// without it, before is s.
func Cut(s []byte, separator byte) (before, after []byte, found bool) {
	if i := bytes.IndexByte(s, separator); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, nil, false
}

// AppendLower appends s with A-Z folded to a-z.
func AppendLower[S []byte | string](dst []byte, s S) []byte {
	at := len(dst)
	dst = append(dst, s...)
	lower(dst[at:])
	return dst
}

// HasCTL reports whether s contains a control character: 0x00-0x1F or DEL
// (RFC 5234 appendix B.1).
func HasCTL[S []byte | string](s S) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] == 0x7f {
			return true
		}
	}
	return false
}

// AppendFieldText appends s and replaces every control character except HTAB by a
// space, so that s cannot end its field (RFC 9110 section 5.5 calls this replacement
// safe).
func AppendFieldText[S []byte | string](dst []byte, s S) []byte {
	at := len(dst)
	dst = append(dst, s...)
	for i := at; i < len(dst); i++ {
		if !Is(dst[i], Value) {
			dst[i] = ' '
		}
	}
	return dst
}

// AppendOneLine appends s and replaces CR and LF by spaces.
func AppendOneLine(dst, s []byte) []byte {
	at := len(dst)
	dst = append(dst, s...)
	for i := at; i < len(dst); i++ {
		if dst[i] == '\r' || dst[i] == '\n' {
			dst[i] = ' '
		}
	}
	return dst
}

// BlankControls replaces the control characters of s by spaces, except HTAB, CR and
// LF.
func BlankControls(s []byte) {
	for i, c := range s {
		if !Is(c, Value) && c != '\r' && c != '\n' {
			s[i] = ' '
		}
	}
}

// AppendHTMLEscape appends s and replaces the five characters with a meaning in HTML
// text and attribute values by character references.
func AppendHTMLEscape[S []byte | string](dst []byte, s S) []byte {
	from := 0
	for i := 0; i < len(s); i++ {
		reference := htmlReference(s[i])
		if reference == "" {
			continue
		}
		dst = append(dst, s[from:i]...)
		dst = append(dst, reference...)
		from = i + 1
	}
	return append(dst, s[from:]...)
}

// htmlReference returns the character reference for c, or "" if it needs none.
func htmlReference(c byte) string {
	switch c {
	case '&':
		return "&amp;"
	case '<':
		return "&lt;"
	case '>':
		return "&gt;"
	case '"':
		return "&#34;"
	case '\'':
		return "&#39;"
	}
	return ""
}

// AppendCanonicalKey appends the field name key with the first letter and each letter
// after a "-" in upper case, the others in lower case. If key is not a token (RFC
// 9110 section 5.1), its letters stay and its control characters become spaces.
func AppendCanonicalKey[S []byte | string](dst []byte, key S) []byte {
	for i := 0; i < len(key); i++ {
		if !Is(key[i], Token) {
			return AppendFieldText(dst, key)
		}
	}
	at := len(dst)
	dst = append(dst, key...)
	upper := true
	for i := at; i < len(dst); i++ {
		c := dst[i]
		if upper {
			dst[i] = Upper(c)
		} else {
			dst[i] = Lower(c)
		}
		upper = c == '-'
	}
	return dst
}

// lower folds s, eight bytes at a time: hosts are nearly always in lower case.
func lower(s []byte) {
	if len(s) < 8 {
		for i, c := range s {
			s[i] = Lower(c)
		}
		return
	}
	for rest := s; len(rest) >= 8; rest = rest[8:] {
		lowerWord(rest)
	}
	lowerWord(s[len(s)-8:]) // what is folded already does not change
}

// lowerWord folds the first eight bytes of s.
func lowerWord(s []byte) {
	w := binary.LittleEndian.Uint64(s)
	if upper := uppers(w); upper != 0 {
		binary.LittleEndian.PutUint64(s, w|upper>>2)
	}
}

// uppers returns the top bits of the bytes of w from 'A' to 'Z'.
func uppers(w uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	low := w &^ tops // a sum passes 0x80 without a carry
	return (low + (0x80-'A')*ones) &^ (low + (0x7f-'Z')*ones) &^ w & tops
}

// IsLower reports whether AppendLower folds nothing of s.
func IsLower(s []byte) bool {
	for ; len(s) >= 8; s = s[8:] {
		if uppers(binary.LittleEndian.Uint64(s)) != 0 {
			return false
		}
	}
	for _, c := range s {
		if Lower(c) != c {
			return false
		}
	}
	return true
}

// HasMember reports whether a list, separated by commas, has a member. It ignores case.
func HasMember(list []byte, member string) bool {
	for found := len(list) > 0; found; {
		var m []byte
		m, list, found = Cut(list, ',')
		if EqualFold(TrimOWS(m), member) {
			return true
		}
	}
	return false
}

// AppendMembers appends the members of a list to another one.
func AppendMembers(list, more []byte) []byte {
	if len(list) > 0 && len(more) > 0 {
		list = append(list, ", "...)
	}
	return append(list, more...)
}
