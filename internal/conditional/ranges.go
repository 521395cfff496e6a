package conditional

import (
	"bytes"
	"errors"
	"math"
	"slices"

	"github.com/sluicehttp/sluice/internal/ascii"
)

// MaxRanges is the number of ranges that ParseRange reads. A field with more
// is ignored (RFC 9110 section 14.2); no more spans than this are returned.
const MaxRanges = 64

// usualRanges is how many parts a request may have before they are looked at
// as "many small ranges" (RFC 9110 section 14.2).
const usualRanges = 8

// partOverhead is about what a part costs beside its bytes; RFC 9110 section
// 15.3.7.2 names this number. Spans with a smaller gap between them are cheaper
// as one.
const partOverhead = 80

// A Span is a piece of a representation, in bytes.
type Span struct {
	Offset, Length int64
}

// end returns the offset of the byte behind s.
func (s Span) end() int64 { return s.Offset + s.Length }

// A RangeVerdict says how a Range field is answered.
type RangeVerdict uint8

const (
	// Whole: 200 with everything, as if there were no Range field.
	Whole RangeVerdict = iota
	// Part: 206 with the one span, without multipart.
	Part
	// Parts: 206 with multipart/byteranges of two or more spans.
	Parts
	// Unsatisfiable: 416 with AppendUnsatisfied as Content-Range. So is what is
	// invalid, unless it is ignored.
	Unsatisfiable
)

// ParseRange appends to dst what the value of a Range field asks of a
// representation of size bytes (RFC 9110 section 14.1.2), and says how to
// answer. Range means something with GET only; a request with two Range fields,
// or one for which MayRange is false, is answered as without.
//
// Whole comes with an empty field, a unit other than bytes, more than MaxRanges
// ranges, and a list with an invalid member. An invalid range by itself is
// Unsatisfiable, as from other servers; section 14.2 lets both be ignored or
// refused. Members that are unsatisfiable beside satisfiable ones are left out.
// On an empty representation a suffix such as "-5" is satisfiable (section
// 14.1.2) but has no byte that a Content-Range could name, so the answer is
// Whole.
//
// Spans lie within the representation, are not empty and come in the order of
// the request. Where they are excessive — more bytes in total than the
// representation has, more than two ranges that overlap, or many — those that
// overlap or nearly touch become one, in the place of the first. So all spans
// together are never longer than size. With Whole and Unsatisfiable dst is
// returned as it was.
func ParseRange(dst []Span, field []byte, size int64) ([]Span, RangeVerdict) {
	set, ok := rangeSet(field)
	if !ok || size < 0 {
		return dst, Whole
	}
	if bytes.IndexByte(set, ',') < 0 {
		return parseOne(dst, set, size)
	}
	// The list rule (RFC 9110 section 5.6.1) has blanks beside commas only, so
	// none before the first range.
	if isBlank(set[0]) && bytes.TrimLeft(set, " \t")[0] != ',' {
		return dst, Whole
	}
	start, ranges, isEmptySuffix := len(dst), 0, false
	for more := true; more; {
		var member []byte
		member, set, more = bytes.Cut(set, comma)
		if member = ascii.TrimOWS(member); len(member) == 0 {
			continue
		}
		if ranges++; ranges > MaxRanges {
			return dst[:start], Whole
		}
		s, isSatisfiable, ok := ParseSpec(member, size)
		switch {
		case !ok:
			return dst[:start], Whole
		case isSatisfiable && s.Length == 0:
			isEmptySuffix = true
		case isSatisfiable:
			dst = append(dst, s)
		}
	}
	spans := dst[start:]
	if isExcessive(spans, size) {
		spans = coalesce(spans)
	}
	return dst[:start+len(spans)], rangeVerdict(ranges, len(spans), isEmptySuffix)
}

// parseOne is ParseRange of a field with one range.
func parseOne(dst []Span, spec []byte, size int64) ([]Span, RangeVerdict) {
	s, isSatisfiable, ok := ParseSpec(spec, size)
	switch {
	case !ok, !isSatisfiable:
		return dst, Unsatisfiable
	case s.Length == 0:
		return dst, Whole
	}
	return append(dst, s), Part
}

// comma separates the members of a list.
var comma = []byte{','}

// rangeVerdict is the answer to ranges of which spans are left.
func rangeVerdict(ranges, spans int, isEmptySuffix bool) RangeVerdict {
	switch {
	case spans > 1:
		return Parts
	case spans == 1:
		return Part
	case ranges == 0 || isEmptySuffix:
		return Whole
	}
	return Unsatisfiable
}

// rangeSet returns what follows "bytes=" in the value of a Range field.
func rangeSet(field []byte) (set []byte, ok bool) {
	const unit = "bytes="
	field = ascii.TrimOWS(field)
	if len(field) < len(unit) || !ascii.EqualFold(field[:len(unit)], unit) {
		return nil, false
	}
	return field[len(unit):], true
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// ParseSpec returns the span that a range-spec, such as "2-5", "2-" or "-3",
// means of size bytes. ok is false if it is malformed, or the last position is
// before the first (RFC 9110 section 14.1.1). Unless it is
// unsatisfiable, or a suffix where size is not positive, the span lies within
// the representation and is not empty. Positions too large for an int64 count
// as equal.
func ParseSpec(spec []byte, size int64) (s Span, isSatisfiable, ok bool) {
	firstDigits, lastDigits, ok := bytes.Cut(spec, hyphen)
	if !ok {
		return Span{}, false, false
	}
	if len(firstDigits) == 0 {
		length, ok := parsePosition(lastDigits)
		if !ok {
			return Span{}, false, false
		}
		isSatisfiable = length > 0
		length = min(length, size)
		return Span{size - length, length}, isSatisfiable, true
	}
	first, ok := parsePosition(firstDigits)
	if !ok {
		return Span{}, false, false
	}
	last := int64(math.MaxInt64)
	if len(lastDigits) > 0 {
		if last, ok = parsePosition(lastDigits); !ok || last < first {
			return Span{}, false, false
		}
	}
	if first >= size {
		return Span{}, false, true
	}
	return Span{first, min(last, size-1) - first + 1}, true, true
}

// hyphen separates the positions of a range.
var hyphen = []byte{'-'}

// parsePosition returns the number that digits, 1*DIGIT, stand for, at most
// MaxInt64: no representation is larger.
func parsePosition(digits []byte) (n int64, ok bool) {
	n, err := ascii.ParseUint(digits)
	if errors.Is(err, ascii.ErrNumberRange) {
		return math.MaxInt64, true
	}
	return n, err == nil
}

// isExcessive tells whether spans look like a broken client or an attack (RFC
// 9110 sections 14.2 and 17.15): many of them, more than two that overlap, or
// more bytes than there are.
func isExcessive(spans []Span, size int64) bool {
	if len(spans) > usualRanges {
		return true
	}
	left, pairs := size, 0
	for i, s := range spans {
		if left -= s.Length; left < 0 {
			return true
		}
		for _, other := range spans[:i] {
			if s.Offset < other.end() && other.Offset < s.end() {
				pairs++
			}
		}
	}
	return pairs > 1
}

// coalesce makes one span of those that overlap or have a gap between them that
// is cheaper to send than to leave out (RFC 9110 section 15.3.7.2). It stands
// where the first of them stood. A span that was passed needs no second look:
// a union reaches no farther than what it was made of, and a span in its gap
// would have been near both.
func coalesce(spans []Span) []Span {
	for i := 0; i < len(spans); i++ {
		for j := i + 1; j < len(spans); {
			if !isNear(spans[i], spans[j]) {
				j++
				continue
			}
			spans[i] = union(spans[i], spans[j])
			spans = slices.Delete(spans, j, j+1)
			j = i + 1 // the union may reach those that were too far
		}
	}
	return spans
}

// isNear tells whether a and b overlap, touch, or nearly so.
func isNear(a, b Span) bool {
	return a.Offset-b.end() < partOverhead && b.Offset-a.end() < partOverhead
}

// union returns the span from where the first of a and b begins to where the
// last ends.
func union(a, b Span) Span {
	offset := min(a.Offset, b.Offset)
	return Span{offset, max(a.end(), b.end()) - offset}
}
