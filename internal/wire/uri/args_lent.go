package uri

import (
	"bytes"
	"encoding/binary"
)

// Lend is Parse for the query that begins at start of target, whose bytes stay as they are until a
// is changed or reset. It copies nothing if nothing has to be decoded: most handlers ask for one
// value or two, which are found as fast without parsing all.
func (a *Args) Lend(target []byte, start int) {
	query := target[start:]
	if len(query) == 0 || len(query) > longestLent || isEncoded(target, start) {
		a.Parse(query)
		return
	}
	a.Reset()
	a.lent = query
}

// longestLent is the length of the longest query that is looked at in place.
const longestLent = 128

// isEncoded reports whether target may have "%" or "+" from start on.
func isEncoded(target []byte, start int) bool {
	for len(target) > start {
		n := len(target) - 8
		if n < 0 {
			return true
		}
		w := binary.LittleEndian.Uint64(target[n:])
		if ((w^'%'*ones-ones)|(w^'+'*ones-ones))&tops != 0 {
			return true
		}
		target = target[:n]
	}
	return false
}

// cutLent returns where the key of the first pair of s ends, and where the pair does.
func cutLent(s []byte) (equals, end int) {
	for i, c := range s {
		if c == '&' {
			return i, i
		}
		if c == '=' {
			if n := bytes.IndexByte(s[i:], '&'); n >= 0 {
				return i, i + n
			}
			return i, len(s)
		}
	}
	return len(s), len(s)
}

// peekLent is Peek in a text that was lent.
func peekLent(s, key []byte) []byte {
	for n := len(key); ; {
		end := bytes.IndexByte(s, '&')
		pair := s
		if end >= 0 {
			pair = s[:end:end]
		}
		switch {
		case len(pair) < n || !isKey(pair, key):
		case n < len(pair) && pair[n] == '=' && len(pair) > 1:
			return pair[n+1:]
		case n == len(pair) && n > 0:
			return pair[n:]
		}
		if end < 0 {
			return nil
		}
		s = s[end+1:]
	}
}

// isKey reports whether s begins with key, which has no "=".
func isKey(s, key []byte) bool {
	for i, c := range key {
		if c != s[i] || c == '=' {
			return false
		}
	}
	return true
}

// lentPairs yields the pairs of what a was lent, if there is any. A value is nil if there is no
// "=".
func (a *Args) lentPairs(yield func(key, value []byte) bool) {
	for s := a.lent; len(s) > 0; {
		equals, end := cutLent(s)
		key, value := s[:equals:equals], []byte(nil)
		if equals < end {
			value = s[equals+1 : end : end]
		}
		s = s[min(end+1, len(s)):]
		if len(key)+len(value) > 0 && !yield(key, value) {
			return
		}
	}
}
