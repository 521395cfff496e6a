package conditional

import (
	"bytes"
	"strings"
	"testing"
)

const modified = 1704164645 // Tue, 02 Jan 2024 03:04:05 GMT

// condition is a short form of Conditions: lists with "|" between their lines,
// "empty" for an empty line; dates relative to modified; "" for an absent field.
type condition struct {
	match, unmodified, noneMatch, since string
	isOther                             bool
}

func (c condition) conditions() *Conditions {
	made := Conditions{IsGetOrHead: !c.isOther}
	lines := func(s string) [][]byte {
		if s == "" {
			return nil
		}
		return asLines(strings.Split(strings.TrimPrefix(s, "empty"), "|")...)
	}
	date := func(s string) (int64, bool) {
		switch s {
		case "before":
			return modified - 1, true
		case "same":
			return modified, true
		case "after":
			return modified + 1, true
		}
		return 0, false
	}
	made.IfMatch, made.IfNoneMatch = lines(c.match), lines(c.noneMatch)
	made.IfUnmodifiedSince, made.HasIfUnmodifiedSince = date(c.unmodified)
	made.IfModifiedSince, made.HasIfModifiedSince = date(c.since)
	return &made
}

type evaluateCase struct {
	section string
	condition
	v    Validators
	want Verdict
}

func (c evaluateCase) check(t *testing.T) {
	t.Helper()
	if got := c.conditions().Evaluate(c.v); got != c.want {
		t.Errorf("%s: %+v of %s: %d, want %d", c.section, c.condition, c.v.ETag, got, c.want)
	}
}

func TestEvaluate(t *testing.T) {
	strong := Validators{ETag: []byte(`"a"`), Modified: modified, HasModified: true}
	weak := Validators{ETag: []byte(`W/"a"`), Modified: modified, HasModified: true}
	tagOnly := Validators{ETag: []byte(`"a"`)}
	dateOnly := Validators{Modified: modified, HasModified: true}
	bare := Validators{}
	malformed := Validators{ETag: []byte(`a`)}
	const ok, same, failed = Proceed, NotModified, PreconditionFailed
	for _, c := range []evaluateCase{
		{"13.2: no conditions", condition{}, strong, ok},
		{"13.1.1: a match", condition{match: `"a"`}, strong, ok},
		{"13.1.1: no match", condition{match: `"b"`}, strong, failed},
		{"13.1.1: one of several", condition{match: `"b", "a"`}, strong, ok},
		{"13.1.1: one of several lines", condition{match: `"b"|"c", "a"`}, strong, ok},
		{"13.1.1: any", condition{match: `*`}, strong, ok},
		{"13.1.1: any of one without a tag", condition{match: `*`}, bare, ok},
		{"13.1.1: a tag, but there is none", condition{match: `"a"`}, dateOnly, failed},
		{"13.1.1: strong comparison, weak field", condition{match: `W/"a"`}, strong, failed},
		{"13.1.1: strong comparison, weak tag", condition{match: `"a"`}, weak, failed},
		{"13.1.1: strong comparison, both weak", condition{match: `W/"a"`}, weak, failed},
		{"13.1.1: malformed", condition{match: `a`}, strong, failed},
		{"13.1.1: malformed as the tag is", condition{match: `a`}, malformed, failed},
		{"13.1.1: empty", condition{match: `empty`}, strong, failed},
		{"13.1.1: empty, and no tag", condition{match: `empty`}, bare, failed},
		{"13.1.1: any beside a tag is malformed", condition{match: `*, "b"`}, strong, failed},
		{"13.1.1: any after something malformed", condition{match: `b, *`}, strong, failed},
		{"13.1.1: other methods", condition{match: `"b"`, isOther: true}, strong, failed},
		{"13.1.4: before", condition{unmodified: "before"}, strong, failed},
		{"13.1.4: the same second", condition{unmodified: "same"}, strong, ok},
		{"13.1.4: after", condition{unmodified: "after"}, strong, ok},
		{"13.1.4: other methods", condition{unmodified: "before", isOther: true}, strong, failed},
		{"13.1.4: no date to compare", condition{unmodified: "before"}, tagOnly, ok},
		{"13.1.2: a match", condition{noneMatch: `"a"`}, strong, same},
		{"13.1.2: no match", condition{noneMatch: `"b"`}, strong, ok},
		{"13.1.2: one of several", condition{noneMatch: `"b","c", "a"`}, strong, same},
		{"13.1.2: one of several lines", condition{noneMatch: `"b"|W/"a"`}, strong, same},
		{"13.1.2: any", condition{noneMatch: `*`}, strong, same},
		{"13.1.2: any of one without a tag", condition{noneMatch: `*`}, bare, same},
		{"13.1.2: weak comparison, weak field", condition{noneMatch: `W/"a"`}, strong, same},
		{"13.1.2: weak comparison, weak tag", condition{noneMatch: `"a"`}, weak, same},
		{"13.1.2: weak comparison, both weak", condition{noneMatch: `W/"a"`}, weak, same},
		{"13.1.2: malformed", condition{noneMatch: `a`}, strong, ok},
		{"13.1.2: a match after something malformed", condition{noneMatch: `b, "a"`}, strong, ok},
		{"13.1.2: any beside nothing", condition{noneMatch: `, *,`}, strong, same},
		{"13.1.2: malformed as the tag is", condition{noneMatch: `a`}, malformed, ok},
		{"13.1.2: empty", condition{noneMatch: `empty`}, bare, ok},
		{"13.1.2: other methods, match", condition{noneMatch: `"a"`, isOther: true}, strong, failed},
		{"13.1.2: other methods, any", condition{noneMatch: `*`, isOther: true}, strong, failed},
		{"13.1.2: other methods, no match", condition{noneMatch: `"b"`, isOther: true}, strong, ok},
		{"13.1.3: before", condition{since: "before"}, strong, ok},
		{"13.1.3: the same second", condition{since: "same"}, strong, same},
		{"13.1.3: after", condition{since: "after"}, strong, same},
		{"13.1.3: other methods", condition{since: "same", isOther: true}, strong, ok},
		{"13.1.3: no date to compare", condition{since: "same"}, tagOnly, ok},
	} {
		c.check(t)
	}
}

// TestEvaluateOrder checks which of several fields decides.
func TestEvaluateOrder(t *testing.T) {
	strong := Validators{ETag: []byte(`"a"`), Modified: modified, HasModified: true}
	const ok, same, failed = Proceed, NotModified, PreconditionFailed
	for _, c := range []evaluateCase{
		{"13.1.4: If-Match beats it", condition{match: `"a"`, unmodified: "before"}, strong, ok},
		{"13.1.4: If-Match beats it", condition{match: `"b"`, unmodified: "after"}, strong, failed},
		{"13.1.3: If-None-Match beats it", condition{noneMatch: `"b"`, since: "same"}, strong, ok},
		{"13.1.3: If-None-Match beats it", condition{noneMatch: `"a"`, since: "before"}, strong, same},
		{"13.1.3: a malformed one does, too", condition{noneMatch: `a`, since: "same"}, strong, ok},
		{"13.2.2: If-Match first", condition{match: `"b"`, noneMatch: `"a"`}, strong, failed},
		{"13.2.2: then If-None-Match", condition{match: `"a"`, noneMatch: `"a"`}, strong, same},
		{"13.2.2: If-Match, then If-Modified-Since", condition{match: `"a"`, since: "same"}, strong, same},
		{"13.2.2: If-Unmodified-Since, then If-None-Match", condition{unmodified: "same", noneMatch: `"a"`}, strong, same},
		{"13.2.2: If-Unmodified-Since first", condition{unmodified: "before", noneMatch: `"a"`}, strong, failed},
		{"13.2.2: both dates", condition{unmodified: "same", since: "same"}, strong, same},
	} {
		c.check(t)
	}
}

func TestEvaluateOldDates(t *testing.T) {
	c := Conditions{IsGetOrHead: true, HasIfModifiedSince: true, IfModifiedSince: -5}
	for at, want := range map[int64]Verdict{-6: NotModified, -5: NotModified, -4: Proceed, 0: Proceed} {
		if got := c.Evaluate(Validators{Modified: at, HasModified: true}); got != want {
			t.Errorf("modified at %d: %d, want %d", at, got, want)
		}
	}
	// Callers reuse their slices: a slice without lines is an absent field and must
	// not hide a date.
	v := Validators{Modified: modified, HasModified: true}
	c = Conditions{IfMatch: [][]byte{}, IfNoneMatch: [][]byte{}, IsGetOrHead: true}
	if got := c.Evaluate(v); got != Proceed {
		t.Errorf("fields without lines: %d", got)
	}
	c.HasIfModifiedSince, c.IfModifiedSince = true, modified
	if got := c.Evaluate(v); got != NotModified {
		t.Errorf("a field without lines hides If-Modified-Since: %d", got)
	}
	c.HasIfUnmodifiedSince, c.IfUnmodifiedSince = true, modified-1
	if got := c.Evaluate(v); got != PreconditionFailed {
		t.Errorf("a field without lines hides If-Unmodified-Since: %d", got)
	}
}

func TestMayRange(t *testing.T) {
	strong := Validators{ETag: []byte(`"a"`), Modified: modified, HasModified: true}
	weak := Validators{ETag: []byte(`W/"a"`), Modified: modified, HasModified: true}
	for _, c := range []struct {
		field  string
		date   int64
		isDate bool
		v      Validators
		want   bool
	}{
		{``, 0, false, strong, true},
		{``, 0, false, Validators{}, true},
		{`"a"`, 0, false, strong, true},
		{` "a"` + "\t", 0, false, strong, true},
		{`"b"`, 0, false, strong, false},
		{`"A"`, 0, false, strong, false},
		{`W/"a"`, 0, false, strong, false},
		{`W/"a"`, 0, false, weak, false}, // 13.1.5: never a weak one
		{`"a"`, 0, false, weak, false},
		{`"a"`, 0, false, Validators{}, false},
		{`"a", "a"`, 0, false, strong, false}, // one tag, no list
		{`"a"x`, 0, false, strong, false},
		{`"a`, 0, false, strong, false},
		{`a`, 0, false, strong, false},
		{`a`, 0, false, Validators{ETag: []byte(`a`)}, false},
		{`*`, 0, false, strong, false},
		{` `, 0, false, strong, false},
		{`yesterday`, 0, false, strong, false},
		{`Tue, 02 Jan 2024 03:04:05 GMT`, modified, true, strong, true},
		{`Tue, 02 Jan 2024 03:04:05 GMT`, modified, true, weak, true},
		{`Tue, 02 Jan 2024 03:04:06 GMT`, modified + 1, true, strong, false}, // 13.1.5: exactly, not "since"
		{`Tue, 02 Jan 2024 03:04:04 GMT`, modified - 1, true, strong, false},
		{`Tue", 02 Jan`, modified, true, strong, true}, // 13.1.5: no tag, so the caller has found a date
		{`Tu"`, modified, true, strong, false},
		{`Thu, 01 Jan 1970 00:00:00 GMT`, 0, true, Validators{}, false},
		{`Tue, 02 Jan 2024 03:04:05 GMT`, modified, false, strong, false},
		{`"a"`, modified, true, Validators{ETag: []byte(`"b"`), Modified: modified, HasModified: true}, false},
	} {
		if got := MayRange([]byte(c.field), c.date, c.isDate, c.v); got != c.want {
			t.Errorf("If-Range %q (%d, %v) of %s: %v", c.field, c.date, c.isDate, c.v.ETag, got)
		}
	}
}

func FuzzEvaluate(f *testing.F) {
	for _, s := range []string{`"a"`, `W/"a"`, `*`, `"b", W/"c,d",, "a"`, `"a, "b"`, `a`, `"a"x, w/"a"`, "", `",",","`, `*, *`} {
		f.Add([]byte(s), []byte(`"x"`), []byte(`"a"`))
		f.Add([]byte(`"x"`), []byte(s), []byte(`W/"a"`))
	}
	f.Fuzz(func(t *testing.T, one, two, etag []byte) {
		v := Validators{ETag: etag}
		verdict := func(isMatch, isGet bool, lines ...[]byte) Verdict {
			c := Conditions{IfNoneMatch: lines, IsGetOrHead: isGet}
			if isMatch {
				c = Conditions{IfMatch: lines, IsGetOrHead: isGet}
			}
			return c.Evaluate(v)
		}
		strong, weak := verdict(true, true, one, two) == Proceed, verdict(false, true, one, two) == NotModified
		if strong && !weak {
			t.Fatalf("%q | %q match %q strongly, not weakly", one, two, etag)
		}
		hasStar := bytes.IndexByte(one, '*') >= 0 || bytes.IndexByte(two, '*') >= 0
		if strong && isWeak(etag) && !hasStar {
			t.Fatalf("%q | %q match the weak %q strongly", one, two, etag)
		}
		if weak && !hasStar && !bytes.Contains(append(append(bytes.Clone(one), 0), two...), opaque(etag)) {
			t.Fatalf("%q | %q match %q", one, two, etag)
		}
		if (verdict(false, false, one, two) == PreconditionFailed) != weak || (verdict(true, false, one, two) == Proceed) != strong {
			t.Fatalf("%q | %q: the method changes the match", one, two)
		}
		checkOwnTag(t, verdict, one, etag)
		if MayRange(one, 0, false, v) && len(one) > 0 && verdict(true, true, one) != Proceed {
			t.Fatalf("If-Range %q is true of %q, If-Match is not", one, etag)
		}
	})
}

// checkOwnTag checks that a valid tag matches itself before whatever else is a list.
func checkOwnTag(t *testing.T, verdict func(bool, bool, ...[]byte) Verdict, list, etag []byte) {
	tag, rest, ok := cutTag(etag)
	if !ok || len(rest) > 0 {
		return
	}
	for at := list; len(at) > 0; {
		var member []byte
		if member, at, ok = cutMember(at); !ok || string(member) == "*" {
			return
		}
	}
	with := append(append(bytes.Clone(tag), ", "...), list...)
	if verdict(false, true, with) != NotModified || verdict(true, true, with) == Proceed && isWeak(tag) {
		t.Fatalf("%q does not match %q", with, tag)
	}
}

func TestEvaluateAllocatesNothing(t *testing.T) {
	c := benchmarkConditions()
	v := Validators{ETag: []byte(`W/"65937325-410"`), Modified: modified, HasModified: true}
	field := []byte(`"65937325-410"`)
	if n := testing.AllocsPerRun(100, func() {
		if c.Evaluate(v) != NotModified || MayRange(field, 0, false, v) {
			t.Fatal("wrong verdict")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func benchmarkConditions() *Conditions {
	return &Conditions{IfNoneMatch: asLines(`"0", W/"65937325-410"`), IfModifiedSince: modified, HasIfModifiedSince: true, IsGetOrHead: true}
}

func BenchmarkEvaluate(b *testing.B) {
	v := Validators{ETag: []byte(`W/"65937325-410"`), Modified: modified, HasModified: true}
	for name, c := range map[string]*Conditions{"none": {IsGetOrHead: true}, "IfNoneMatch": benchmarkConditions()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = c.Evaluate(v)
			}
		})
	}
}
