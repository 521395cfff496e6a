package ascii

import (
	"strings"
	"testing"
)

// The sets below are written from the ABNF of the RFCs, independently of the table.
const (
	alpha      = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	digit      = "0123456789"
	unreserved = alpha + digit + "-._~"            // RFC 3986 section 2.3
	subDelims  = "!$&'()*+,;="                     // RFC 3986 section 2.2
	genDelims  = ":/?#[]@"                         // RFC 3986 section 2.2
	tchar      = "!#$%&'*+-.^_`|~" + digit + alpha // RFC 9110 section 5.6.2
)

// between reports whether c is in %xLOW-HIGH.
func between(c, low, high byte) bool { return low <= c && c <= high }

func in(c byte, set string) bool { return strings.IndexByte(set, c) >= 0 }

// grammar is the definition of each class.
var grammar = map[string]struct {
	class Class
	holds func(c byte) bool
}{
	"token": {Token, func(c byte) bool { return in(c, tchar) }},
	// field-content with its white space; VCHAR = %x21-7E; obs-text = %x80-FF.
	"field value": {Value, func(c byte) bool { return in(c, " \t") || between(c, 0x21, 0x7e) || c >= 0x80 }},
	"target": {Target, func(c byte) bool {
		return between(c, 0x21, 0x7e) && c != '#' || c >= 0x80
	}},
	// reg-name = *( unreserved / pct-encoded / sub-delims )
	"host":  {HostChar, func(c byte) bool { return in(c, unreserved+subDelims) }},
	"hex":   {Hex, func(c byte) bool { return in(c, digit+"ABCDEFabcdef") }},
	"digit": {Digit, func(c byte) bool { return in(c, digit) }},
	// cookie-octet = %x21 / %x23-2B / %x2D-3A / %x3C-5B / %x5D-7E
	"cookie-octet": {CookieOctet, func(c byte) bool {
		return c == 0x21 || between(c, 0x23, 0x2b) || between(c, 0x2d, 0x3a) || between(c, 0x3c, 0x5b) || between(c, 0x5d, 0x7e)
	}},
	// qdtext = HTAB / SP / %x21 / %x23-5B / %x5D-7E / obs-text
	"qdtext": {Quoted, func(c byte) bool {
		return in(c, "\t ") || c == 0x21 || between(c, 0x23, 0x5b) || between(c, 0x5d, 0x7e) || c >= 0x80
	}},
}

func TestClassesFollowTheGrammar(t *testing.T) {
	for name, rule := range grammar {
		for c := range 256 {
			if got, want := Is(byte(c), rule.class), rule.holds(byte(c)); got != want {
				t.Errorf("%s: 0x%02x: %v, want %v", name, c, got, want)
			}
		}
	}
}

func TestIsTakesASetOfClasses(t *testing.T) {
	if !Is('/', Token|Target) || !Is('#', Token|Target) || Is(' ', Token|Target) {
		t.Error("Is does not take the union of the classes")
	}
}

func TestAll(t *testing.T) {
	for _, test := range []struct {
		s     string
		class Class
		want  bool
	}{
		{"", Token, true}, {"abc", Token, true}, {"a c", Token, false}, {" abc", Token, false}, {"abc ", Token, false},
		{"12", Digit, true}, {"1x", Digit, false}, {"1x", Digit | Token, true},
	} {
		if got := All([]byte(test.s), test.class); got != test.want {
			t.Errorf("All(%q, %d) = %v", test.s, test.class, got)
		}
		if got := AllString(test.s, test.class); got != test.want {
			t.Errorf("AllString(%q, %d) = %v", test.s, test.class, got)
		}
	}
}

func TestFolding(t *testing.T) {
	for i := range 256 {
		c := byte(i)
		lower, upper := c, c
		if between(c, 'A', 'Z') {
			lower = c - 'A' + 'a'
		}
		if between(c, 'a', 'z') {
			upper = c - 'a' + 'A'
		}
		if Lower(c) != lower || Upper(c) != upper {
			t.Errorf("0x%02x: Lower 0x%02x, Upper 0x%02x", c, Lower(c), Upper(c))
		}
		for j := range 256 {
			d := byte(j)
			if got, want := EqualFold(string([]byte{c}), []byte{d}), Lower(c) == Lower(d); got != want {
				t.Errorf("EqualFold(0x%02x, 0x%02x) = %v", c, d, got)
			}
		}
	}
	if EqualFold("ab", "abc") || !EqualFold("", []byte(nil)) || EqualFold("a\xe9", "A\xc9") {
		t.Error("EqualFold: wrong lengths or folds beyond ASCII")
	}
}

func TestTrimOWS(t *testing.T) {
	for s, want := range map[string]string{
		"": "", " ": "", "\t \t": "", "a": "a", " a": "a", "a\t": "a", " \ta b\t ": "a b", "\na\r": "\na\r", "\u00a0a": "\u00a0a",
	} {
		if got := string(TrimOWS([]byte(s))); got != want {
			t.Errorf("TrimOWS(%q) = %q, want %q", s, got, want)
		}
	}
}
