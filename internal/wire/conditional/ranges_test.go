package conditional

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// answer writes what ParseRange returns as "verdict first-last first-last".
func answer(spans []Span, verdict RangeVerdict) string {
	words := []string{[]string{"whole", "part", "parts", "unsatisfiable"}[verdict]}
	for _, s := range spans {
		words = append(words, fmt.Sprintf("%d-%d", s.Offset, s.Offset+s.Length-1))
	}
	return strings.Join(words, " ")
}

type rangeCase struct {
	section, field string
	size           int64
	want           string
}

func (c rangeCase) check(t *testing.T) {
	t.Helper()
	if got := answer(ParseRange(nil, []byte(c.field), c.size)); got != c.want {
		t.Errorf("%s: %.80q of %d: %s, want %s", c.section, c.field, c.size, got, c.want)
	}
}

func TestParseRangeOne(t *testing.T) {
	for _, c := range []rangeCase{
		{"14.1.2", "bytes=0-4", 1040, "part 0-4"},
		{"14.1.2", "bytes=0-0", 1040, "part 0-0"},
		{"14.1.2: to the end", "bytes=1035-", 1040, "part 1035-1039"},
		{"14.1.2: everything", "bytes=0-", 1040, "part 0-1039"},
		{"14.1.2: everything", "bytes=0-1039", 1040, "part 0-1039"},
		{"14.1.2: last byte", "bytes=1039-1039", 1040, "part 1039-1039"},
		{"14.1.2: last-pos too large", "bytes=1035-99999", 1040, "part 1035-1039"},
		{"14.1.2: last-pos is the size", "bytes=0-1040", 1040, "part 0-1039"},
		{"14.1.2: suffix", "bytes=-5", 1040, "part 1035-1039"},
		{"14.1.2: suffix of all", "bytes=-1040", 1040, "part 0-1039"},
		{"14.1.2: suffix too large", "bytes=-99999", 1040, "part 0-1039"},
		{"14.1.2: empty suffix", "bytes=-0", 1040, "unsatisfiable"},
		{"14.1.2: empty suffix", "bytes=-00", 1040, "unsatisfiable"},
		{"14.1.2: behind the end", "bytes=1040-", 1040, "unsatisfiable"},
		{"14.1.2: behind the end", "bytes=1040-1040", 1040, "unsatisfiable"},
		{"14.1.2: behind the end", "bytes=2000-3000", 1040, "unsatisfiable"},
		{"14.1.1: leading zeros", "bytes=000-004", 1040, "part 0-4"},
		{"14.1: case of the unit", "BYTES=0-4", 1040, "part 0-4"},
		{"14.1: case of the unit", "bYtEs=0-4", 1040, "part 0-4"},
		{"5.5: blanks around the value", " bytes=0-4\t", 1040, "part 0-4"},
		{"14.1.1: no number is too large", "bytes=0-99999999999999999999", 1040, "part 0-1039"},
		{"14.1.1: no number is too large", "bytes=-99999999999999999999", 1040, "part 0-1039"},
		{"14.1.1: no number is too large", "bytes=99999999999999999999-", 1040, "unsatisfiable"},
		{"14.1.1: no number is too large", "bytes=0-18446744073709551616", 1040, "part 0-1039"},
		{"14.1.1: no number is too large", "bytes=18446744073709551616-", 1040, "unsatisfiable"},
		{"14.1.1: a wrapped one is not 4", "bytes=18446744073709551620-18446744073709551625", 1040, "unsatisfiable"},
		{"14.1.1: both too large", "bytes=99999999999999999999-99999999999999999999", 1040, "unsatisfiable"},
		{"14.1.1: both too large", "bytes=99999999999999999998-099999999999999999999", 1040, "unsatisfiable"},
		{"14.1.2: both too large, descending", "bytes=99999999999999999999-99999999999999999998", 1040, "unsatisfiable"},
		{"14.1.2: both too large, descending", "bytes=100000000000000000000-99999999999999999999", 1040, "unsatisfiable"},
		{"14.1.2: descending", "bytes=99999999999999999999-5", 1040, "unsatisfiable"},
		{"14.1.2: descending", "bytes=5-2", 1040, "unsatisfiable"},
		{"14.1.2: descending", "bytes=1-0", 1040, "unsatisfiable"},
		{"14.1.2: descending", "bytes=2000-1999", 1040, "unsatisfiable"},
		{"14.1.2: a large file", "bytes=9223372036854775806-", math.MaxInt64, "part 9223372036854775806-9223372036854775806"},
		{"14.1.2: a large file", "bytes=-9223372036854775807", math.MaxInt64, "part 0-9223372036854775806"},
		{"14.1.2: a large file", "bytes=9223372036854775807-", math.MaxInt64, "unsatisfiable"},
		{"14.1.2: one byte", "bytes=0-", 1, "part 0-0"},
		{"14.1.2: one byte", "bytes=-1", 1, "part 0-0"},
		{"14.1.2: one byte", "bytes=1-", 1, "unsatisfiable"},
		{"15.5.17: an empty file", "bytes=0-", 0, "unsatisfiable"},
		{"15.5.17: an empty file", "bytes=0-0", 0, "unsatisfiable"},
		{"15.5.17: an empty file", "bytes=5-9,1-", 0, "unsatisfiable"},
		{"14.1.2: an empty file", "bytes=-0", 0, "unsatisfiable"},
		{"14.1.2: no part of an empty file", "bytes=-5", 0, "whole"},
		{"14.1.2: no part of an empty file", "bytes=-99999999999999999999", 0, "whole"},
		{"14.1.2: no part of an empty file", "bytes=0-4,-5,-0", 0, "whole"},
		{"14.1.2: an empty file", "bytes=5-2", 0, "unsatisfiable"},
		{"an unknown size", "bytes=0-4", -1, "whole"},
	} {
		c.check(t)
	}
}

// TestParseSpec: a malformed range has no span and is not satisfiable.
func TestParseSpec(t *testing.T) {
	type outcome struct {
		s                 Span
		isSatisfiable, ok bool
	}
	for spec, want := range map[string]outcome{
		"": {}, "5": {}, "-": {}, "-x": {}, "x-": {}, "5-x": {}, "5-4": {}, "5--6": {},
		"10-": {Span{}, false, true}, "2-": {Span{2, 8}, true, true}, "-3": {Span{7, 3}, true, true}, "-0": {Span{10, 0}, false, true},
	} {
		s, isSatisfiable, ok := ParseSpec([]byte(spec), 10)
		if got := (outcome{s, isSatisfiable, ok}); got != want {
			t.Errorf("%q of 10: %+v, want %+v", spec, got, want)
		}
	}
}

// TestParseRangeIgnores: RFC 9110 section 14.2 requires a server to ignore unknown
// units, and permits ignoring a list with an invalid range.
func TestParseRangeIgnores(t *testing.T) {
	for _, field := range []string{
		"", "bytes", "=", "=0-4", "0-4", "bytes 0-4", "bytes:0-4", "bytes0-4",
		"items=0-4", "byte=0-4", "bytess=0-4", "xbytes=0-4", "none", "bytes =0-4", "b\xd9tes=0-4", "bytes\x00=0-4",
		// 5.6.1: a list needs a member, and has blanks beside commas only.
		"bytes=,", "bytes=,,,", "bytes= , ", "bytes=,\t,", "bytes=  0-4,5-9", "bytes=\t0-4,",
		// One invalid member makes the whole list invalid.
		"bytes=0-4,x", "bytes=x,0-4", "bytes=x,", "bytes=,x", "bytes=0-4,-", "bytes=0-4,5", "bytes=0-4,--5", "bytes=0-4,5 -9",
		"bytes=0-4,bytes=5-9", "bytes=2000-,x",
		// 14.1.1: a range whose last position is before its first is invalid.
		"bytes=0-4,5-2", "bytes=5-2,0-4", "bytes=0-4,2000-1000", "bytes=0-4,99999999999999999999-5", "bytes=5-2,x", "bytes=5-2,", "bytes=,5-2",
	} {
		rangeCase{"14.2", field, 1040, "whole"}.check(t)
		rangeCase{"14.2", field, 0, "whole"}.check(t)
	}
}

// TestParseRangeRefuses: RFC 9110 section 14.2 permits refusing an invalid range.
func TestParseRangeRefuses(t *testing.T) {
	for _, field := range []string{
		"bytes=", "bytes= ", "bytes=\t", "BYTES=", "bytes=none", "bytes==0-4",
		"bytes=-", "bytes=--", "bytes=--5", "bytes=-5-", "bytes=0--4", "bytes=0-4-5", "bytes=0-4-", "bytes=-0-4", "bytes=5", "bytes=*", "bytes=*/1040",
		"bytes=abc", "bytes=a-", "bytes=-a", "bytes=0-a", "bytes=a-4", "bytes=0x0-4", "bytes=0-0x4", "bytes=1_0-20", "bytes=1e1-20", "bytes=0.0-4",
		"bytes=+0-4", "bytes=0-+4", "bytes=-+5", "bytes=\"0-4\"", "bytes=0-4;", "bytes=0-4;q=1", "bytes=0-4;5-9", "bytes=0-4/1040", "bytes=0:4", "bytes=0..4", "bytes=٣-", "bytes=0–4",
		"bytes=0 -4", "bytes=0- 4", "bytes=0 - 4", "bytes=- 5", "bytes=0\t-4", "bytes=1 0-20", "bytes=0-4 5", "bytes=0-4 5-9", "bytes=0-4\x00", "bytes=0-\n4", "bytes=0-4\v",
		"bytes= 0-4", "bytes=\t0-4",
		"bytes=99999999999999999999x-", "bytes=0-99999999999999999999x", "bytes=-99999999999999999999x",
		"bytes=5-2", "bytes=1-0", "bytes=99999999999999999999-5",
	} {
		rangeCase{"14.2", field, 1040, "unsatisfiable"}.check(t)
		rangeCase{"14.2", field, 0, "unsatisfiable"}.check(t)
	}
}

func TestParseRangeSeveral(t *testing.T) {
	for _, c := range []rangeCase{
		{"14.1.2", "bytes=0-4,10-14", 1040, "parts 0-4 10-14"},
		{"14.1.2: first and last byte", "bytes=0-0,-1", 1040, "parts 0-0 1039-1039"},
		{"14.1.2", "bytes=500-600,601-999", 1040, "parts 500-600 601-999"},
		{"15.3.7.2: order of the request", "bytes=500-,0-4,100-104", 1040, "parts 500-1039 0-4 100-104"},
		{"14.2: two may overlap", "bytes=500-700,601-999", 1040, "parts 500-700 601-999"},
		{"14.2: two may be the same", "bytes=0-4,0-4", 1040, "parts 0-4 0-4"},
		{"15.3.7.2: unsatisfiable ones are left out", "bytes=0-1,2000-2001", 1040, "part 0-1"},
		{"15.3.7.2: unsatisfiable ones are left out", "bytes=2000-,-0,7-8,1040-,0-1", 1040, "parts 7-8 0-1"},
		{"15.5.17: all unsatisfiable", "bytes=2000-,-0,1040-1050", 1040, "unsatisfiable"},
		{"5.6.1.2: OWS", "bytes=0-4 ,\t5-9 , -1", 1040, "parts 0-4 5-9 1039-1039"},
		{"5.6.1.2: empty members", "bytes=0-4,", 1040, "part 0-4"},
		{"5.6.1.2: empty members", "bytes=,0-4", 1040, "part 0-4"},
		{"5.6.1.2: empty members", "bytes= ,0-4", 1040, "part 0-4"},
		{"5.6.1.2: empty members", "bytes=,, ,0-4,\t,,5-9,,", 1040, "parts 0-4 5-9"},
		{"5.6.1.2: empty members", "bytes=0-4," + strings.Repeat(",", 500), 1040, "part 0-4"},
		{"17.15: no more bytes than there are", "bytes=0-,0-", 10, "part 0-9"},
		{"17.15: no more bytes than there are", "bytes=0-5,3-9", 10, "part 0-9"},
		{"17.15: no more bytes than there are", "bytes=0-0,-1", 1, "part 0-0"},
		{"17.15: as many bytes as there are", "bytes=520-1039,0-519", 1040, "parts 520-1039 0-519"},
		{"17.15: all bytes twice or more", "bytes=0-,1-,2-,3-,4-", 10, "part 0-9"},
		{"14.2: more than two overlap", "bytes=0-9,5-14,10-19", 1040, "part 0-19"},
		{"14.2: more than two overlap", "bytes=900-909,0-9,5-14,500-509,3-4", 1040, "parts 900-909 0-14 500-509"},
		{"14.2: two pairs overlap", "bytes=500-509,0-9,5-14,505-510", 1040, "parts 500-510 0-14"},
		{"15.3.7.2: the bridge comes last", "bytes=0-9,300-309,5-305,7-8", 1040, "part 0-309"},
		{"15.3.7.2: many small ones", "bytes=0-0,2-2,4-4,6-6,8-8,10-10,12-12,14-14,16-16", 1040, "part 0-16"},
		{"15.3.7.2: many small ones, descending", "bytes=16-16,14-14,12-12,10-10,8-8,6-6,4-4,2-2,0-0", 1040, "part 0-16"},
		{"15.3.7.2: eight are not many", "bytes=0-0,2-2,4-4,6-6,8-8,10-10,12-12,14-14", 1040, "parts 0-0 2-2 4-4 6-6 8-8 10-10 12-12 14-14"},
		{"15.3.7.2: a gap that costs more than a part", "bytes=0-0,82-82,1-1,1-1,1-1", 1040, "parts 0-1 82-82"},
		{"15.3.7.2: a gap that costs more than a part, descending", "bytes=82-82,0-0,1-1,1-1,1-1", 1040, "parts 82-82 0-1"},
		{"15.3.7.2: a gap that costs less", "bytes=0-0,82-82,2-2,1-1,1-1,1-1", 1040, "part 0-82"},
		{"14.2: huge ones don't wrap", "bytes=0-,0-,0-", math.MaxInt64, "part 0-9223372036854775806"},
	} {
		c.check(t)
	}
}

// joined returns a Range field of n members.
func joined(n int, member func(i int) string) string {
	members := make([]string, n)
	for i := range members {
		members[i] = member(i)
	}
	return "bytes=" + strings.Join(members, ",")
}

func TestParseRangeMany(t *testing.T) {
	if MaxRanges != 64 {
		t.Errorf("%d ranges are read", MaxRanges)
	}
	apart := func(i int) string { return fmt.Sprintf("%d-%d", i*1000, i*1000) }
	same := func(int) string { return "0-" }
	var want []string
	for i := range MaxRanges {
		want = append(want, fmt.Sprintf("%d-%d", i*1000, i*1000))
	}
	for _, c := range []rangeCase{
		{"17.15: as many as are read", joined(MaxRanges, apart), 1 << 20, "parts " + strings.Join(want, " ")},
		{"17.15: one too many", joined(MaxRanges+1, apart), 1 << 20, "whole"},
		{"17.15: as many as are read", joined(MaxRanges, same), 1040, "part 0-1039"},
		{"17.15: one too many", joined(MaxRanges+1, same), 1040, "whole"},
		{"17.15: a thousand", joined(1000, same), 1040, "whole"},
		{"17.15: a thousand bytes", joined(1000, func(i int) string { return fmt.Sprintf("%d-%d", i, i) }), 1040, "whole"},
		{"17.15: a thousand behind the end", joined(1000, func(int) string { return "2000-" }), 1040, "whole"},
		{"17.15: as many behind the end as are read", joined(MaxRanges, func(int) string { return "2000-" }), 1040, "unsatisfiable"},
		{"17.15: an empty file", joined(1000, same), 0, "whole"},
	} {
		c.check(t)
	}
}

func TestParseRangeKeepsDst(t *testing.T) {
	mark := Span{7, 7}
	for _, field := range []string{"bytes=0-4", "bytes=0-4,500-504", "bytes=0-9,5-14,10-19", "bytes=2000-", "bytes=0-4,x", joined(MaxRanges+1, func(int) string { return "0-4" })} {
		plain, plainVerdict := ParseRange(nil, []byte(field), 1040)
		for _, room := range []int{1, 2, 100} {
			dst := append(make([]Span, 0, room), mark)
			got, verdict := ParseRange(dst, []byte(field), 1040)
			if len(got) == 0 || got[0] != mark || !slices.Equal(got[1:], plain) || verdict != plainVerdict {
				t.Errorf("%.40s behind a span: %v %d", field, got, verdict)
			}
		}
	}
}

// FuzzParseRange checks what must be true of every result, and compares single ranges
// with a second parser.
func FuzzParseRange(f *testing.F) {
	for _, field := range []string{
		"bytes=0-4", "bytes=-5", "bytes=5-", "bytes=0-0,-1", "BYTES=0-4,", "bytes= ,0-4", "bytes=0-9,5-14,10-19,,-0", "bytes=99999999999999999999-",
		"bytes=0-18446744073709551616", joined(64, func(i int) string { return strconv.Itoa(i*7%64) + "-" }), "bytes=0-,0-", "items=0-4", "bytes=5-2",
	} {
		for _, size := range []int64{0, 1, 10, 1040, math.MaxInt64} {
			f.Add([]byte(field), size)
		}
	}
	f.Fuzz(func(t *testing.T, field []byte, size int64) {
		spans, verdict := ParseRange(nil, field, size)
		checkSpans(t, spans, size)
		if (verdict == Part) != (len(spans) == 1) || (verdict == Parts) != (len(spans) > 1) {
			t.Fatalf("%q of %d: %s", field, size, answer(spans, verdict))
		}
		if len(spans) > bytes.Count(field, []byte{','})+1 {
			t.Fatalf("%q of %d: more than was asked for: %s", field, size, answer(spans, verdict))
		}
		checkAsked(t, field, size, spans, verdict)
		with := append(bytes.Clone(field), ", ,-0,"...)
		if again, after := ParseRange(nil, with, size); verdict > Whole && after > Whole && (after != verdict || !slices.Equal(again, spans)) {
			t.Fatalf("%q of %d: %s, with an unsatisfiable member %s", field, size, answer(spans, verdict), answer(again, after))
		}
	})
}

// checkSpans checks the bounds on which callers rely.
func checkSpans(t *testing.T, spans []Span, size int64) {
	t.Helper()
	left := size
	for _, s := range spans {
		if s.Offset < 0 || s.Length <= 0 || s.Length > size || s.Offset > size-s.Length {
			t.Fatalf("%+v is not within %d", s, size)
		}
		if left -= s.Length; left < 0 {
			t.Fatalf("%v are more than %d", spans, size)
		}
	}
	if len(spans) > MaxRanges {
		t.Fatalf("%d spans", len(spans))
	}
}

// checkAsked reads every member separately. Each satisfiable member must be within
// one span, and the spans are in the order of their first members.
func checkAsked(t *testing.T, field []byte, size int64, spans []Span, verdict RangeVerdict) {
	t.Helper()
	if verdict != Part && verdict != Parts {
		return
	}
	_, set, _ := strings.Cut(string(field), "=")
	next := 0 // the first span of which no member was seen yet
	for member := range strings.SplitSeq(set, ",") {
		one, alone := ParseRange(nil, []byte("bytes="+strings.Trim(member, " \t")), size)
		if alone != Part {
			continue
		}
		at := slices.IndexFunc(spans, func(s Span) bool { return s.Offset <= one[0].Offset && one[0].end() <= s.end() })
		if at < 0 || at > next {
			t.Fatalf("%q of %d: %v is in span %d of %v, expected up to %d", field, size, one[0], at, spans, next)
		}
		if at == next || next < len(spans) && spans[next] == one[0] {
			next++
		}
	}
	if next < len(spans) {
		t.Fatalf("%q of %d: no member asked for %v", field, size, spans[next])
	}
}

func TestParseRangeAllocatesNothing(t *testing.T) {
	var room [MaxRanges]Span
	for _, field := range []string{"bytes=0-499", "bytes=0-0,-1", "items=0-4", "bytes=99999999999999999999-", "bytes=x", joined(MaxRanges, func(i int) string { return strconv.Itoa(i) + "-" })} {
		value := []byte(field)
		if n := testing.AllocsPerRun(100, func() { ParseRange(room[:0], value, 1040) }); n != 0 {
			t.Errorf("%.40s: %v allocations", field, n)
		}
	}
}

func BenchmarkParseRange(b *testing.B) {
	for name, field := range map[string]string{
		"one": "bytes=0-499", "two": "bytes=0-0,-1", "max": joined(MaxRanges, func(i int) string { return fmt.Sprintf("%d-%d", i*1000, i*1000) }),
		"merged": joined(MaxRanges, func(i int) string { return fmt.Sprintf("%d-", (MaxRanges-i)*1000) }),
	} {
		b.Run(name, func(b *testing.B) {
			var room [MaxRanges]Span
			value := []byte(field)
			b.ReportAllocs()
			for b.Loop() {
				ParseRange(room[:0], value, 1<<20)
			}
		})
	}
}
