package conditional

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/ascii"
)

// matchesAny tells whether a list of entity-tags, one field line or several,
// holds one that equal says is current. Members that are no entity-tag match
// nothing and don't spoil the others.
func matchesAny(lines [][]byte, current []byte, equal func(a, b []byte) bool) bool {
	for _, line := range lines {
		for rest := ascii.TrimOWS(line); len(rest) > 0; {
			var tag []byte
			tag, rest = cutMember(rest)
			if len(tag) > 0 && equal(tag, current) {
				return true
			}
		}
	}
	return false
}

// isAny tells whether the field's value is "*". That is a form of its own and
// no member of a list: with anything beside it, it means nothing.
func isAny(lines [][]byte) bool {
	if len(lines) != 1 {
		return false
	}
	value := ascii.TrimOWS(lines[0])
	return len(value) == 1 && value[0] == '*'
}

// cutMember returns the first member of list, and what follows its comma. The
// tag is empty if the member is, or if it is no entity-tag. Garbage ends at the
// next comma after the byte that made it garbage: an earlier one may belong to
// a tag.
func cutMember(list []byte) (tag, rest []byte) {
	tag, rest, ok := cutTag(ascii.TrimOWS(list))
	tail := rest
	if comma := bytes.IndexByte(rest, ','); comma >= 0 {
		tail, rest = rest[:comma], rest[comma+1:]
	} else {
		rest = nil
	}
	if !ok || len(ascii.TrimOWS(tail)) > 0 {
		return nil, rest
	}
	return tag, rest
}

// cutTag returns the entity-tag that b begins with, its quotes and W/ included,
// and what follows it (RFC 9110 section 8.8.3). If there is none, rest begins
// with the byte that spoils it.
func cutTag(b []byte) (tag, rest []byte, ok bool) {
	i := 0
	if isWeak(b) {
		i = 2
	}
	if i == len(b) || b[i] != '"' {
		return nil, b[i:], false
	}
	for i++; i < len(b) && isTagByte(b[i]); i++ {
	}
	if i == len(b) || b[i] != '"' {
		return nil, b[i:], false
	}
	return b[:i+1], b[i+1:], true
}

// isTagByte tells whether c is an etagc: VCHAR but DQUOTE, or obs-text. The
// comma and the backslash are ordinary ones.
func isTagByte(c byte) bool { return c > ' ' && c != '"' && c != 0x7f }

// isWeak tells whether tag has the prefix of a weak one, which is
// case-sensitive.
func isWeak(tag []byte) bool { return len(tag) >= 2 && tag[0] == 'W' && tag[1] == '/' }

// opaque returns tag without the prefix of a weak one.
func opaque(tag []byte) []byte {
	if isWeak(tag) {
		return tag[2:]
	}
	return tag
}

// equalStrong is the strong comparison of RFC 9110 section 8.8.3.2.
func equalStrong(a, b []byte) bool { return !isWeak(a) && bytes.Equal(a, b) }

// equalWeak is the weak comparison of RFC 9110 section 8.8.3.2.
func equalWeak(a, b []byte) bool { return bytes.Equal(opaque(a), opaque(b)) }
