// Package route is what packages router and root have in common: where the route of a
// request stands, which router writes and root and others read.
package route

import "strings"

// A Key is the key under which RequestCtx.UserValue returns the *Match of a request. With
// Makes, the request gets one if it has none; otherwise the value is then nil.
type Key struct{ Makes bool }

// maxKept bounds the text that a Match keeps for its next request, in bytes.
const maxKept = 1 << 10

// A Match is the route of a request and the parameters of its path. It belongs to the
// request, which resets and keeps it. The zero value is that of a request without a route.
type Match struct {
	pattern string
	names   []string // of the parameters; the route's
	spans   []Span   // of text, one for each name
	text    []byte   // the path; the parameters in it are decoded
}

// A Span is a part of a path.
type Span struct{ Start, End uint32 }

// Set makes m the match of a path with a pattern. spans has a Span of path for each of
// names, possibly more. m keeps names, which must not change, and copies of the others:
// the handler may change the URI, and still asks for its parameters.
func (m *Match) Set(pattern string, names []string, path []byte, spans []Span) {
	m.pattern, m.names = pattern, names
	if len(names) > 0 {
		m.text = append(m.text[:0], path...)
		m.spans = append(m.spans[:0], spans[:len(names)]...)
	}
}

// Decode decodes the parameters' percent-encodings. It is called at most once after Set.
func (m *Match) Decode() {
	for i := range m.names {
		s := &m.spans[i]
		part := m.text[s.Start:s.End]
		s.End = s.Start + uint32(len(AppendDecoded(part[:0], part)))
	}
}

// Reset makes m the zero value, but for memory.
func (m *Match) Reset() {
	m.pattern, m.names = "", nil
	if cap(m.text) > maxKept {
		m.text = nil
	}
}

// Pattern returns the pattern of the route, empty without one.
func (m *Match) Pattern() string { return m.pattern }

// Path returns the part of the pattern that begins with the first "/".
func (m *Match) Path() string { return m.pattern[max(strings.IndexByte(m.pattern, '/'), 0):] }

// Param returns the value of the parameter with the given name. ok is false if the route has
// none. The value is valid until the next Set or Reset.
func (m *Match) Param(name string) (value []byte, ok bool) {
	for i := range m.names {
		if m.names[i] == name {
			s := m.spans[i]
			return m.text[s.Start:s.End:s.End], true
		}
	}
	return nil, false
}

// Names returns the names of the parameters. They must not be changed.
func (m *Match) Names() []string { return m.names }

// AppendDecoded appends s, which may begin where dst ends, with its percent-encodings
// decoded. It appends s unchanged if one of them is malformed.
func AppendDecoded(dst, s []byte) []byte {
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && (i+2 >= len(s) || unhex(s[i+1]) < 0 || unhex(s[i+2]) < 0) {
			return append(dst, s...)
		}
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' {
			c = byte(unhex(s[i+1])<<4 | unhex(s[i+2]))
			i += 2
		}
		dst = append(dst, c)
	}
	return dst
}

// unhex returns the value of a hexadecimal digit, -1 if c is none.
func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
