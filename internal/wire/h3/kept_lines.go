package h3

import "github.com/sluicehttp/sluice/internal/wire/fieldlist"

const (
	keptLines   = 16  // a power of two
	maxKeptText = 448 // bytes of name and value
)

// A keptLine is a field that was encoded, and its bytes. Most fields of responses repeat, and
// the Huffman code is most of the work.
type keptLine struct {
	code fieldlist.Code
	name uint16 // the length of the name, which text begins with if code is Other
	text []byte // the name in the case in which it came, and the value
	line []byte // what the field is encoded to; empty: there is none
}

// slotOf returns the place of a field. Fields with one name have one place.
func slotOf(code fieldlist.Code, name []byte) int {
	n := uint(code)
	if code == fieldlist.Other && len(name) > 0 {
		n = uint(len(name)) + 5*uint(name[len(name)-1]) + 3*uint(name[len(name)/2])
	}
	return int(n & (keptLines - 1))
}

// is reports whether l is the field.
func (l *keptLine) is(code fieldlist.Code, name, value []byte) bool {
	if l.code != code || len(l.line) == 0 {
		return false
	}
	if code != fieldlist.Other {
		return string(l.text) == string(value)
	}
	return int(l.name) == len(name) && string(l.text[:l.name]) == string(name) && string(l.text[l.name:]) == string(value)
}

// appendKept appends a field that is no secret, and keeps its bytes for the next section.
func (e *Encoder) appendKept(dst []byte, code fieldlist.Code, name, value []byte) []byte {
	l := &e.lines[slotOf(code, name)]
	if l.is(code, name, value) {
		return append(dst, l.line...)
	}
	start := len(dst)
	dst = appendLine(dst, code, name, value, false)
	if len(name)+len(value) <= maxKeptText {
		l.code, l.name, l.text = code, uint16(len(name)), l.text[:0]
		if code == fieldlist.Other {
			l.text = append(l.text, name...)
		}
		l.text = append(l.text, value...)
		l.line = append(l.line[:0], dst[start:]...)
	}
	return dst
}
