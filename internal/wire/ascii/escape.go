package ascii

import "slices"

const upperHex = "0123456789ABCDEF"

// AppendPercent appends c percent-encoded (RFC 3986 section 2.1).
func AppendPercent(dst []byte, c byte) []byte {
	return append(dst, '%', upperHex[c>>4], upperHex[c&15])
}

// appendEscaped appends s with every byte that is not in keep percent-encoded.
// Runs of kept bytes are copied at once.
func appendEscaped(dst, s []byte, keep escapeSet) []byte {
	from := 0
	for i := keptPrefix(s, keep); i < len(s); i++ {
		c := s[i]
		if escapes[c]&keep != 0 || c == '%' && keep&keepTarget != 0 && isEscape(s[i:]) {
			continue
		}
		dst = append(dst, s[from:i]...)
		dst = AppendPercent(dst, c)
		from = i + 1
	}
	return append(dst, s[from:]...)
}

// keptPrefix returns the length of a prefix of s, as a rule the longest one, whose bytes are in
// keep.
func keptPrefix(s []byte, keep escapeSet) (n int) {
	for ; len(s) >= 4 && escapes[s[0]]&escapes[s[1]]&escapes[s[2]]&escapes[s[3]]&keep != 0; s = s[4:] {
		n += 4
	}
	for ; len(s) > 0 && escapes[s[0]]&keep != 0; s = s[1:] {
		n++
	}
	return n
}

// AppendArg appends s as a key or value of application/x-www-form-urlencoded:
// letters, digits and "-._~" unchanged, a space as "+", other bytes percent-encoded.
func AppendArg(dst, s []byte) []byte {
	from := 0
	for i, c := range s {
		if escapes[c]&keepArg != 0 {
			continue
		}
		dst = append(dst, s[from:i]...)
		if c == ' ' {
			dst = append(dst, '+')
		} else {
			dst = AppendPercent(dst, c)
		}
		from = i + 1
	}
	return append(dst, s[from:]...)
}

// AppendPath appends the decoded path s for use in a URI: "/" and the pchar of RFC
// 3986 section 3.3 except "!'()*" unchanged, other bytes percent-encoded.
func AppendPath(dst, s []byte) []byte { return appendEscaped(dst, s, keepPath) }

// AppendTarget appends s, which may already be escaped, as path and query of a URI.
// It percent-encodes what RFC 3986 does not allow there, including a "%" that begins
// no escape. "[" and "]" stay, because a reserved character and its escape are
// different (section 2.2).
func AppendTarget(dst, s []byte) []byte { return appendEscaped(dst, s, keepTarget) }

// AppendFragment is AppendTarget for the text after the "#" of a URI. Further "#"
// stay.
func AppendFragment(dst, s []byte) []byte { return appendEscaped(dst, s, keepTarget|keepHash) }

// AppendHost appends s and percent-encodes every byte that may not be in a host with
// port. Bytes above 0x7F stay: internationalized names are passed to the resolver in
// this form.
func AppendHost(dst, s []byte) []byte { return appendEscaped(dst, s, keepHost) }

// AppendScheme appends s and percent-encodes every byte that may not be in a scheme
// (RFC 3986 section 3.1).
func AppendScheme(dst, s []byte) []byte { return appendEscaped(dst, s, keepScheme) }

// AppendUnescaped appends s with its percent-encodings decoded. A "%" without
// two hex digits after it stays. dst may be s[:0].
func AppendUnescaped(dst, s []byte) []byte { return appendDecoded(dst, s, false) }

// AppendUnescapedArg is AppendUnescaped, but decodes each "+" to a space. It is the
// inverse of AppendArg. dst may be s[:0].
func AppendUnescapedArg(dst, s []byte) []byte { return appendDecoded(dst, s, true) }

// appendDecoded never writes after the byte that it reads, so dst may be s[:0].
func appendDecoded(dst, s []byte, plusIsSpace bool) []byte {
	plain := 0
	for plain < len(s) && s[plain] != '%' && (s[plain] != '+' || !plusIsSpace) {
		plain++
	}
	dst = append(dst, s[:plain]...)
	if s = s[plain:]; len(s) == 0 {
		return dst
	}
	n := len(dst)
	dst = slices.Grow(dst, len(s))[:n+len(s)] // not an append for each byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '+' && plusIsSpace {
			c = ' '
		} else if c == '%' {
			if decoded, ok := percentAt(s, i); ok {
				c = decoded
				i += 2
			}
		}
		dst[n] = c
		n++
	}
	return dst[:n]
}

// isEscape reports whether s starts with "%" and two hex digits.
func isEscape(s []byte) bool {
	_, ok := percentAt(s, 0)
	return ok && s[0] == '%'
}

// percentAt decodes the percent-encoding that begins at s[i].
func percentAt(s []byte, i int) (c byte, ok bool) {
	if i+2 >= len(s) {
		return 0, false
	}
	high, okHigh := Unhex(s[i+1])
	low, okLow := Unhex(s[i+2])
	return high<<4 | low, okHigh && okLow
}
