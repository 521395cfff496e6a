package conditional

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// matchesAny reports whether a field, in one or more lines, is "*", or a list of
// entity-tags of which equal says that one is current. A field with a malformed member, or
// with "*" beside others, matches nothing: what its sender meant is not known.
func matchesAny(lines [][]byte, current []byte, equal func(a, b []byte) bool) bool {
	members, hasStar, matches := 0, false, false
	for _, line := range lines {
		for rest := line; len(rest) > 0; {
			member, after, ok := cutMember(rest)
			if !ok {
				return false
			}
			if len(member) > 0 {
				members++
				hasStar = hasStar || member[0] == '*'
				matches = matches || equal(member, current)
			}
			rest = after
		}
	}
	if hasStar {
		return members == 1
	}
	return matches
}

// cutMember returns the first member of list, which is an entity-tag, "*" or empty,
// and what follows its comma. ok is false for anything else.
func cutMember(list []byte) (member, rest []byte, ok bool) {
	list = ascii.TrimOWS(list)
	switch {
	case len(list) == 0 || list[0] == ',':
		rest = list
	case list[0] == '*':
		member, rest = list[:1], list[1:]
	default:
		if member, rest, ok = cutTag(list); !ok {
			return nil, nil, false
		}
	}
	rest = ascii.TrimOWS(rest)
	if len(rest) > 0 && rest[0] != ',' {
		return nil, nil, false
	}
	return member, rest[min(1, len(rest)):], true
}

// cutTag returns the entity-tag at the beginning of b, with its quotes and W/, and
// what follows it (RFC 9110 section 8.8.3). If there is none, rest begins with the
// first invalid byte.
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

// isTagByte reports whether c is an etagc: VCHAR except DQUOTE, or obs-text. Comma and
// backslash are ordinary.
func isTagByte(c byte) bool { return c > ' ' && c != '"' && c != 0x7f }

// isWeak reports whether tag has the prefix of a weak tag, which is case-sensitive.
func isWeak(tag []byte) bool { return len(tag) >= 2 && tag[0] == 'W' && tag[1] == '/' }

// opaque returns tag without the prefix of a weak tag.
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
