package ascii

import (
	"errors"
	"math"
	"strconv"
)

var (
	// ErrEmptyNumber: the number has no digits.
	ErrEmptyNumber = errors.New("sluice: empty number")
	// ErrNotNumber: the number contains a character that its notation does not allow.
	ErrNotNumber = errors.New("sluice: unexpected character in a number")
	// ErrNumberRange: the number does not fit its type.
	ErrNumberRange = errors.New("sluice: number out of range")
)

// AppendUint appends n in decimal.
func AppendUint(dst []byte, n uint64) []byte { return strconv.AppendUint(dst, n, 10) }

// AppendHex appends n in lower-case hexadecimal without leading zeros, as a chunk
// size (RFC 9112 section 7.1).
func AppendHex(dst []byte, n uint64) []byte { return strconv.AppendUint(dst, n, 16) }

// AppendTwoDigits appends n, which must be less than 100, as two digits.
func AppendTwoDigits(dst []byte, n int) []byte {
	return append(dst, '0'+byte(n/10), '0'+byte(n%10))
}

// ParseUint parses b, 1*DIGIT, as in Content-Length (RFC 9110 section 8.6). It
// accepts leading zeros, but no sign and no blanks.
func ParseUint(b []byte) (int64, error) {
	if len(b) == 0 {
		return -1, ErrEmptyNumber
	}
	var n uint64
	for i, c := range b {
		c -= '0'
		if c > 9 {
			return -1, ErrNotNumber
		}
		if n >= math.MaxInt64/10 && (n > math.MaxInt64/10 || c > math.MaxInt64%10) {
			return -1, outOfRangeOr(b[i:])
		}
		n = n*10 + uint64(c)
	}
	return int64(n), nil
}

// outOfRangeOr returns the error for a number that does not fit, whose unread part is
// rest. If rest has an invalid character, that is the error.
func outOfRangeOr(rest []byte) error {
	if !All(rest, Digit) {
		return ErrNotNumber
	}
	return ErrNumberRange
}

// ParseHex parses b, 1*HEXDIG, as in a chunk size (RFC 9112 section 7.1). It accepts
// no prefix, sign or underscore.
func ParseHex(b []byte) (int64, error) {
	if len(b) == 0 {
		return -1, ErrEmptyNumber
	}
	var n uint64
	for _, c := range b {
		v, ok := Unhex(c)
		if !ok {
			return -1, ErrNotNumber
		}
		if n > math.MaxInt64>>4 {
			return -1, ErrNumberRange
		}
		n = n<<4 | uint64(v)
	}
	return int64(n), nil
}

// Unhex returns the value of the HEXDIG c, in either case.
func Unhex(c byte) (value byte, ok bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

// ParseUfloat parses b: digits with an optional point, an optional exponent and an
// optional leading "+". It refuses names (inf, nan), hexadecimal, underscores and
// "-". A number that is too large is ErrNumberRange, and one that is too small is 0.
func ParseUfloat(b []byte) (float64, error) {
	if err := checkUfloat(b); err != nil {
		return -1, err
	}
	f, err := strconv.ParseFloat(String(b), 64)
	if err != nil {
		return -1, ErrNumberRange
	}
	return f, nil
}

// checkUfloat checks b against
// ["+"] (1*DIGIT ["." *DIGIT] | "." 1*DIGIT) [("e"|"E") ["+"|"-"] 1*DIGIT].
func checkUfloat(b []byte) error {
	if len(b) == 0 {
		return ErrEmptyNumber
	}
	if b[0] == '+' {
		b = b[1:]
	}
	whole, b := countDigits(b)
	if len(b) > 0 && b[0] == '.' {
		var fraction int
		fraction, b = countDigits(b[1:])
		whole += fraction
	}
	if whole == 0 {
		return ErrNotNumber
	}
	if len(b) == 0 {
		return nil
	}
	if Lower(b[0]) != 'e' {
		return ErrNotNumber
	}
	b = b[1:]
	if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
		b = b[1:]
	}
	if exponent, rest := countDigits(b); exponent == 0 || len(rest) > 0 {
		return ErrNotNumber
	}
	return nil
}

// countDigits returns the number of digits at the beginning of b, and what follows
// them.
func countDigits(b []byte) (n int, rest []byte) {
	for n < len(b) && Is(b[n], Digit) {
		n++
	}
	return n, b[n:]
}

// ParseIPv4 parses s, four decimal numbers with dots between them. It refuses leading
// zeros, because some parsers read such a number as octal.
func ParseIPv4(s []byte) (ip [4]byte, ok bool) {
	for part := range ip {
		n, v := 0, 0
		for n < len(s) && Is(s[n], Digit) && n < 4 {
			v = v*10 + int(s[n]-'0')
			n++
		}
		if n == 0 || n > 3 || v > 255 || n > 1 && s[0] == '0' {
			return ip, false
		}
		ip[part], s = byte(v), s[n:]
		if part == 3 {
			break
		}
		if len(s) == 0 || s[0] != '.' {
			return ip, false
		}
		s = s[1:]
	}
	return ip, len(s) == 0
}
