package h1

import (
	"bytes"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// Every byte value at every position of a word, before and after bytes that could
// carry or borrow into it.
func TestScannersStopWhereTheTableSays(t *testing.T) {
	for _, filler := range []byte{'g', '~', '!'} {
		for _, before := range []byte{'g', '~', '!', 0x80, 0xff, '\t', '#', '%', '?'} {
			for at := range 20 {
				for c := range 256 {
					s := bytes.Repeat([]byte{filler}, 24)
					if at > 0 {
						s[at-1] = before
					}
					s[at] = byte(c)
					checkScanners(t, s)
				}
			}
		}
	}
}

func checkScanners(t *testing.T, s []byte) {
	t.Helper()
	for n := range len(s) + 1 {
		if got, want := IsToken(s[:n]), n > 0 && ascii.All(s[:n], ascii.Token); got != want {
			t.Fatalf("IsToken(%q) = %v", s[:n], got)
		}
	}
	for _, scan := range []struct {
		name  string
		fast  func([]byte, int) int
		class ascii.Class
	}{{"token", tokenEnd, ascii.Token}, {"value", valueEnd, ascii.Value}, {"path", pathEnd, ascii.Target}, {"query", queryEnd, ascii.Target}} {
		for from := range 3 {
			want := from
			for want < len(s) && ascii.Is(s[want], scan.class) && (scan.name != "path" || s[want] != '%' && s[want] != '?') {
				want++
			}
			if got := scan.fast(s, from); got != want {
				t.Fatalf("%sEnd(%q, %d) = %d, want %d", scan.name, s, from, got, want)
			}
		}
	}
}

// nameColon finds the first colon of the words that it looks at, and nothing else.
func TestNameColon(t *testing.T) {
	for _, length := range []int{0, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 41} {
		for from := range min(2, length+1) {
			for at := from; at <= length; at++ { // length: there is no colon
				for c := range 256 {
					s := bytes.Repeat([]byte{byte(c)}, length)
					if at < length {
						s[at] = ':'
					}
					want := -1
					for i := from; i < length && i < from+32 && i-from < (length-from)&^7 && want < 0; i++ {
						if s[i] == ':' {
							want = i
						}
					}
					if got := nameColon(s, from); got != want {
						t.Fatalf("nameColon(%q, %d) = %d, want %d", s, from, got, want)
					}
				}
			}
		}
	}
}

func TestPathEndChecksEscapes(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int
	}{
		{"/%41b ", 5}, {"/%zz ", 1}, {"/%4", 1}, {"/%", 1}, {"/%4g ", 1},
		{"/aaaaaa%20%7e/%2F%0", 17}, {"%00%00%00%00", 12}, {"/%41?%zz", 4}, {"/\xff~aaaaaaaa%4", 11},
	} {
		if got := pathEnd([]byte(c.in), 0); got != c.want {
			t.Errorf("pathEnd(%q) = %d, want %d", c.in, got, c.want)
		}
	}
}

// What other packages ask about paths and values.
func TestValuesAndPaths(t *testing.T) {
	for _, c := range []struct {
		in                      string
		value, fieldVal, isPath bool
	}{
		{"", true, true, true}, {"a", true, true, true}, {"/a?b", true, true, true}, {"/a?b=?%zz", true, true, true},
		{"/%41", true, true, true}, {"/%zz", true, true, false}, {"/%4", true, true, false}, {"/a b", true, true, false},
		{"/a?b c", true, true, false}, {"?", true, true, true}, {"/a#b", true, true, false}, {"/a?b#c", true, true, false},
		{" a", true, false, false}, {"a ", true, false, false}, {"\ta", true, false, false}, {"a\t", true, false, false},
		{" ", true, false, false}, {"a\tb", true, true, false}, {"a\x00", false, false, false}, {"\na", false, false, false},
		{"a\r", false, false, false}, {"/a?\x7f", false, false, false}, {"\xff", true, true, true},
	} {
		in := []byte(c.in)
		if v, f, p := IsValue(in), IsFieldValue(in), IsPath(in); v != c.value || f != c.fieldVal || p != c.isPath {
			t.Errorf("%q: a value %v, a field's value %v, a path %v; want %+v", in, v, f, p, c)
		}
	}
}
