package ws

import "unicode/utf8"

// Text checks that a text is UTF-8 (RFC 3629) while it arrives in pieces. The zero value
// is ready.
type Text struct {
	need      uint8 // continuation bytes that the last character lacks
	low, high uint8 // the next one is in this range
}

// The range of most continuation bytes.
const (
	lowContinuation  = 0x80
	highContinuation = 0xbf
)

// Feed takes the next piece. It returns false as soon as no text can begin with what it
// has got; t must not be used then.
func (t *Text) Feed(p []byte) bool {
	for t.need > 0 && len(p) > 0 {
		if !t.step(p[0]) {
			return false
		}
		p = p[1:]
	}
	whole := len(p) - unfinished(p)
	if !utf8.Valid(p[:whole]) {
		return false
	}
	for _, c := range p[whole:] {
		if !t.step(c) {
			return false
		}
	}
	return true
}

// FeedASCII is Feed for a piece that contains only ASCII. n is its length.
func (t *Text) FeedASCII(n int) bool { return n == 0 || t.need == 0 }

// IsWhole reports whether the last character is complete.
func (t *Text) IsWhole() bool { return t.need == 0 }

// unfinished returns how many bytes at the end of p may be a character that is incomplete.
func unfinished(p []byte) int {
	for n := 1; n <= min(len(p), utf8.UTFMax-1); n++ {
		switch c := p[len(p)-n]; {
		case utf8.RuneStart(c) && c >= utf8.RuneSelf:
			return n
		case c < utf8.RuneSelf:
			return 0
		}
	}
	return 0
}

// step takes one byte (RFC 3629 section 4).
func (t *Text) step(c byte) bool {
	if t.need > 0 {
		if c < t.low || c > t.high {
			return false
		}
		t.need--
		t.low, t.high = lowContinuation, highContinuation
		return true
	}
	t.low, t.high = lowContinuation, highContinuation
	switch {
	case c < utf8.RuneSelf:
	case c < 0xc2, c > 0xf4:
		return false
	case c < 0xe0:
		t.need = 1
	case c < 0xf0:
		t.need = 2
	default:
		t.need = 3
	}
	switch c {
	case 0xe0:
		t.low = 0xa0 // less has a shorter form
	case 0xed:
		t.high = 0x9f // surrogates follow
	case 0xf0:
		t.low = 0x90
	case 0xf4:
		t.high = 0x8f // the last code point is U+10FFFF
	}
	return true
}
