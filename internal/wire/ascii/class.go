// Package ascii classifies, folds and converts the bytes of HTTP's syntax. It imports
// nothing of this module.
package ascii

// A Class is a set of byte values. Classes are bits of the table's entries.
type Class uint8

const (
	// Token: RFC 9110 section 5.6.2, tchar.
	Token Class = 1 << iota
	// Value: allowed in a field value: HTAB, SP, VCHAR, obs-text (RFC 9110 section
	// 5.5).
	Value
	// Target: accepted in a request-target: every byte except controls, SP, "#" and
	// DEL. RFC 3986 allows fewer. Browsers, curl and the clients of Python and Node
	// send the others unescaped: " < > | ^ ` { }, backslash and UTF-8.
	Target
	// HostChar: allowed unescaped in a reg-name (RFC 3986 section 3.2.2), which
	// excludes "%".
	HostChar
	// Hex: HEXDIG in either case.
	Hex
	// Digit: DIGIT.
	Digit
	// CookieOctet: RFC 6265 section 4.1.1.
	CookieOctet
	// Quoted: allowed unescaped in a quoted-string (RFC 9110 section 5.6.4): HTAB,
	// SP, VCHAR except DQUOTE and backslash, obs-text.
	Quoted
)

// Is reports whether c is in any of the classes of set.
func Is(c byte, set Class) bool { return classes[c]&set != 0 }

// All reports whether every byte of s is in set. It is true for an empty s.
func All(s []byte, set Class) bool {
	for _, c := range s {
		if classes[c]&set == 0 {
			return false
		}
	}
	return true
}

// Prefix returns how many bytes at the beginning of s are in set.
func Prefix(s []byte, set Class) int {
	for i, c := range s {
		if classes[c]&set == 0 {
			return i
		}
	}
	return len(s)
}

// AllString is All for a string.
func AllString(s string, set Class) bool {
	for i := 0; i < len(s); i++ {
		if classes[s[i]]&set == 0 {
			return false
		}
	}
	return true
}

// Lower returns c with A-Z folded to a-z.
func Lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// Upper returns c with a-z folded to A-Z.
func Upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c &^ 0x20
	}
	return c
}

// EqualFold reports whether a and b are equal without regard to the case of ASCII
// letters.
func EqualFold[A, B []byte | string](a A, b B) bool {
	if len(a) != len(b) {
		return false
	}
	for i := 0; i < len(a); i++ {
		if a[i] != b[i] && Lower(a[i]) != Lower(b[i]) {
			return false
		}
	}
	return true
}

// TrimOWS returns s without leading and trailing SP and HTAB (RFC 9110 section
// 5.6.3).
func TrimOWS(s []byte) []byte {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}
