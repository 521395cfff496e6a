package conditional

import (
	"bytes"
	"errors"
	"math"
	"slices"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// MaxRanges is the number of ranges that ParseRange reads. It ignores a field with
// more (RFC 9110 section 14.2). It returns at most as many spans.
const MaxRanges = 64

// usualRanges is the number of parts above which a request may have "many small
// ranges" (RFC 9110 section 14.2).
const usualRanges = 8

// partOverhead is approximately what a part costs beside its bytes; RFC 9110 section
// 15.3.7.2 names this number. Two spans with a smaller gap are cheaper as one.
const partOverhead = 80

// A Span is a part of a representation, in bytes.
type Span struct {
	Offset, Length int64
}

// end returns the offset of the byte after s.
func (s Span) end() int64 { return s.Offset + s.Length }

// A RangeVerdict says how to answer a Range field.
type RangeVerdict uint8

const (
	// Whole: 200 with the whole representation, as without a Range field.
	Whole RangeVerdict = iota
	// Part: 206 with the one span, without multipart.
	Part
	// Parts: 206 with multipart/byteranges of two or more spans.
	Parts
	// Unsatisfiable: 416 with AppendUnsatisfied as Content-Range. Invalid ranges that
	// are not ignored are Unsatisfiable too.
	Unsatisfiable
)

// ParseRange appends to dst the spans that the value of a Range field requests of a
// representation of size bytes (RFC 9110 section 14.1.2), and says how to answer.
// Range only has a meaning with GET. A request with two Range fields, or for which
// MayRange is false, must be answered as if it had none.
//
// Whole is returned for an empty field, a unit other than bytes, more than MaxRanges
// ranges, and a list with an invalid member. A single invalid range is Unsatisfiable,
// as in other servers; section 14.2 permits ignoring and refusing. Unsatisfiable
// members beside satisfiable ones are left out. For an empty representation a suffix
// such as "-5" is satisfiable (section 14.1.2), but Content-Range cannot express it,
// so the answer is Whole.
//
// Spans are within the representation, not empty, and in the order of the request. If
// they are excessive (more bytes in total than the representation has, more than two
// ranges that overlap, or many), those that overlap or nearly touch become one span,
// in the place of the first. So all spans together are never longer than size. For
// Whole and Unsatisfiable, dst is returned unchanged.
func ParseRange(dst []Span, field []byte, size int64) ([]Span, RangeVerdict) {
	set, ok := rangeSet(field)
	if !ok || size < 0 {
		return dst, Whole
	}
	if bytes.IndexByte(set, ',') < 0 {
		return parseOne(dst, set, size)
	}
	// The list rule (RFC 9110 section 5.6.1) allows blanks only beside commas, so
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

// parseOne is ParseRange for a field with one range.
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

// rangeVerdict is the answer to this number of ranges that resulted in this number of
// spans.
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

// ParseSpec returns the span that a range-spec, such as "2-5", "2-" or "-3", selects
// from size bytes. ok is false if it is malformed, or if the last position is before
// the first (RFC 9110 section 14.1.1). The span lies within the representation and is
// not empty, except if it is unsatisfiable, or a suffix while size is not positive.
// Positions that exceed an int64 count as equal.
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

// parsePosition returns the number that digits, 1*DIGIT, represent, at most MaxInt64:
// no representation is larger.
func parsePosition(digits []byte) (n int64, ok bool) {
	n, err := ascii.ParseUint(digits)
	if errors.Is(err, ascii.ErrNumberRange) {
		return math.MaxInt64, true
	}
	return n, err == nil
}

// isExcessive reports whether spans look like a broken client or an attack (RFC 9110
// sections 14.2 and 17.15): many spans, more than two that overlap, or more bytes
// than the representation has.
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

// coalesce joins spans that overlap, or whose gap costs less to send than another
// part (RFC 9110 section 15.3.7.2). The union takes the place of the first of them.
// Spans before it need not be compared again: a union does not extend beyond its two
// members, and a span in the gap between them would have been near both.
func coalesce(spans []Span) []Span {
	for i := 0; i < len(spans); i++ {
		for j := i + 1; j < len(spans); {
			if !isNear(spans[i], spans[j]) {
				j++
				continue
			}
			spans[i] = union(spans[i], spans[j])
			spans = slices.Delete(spans, j, j+1)
			j = i + 1 // the union may be near spans that its members were not
		}
	}
	return spans
}

// isNear reports whether a and b overlap, touch or nearly touch.
func isNear(a, b Span) bool {
	return a.Offset-b.end() < partOverhead && b.Offset-a.end() < partOverhead
}

// union returns the span from the beginning of the first to the end of the last of a
// and b.
func union(a, b Span) Span {
	offset := min(a.Offset, b.Offset)
	return Span{offset, max(a.end(), b.end()) - offset}
}
