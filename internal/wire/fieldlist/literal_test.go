package fieldlist

import (
	"bytes"
	"encoding/hex"
	"testing"
)

func unhex(t *testing.T, s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestIntegers: the examples of RFC 7541 appendix C.1, and the bounds.
func TestIntegers(t *testing.T) {
	for _, c := range []struct {
		n, prefix int
		wire      string
	}{{10, 5, "0a"}, {1337, 5, "1f9a0a"}, {42, 8, "2a"}, {0, 1, "00"}, {30, 5, "1e"}, {31, 5, "1f00"}, {MaxInteger, 7, "7f80ffffff07"}} {
		wire := unhex(t, c.wire)
		if got := AppendInteger(nil, 0, c.prefix, c.n); !bytes.Equal(got, wire) {
			t.Errorf("%d: %x, want %x", c.n, got, wire)
		}
		for i := 1; i <= len(wire); i++ {
			n, next := ReadInteger(wire[:i], 0, c.prefix)
			if i < len(wire) && next != 0 || i == len(wire) && (n != c.n || next != i) {
				t.Errorf("%x: %d up to %d", wire[:i], n, next)
			}
		}
	}
	for _, wire := range []string{"7f81ffffff07", "7fffffffff08", "7fffffffff7f", "7f8080808080", "7f808080808000", "7fffffffffffffffffff"} {
		if n, next := ReadInteger(unhex(t, wire), 0, 7); next != TooLarge {
			t.Errorf("%s: %d up to %d", wire, n, next)
		}
	}
}

// TestStrings: the bits around the length of a string, and its shorter form.
func TestStrings(t *testing.T) {
	for _, c := range []struct {
		first  byte
		prefix int
		text   string
		wire   string
	}{
		{0, 7, "www.example.com", "8cf1e3c2e5f23a6ba0ab90f4ff"}, // RFC 7541 appendix C.4.1
		{0, 7, "~~", "027e7e"},
		{0x20, 3, "aaa", "2a18c7"}, // a name of RFC 9204 section 4.5.6: 0 0 1 N H
		{0x20, 3, "~", "217e"},
		{0x20, 3, "~~~~~~~", "27007e7e7e7e7e7e7e"},
	} {
		if got := AppendString(nil, c.first, c.prefix, []byte(c.text)); hex.EncodeToString(got) != c.wire {
			t.Errorf("%q: %x, want %s", c.text, got, c.wire)
		}
	}
}
