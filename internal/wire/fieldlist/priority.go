package fieldlist

import (
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// A Priority is what RFC 9218 section 4 says of a response.
type Priority struct {
	Urgency       uint8 // from 0, the most urgent, to 7
	IsIncremental bool  // a part of the response is of use
}

// DefaultPriority returns the priority of a request that names none (RFC 9218 section
// 4).
func DefaultPriority() Priority { return Priority{Urgency: 3} }

// LowestUrgency is the least urgent of all.
const LowestUrgency = 7

// PriorityField returns what ParsePriority parses of a message, and whether there is such a field.
func PriorityField(t *field.Table) (value []byte, ok bool) {
	i := t.Find(field.Other, priorityName, 0)
	if i < 0 {
		return nil, false
	}
	return ascii.TrimOWS(t.Value(i)), true
}

// priorityName is the field of RFC 9218 section 5. It is never written to.
var priorityName = []byte("priority")

// ParsePriority returns base with what the field value says: a dictionary of RFC 8941
// with the members u and i. A member with a wrong type or out of range counts as
// absent. If value is no dictionary, the result is base. The base of a request is
// DefaultPriority; that of a response is the priority of its request.
func ParsePriority(value []byte, base Priority) Priority {
	p := base
	s := structured{value}
	s.skip(' ')
	for len(s.in) > 0 {
		key, ok := s.key()
		item := bareItem{kind: boolean, number: 1}
		if ok && s.take('=') {
			item, ok = s.member()
		}
		if !ok || !s.parameters() || !s.separator() {
			return base
		}
		switch string(key) {
		case "u":
			p.Urgency = base.Urgency
			if item.kind == integer && item.number >= 0 && item.number <= LowestUrgency {
				p.Urgency = uint8(item.number)
			}
		case "i":
			p.IsIncremental = base.IsIncremental
			if item.kind == boolean {
				p.IsIncremental = item.number == 1
			}
		}
	}
	return p
}

// maxEarly is how many priorities of requests that have not come are kept.
const maxEarly = 16

// EarlyPriorities are those of PRIORITY_UPDATE frames that came before their requests (RFC
// 9218 section 7.1). There are at most 16; more are ignored. The zero value is empty.
type EarlyPriorities[ID uint32 | uint64] struct {
	kept  [maxEarly]earlyPriority[ID]
	count int
}

type earlyPriority[ID uint32 | uint64] struct {
	stream ID
	Priority
}

// Keep keeps the priority of a stream that the peer has not opened yet. The last one counts.
func (e *EarlyPriorities[ID]) Keep(stream ID, p Priority) {
	for i := range e.kept[:e.count] {
		if e.kept[i].stream == stream {
			e.kept[i].Priority = p
			return
		}
	}
	if e.count < maxEarly {
		e.kept[e.count] = earlyPriority[ID]{stream, p}
		e.count++
	}
}

// Take returns what was kept for a stream that is opened, and forgets it. It forgets also
// what was kept for lower ones, which the peer cannot open any more (RFC 9113 section
// 5.1.1).
func (e *EarlyPriorities[ID]) Take(stream ID) (p Priority, ok bool) {
	all := e.kept[:e.count]
	e.count = 0
	for _, early := range all {
		switch {
		case early.stream == stream:
			p, ok = early.Priority, true
		case early.stream > stream:
			e.kept[e.count] = early
			e.count++
		}
	}
	return p, ok
}

// AppendPriority appends p as a field value, which is empty for DefaultPriority.
func AppendPriority(dst []byte, p Priority) []byte {
	hasUrgency := p.Urgency != DefaultPriority().Urgency
	if hasUrgency {
		dst = append(dst, 'u', '=', '0'+p.Urgency&LowestUrgency)
	}
	if hasUrgency && p.IsIncremental {
		dst = append(dst, ", "...)
	}
	if p.IsIncremental {
		dst = append(dst, 'i')
	}
	return dst
}

// An itemKind is a type of structured fields, as far as priorities tell them apart.
type itemKind uint8

const (
	other itemKind = iota
	integer
	boolean
)

type bareItem struct {
	number int64
	kind   itemKind
}

// structured reads a structured field (RFC 8941 section 4.2). Each byte is read once.
type structured struct{ in []byte }

func (s *structured) peek() byte {
	if len(s.in) == 0 {
		return 0
	}
	return s.in[0]
}

func (s *structured) take(b byte) bool {
	if len(s.in) == 0 || s.in[0] != b {
		return false
	}
	s.in = s.in[1:]
	return true
}

func (s *structured) skip(b byte) {
	for s.take(b) {
	}
}

// run takes the bytes that accept wants.
func (s *structured) run(accept func(b byte) bool) []byte {
	n := 0
	for n < len(s.in) && accept(s.in[n]) {
		n++
	}
	part := s.in[:n]
	s.in = s.in[n:]
	return part
}

func isLower(b byte) bool { return 'a' <= b && b <= 'z' }
func isDigit(b byte) bool { return '0' <= b && b <= '9' }

func isAlpha(b byte) bool { return isLower(b | 0x20) }

func (s *structured) key() (key []byte, ok bool) {
	if b := s.peek(); !isLower(b) && b != '*' {
		return nil, false
	}
	return s.run(func(b byte) bool {
		return isLower(b) || isDigit(b) || b == '_' || b == '-' || b == '.' || b == '*'
	}), true
}

// separator takes what stands between two members, or the end.
func (s *structured) separator() bool {
	s.blanks()
	if len(s.in) == 0 {
		return true
	}
	if !s.take(',') {
		return false
	}
	s.blanks()
	return len(s.in) > 0
}

func (s *structured) blanks() { s.run(func(b byte) bool { return b == ' ' || b == '\t' }) }

func (s *structured) parameters() bool {
	for s.take(';') {
		s.skip(' ')
		if _, ok := s.key(); !ok {
			return false
		}
		if s.take('=') {
			if _, ok := s.item(); !ok {
				return false
			}
		}
	}
	return true
}

// member reads an item or an inner list, without its parameters.
func (s *structured) member() (item bareItem, ok bool) {
	if !s.take('(') {
		return s.item()
	}
	for {
		s.skip(' ')
		if s.take(')') {
			return bareItem{}, true
		}
		if _, ok := s.item(); !ok || !s.parameters() {
			return bareItem{}, false
		}
		if b := s.peek(); b != ' ' && b != ')' {
			return bareItem{}, false
		}
	}
}

func (s *structured) item() (item bareItem, ok bool) {
	switch b := s.peek(); {
	case b == '-' || isDigit(b):
		return s.number()
	case b == '"':
		return bareItem{}, s.text()
	case b == '*' || isAlpha(b):
		s.run(isTokenByte)
		return bareItem{}, true
	case b == ':':
		return bareItem{}, s.binary()
	case b == '?':
		s.take('?')
		if s.take('1') {
			return bareItem{kind: boolean, number: 1}, true
		}
		if s.take('0') {
			return bareItem{kind: boolean}, true
		}
	}
	return bareItem{}, false
}

// number reads an integer of at most 15 digits, or a decimal (RFC 8941 section 4.2.4).
func (s *structured) number() (item bareItem, ok bool) {
	isNegative := s.take('-')
	digits := s.run(isDigit)
	if len(digits) == 0 || len(digits) > 15 {
		return item, false
	}
	if s.take('.') {
		fraction := s.run(isDigit)
		return item, len(digits) <= 12 && len(fraction) >= 1 && len(fraction) <= 3
	}
	item.kind = integer
	for _, d := range digits {
		item.number = item.number*10 + int64(d-'0')
	}
	if isNegative {
		item.number = -item.number
	}
	return item, true
}

func (s *structured) text() bool {
	s.take('"')
	for len(s.in) > 0 {
		b := s.in[0]
		s.in = s.in[1:]
		switch {
		case b == '"':
			return true
		case b == '\\':
			if !s.take('"') && !s.take('\\') {
				return false
			}
		case b < ' ' || b > '~':
			return false
		}
	}
	return false
}

func (s *structured) binary() bool {
	s.take(':')
	s.run(func(b byte) bool { return isAlpha(b) || isDigit(b) || b == '+' || b == '/' || b == '=' })
	return s.take(':')
}

func isTokenByte(b byte) bool {
	switch b {
	case '!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~', ':', '/':
		return true
	}
	return isAlpha(b) || isDigit(b)
}
