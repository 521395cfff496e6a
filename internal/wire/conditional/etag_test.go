package conditional

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// tagsOf lists the entity-tags that matchesAny compares.
func tagsOf(lines ...string) []string {
	var tags []string
	matchesAny(asLines(lines...), nil, func(tag, _ []byte) bool {
		tags = append(tags, string(tag))
		return false
	})
	return tags
}

func asLines(lines ...string) [][]byte {
	var all [][]byte
	for _, line := range lines {
		all = append(all, []byte(line))
	}
	return all
}

func TestTagLists(t *testing.T) {
	for _, c := range []struct {
		section, list string
		want          []string
	}{
		{"8.8.3", `"xyzzy"`, []string{`"xyzzy"`}},
		{"8.8.3", `W/"xyzzy"`, []string{`W/"xyzzy"`}},
		{"8.8.3", `""`, []string{`""`}},
		{"8.8.3", `W/""`, []string{`W/""`}},
		{"8.8.3: etagc has the comma", `"a,b", ",", ",,"`, []string{`"a,b"`, `","`, `",,"`}},
		{"8.8.3: no escapes", `"a\", "b"`, []string{`"a\"`, `"b"`}},
		{"8.8.3: obs-text", "\"\x80\xff\xc3\xa9\"", []string{"\"\x80\xff\xc3\xa9\""}},
		{"8.8.3: first and last VCHAR", `"!#~"`, []string{`"!#~"`}},
		{"8.8.3: a star is an etagc", `"*"`, []string{`"*"`}},
		{"8.8.3: W/ is case-sensitive", `W/"b", w/"a", W/"c"`, []string{`W/"b"`}},
		{"8.8.3: W alone", `W"a", "e"`, nil},
		{"8.8.3: W/ alone", `W/, "e"`, nil},
		{"8.8.3: W/ twice", `W/W/"d", "e"`, nil},
		{"8.8.3: W/ and a blank", `"a", W/ "c", "e"`, []string{`"a"`}},
		{"8.8.3: unquoted", `"a", abc, "d"`, []string{`"a"`}},
		{"8.8.3: single quotes", `'a', "d"`, nil},
		{"8.8.3: no blank, HTAB, NUL or DEL", "\"d\", \"a b\", \"e\"", []string{`"d"`}},
		{"8.8.3: no HTAB", "\"a\tb\", \"d\"", nil},
		{"8.8.3: no NUL", "\"a\x00b\", \"d\"", nil},
		{"8.8.3: no DEL", "\"a\x7fb\", \"d\"", nil},
		{"8.8.3: garbage with a comma in it", `"a, b", "d"`, nil},
		{"8.8.3: unterminated", `"a`, nil},
		{"8.8.3: unterminated and a comma", `"a,`, nil},
		{"8.8.3: lone quote", `"`, nil},
		{"8.8.3: text behind a tag", `"a", "c" "d", "f"`, []string{`"a"`}},
		{"8.8.3: text after a tag", `"a", "e"; q=1, "f"`, []string{`"a"`}},
		{"5.6.1.2: OWS", "\t \"a\" \t,\t \"b\" \t", []string{`"a"`, `"b"`}},
		{"5.6.1.2: no OWS", `"a","b",W/"c"`, []string{`"a"`, `"b"`, `W/"c"`}},
		{"5.6.1.2: empty members", `,, ,"a", ,,"b",`, []string{`"a"`, `"b"`}},
		{"5.6.1.2: nothing but commas", ` , ,, `, nil},
		{"5.6.1.2: empty", ``, nil},
		{"13.1.1: a star is a member", `"a", *, "b"`, []string{`"a"`, `*`, `"b"`}},
	} {
		if got := tagsOf(c.list); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q holds %q, want %q", c.section, c.list, got, c.want)
		}
	}
	// RFC 9110 section 5.3: lines are one list.
	if got, want := tagsOf(`"a", "b"`, ``, `"d"`, `"e`, `"f"`), []string{`"a"`, `"b"`, `"d"`}; !slices.Equal(got, want) {
		t.Errorf("lines hold %q, want %q", got, want)
	}
	if got, want := tagsOf(`"a"`, `"b" "c"`, `"d"`), []string{`"a"`}; !slices.Equal(got, want) {
		t.Errorf("lines with text after a tag hold %q, want %q", got, want)
	}
}

func TestTagBytes(t *testing.T) {
	for c := range 256 {
		want := c == 0x21 || 0x23 <= c && c <= 0x7e || c >= 0x80
		tag := []byte{'"', byte(c), '"'}
		if _, rest, ok := cutTag(tag); (ok && len(rest) == 0) != want {
			t.Errorf("%q is a tag: %v, want %v", tag, !want, want)
		}
	}
}

// TestCutTag: what is no tag is not cut, up to its first invalid byte.
func TestCutTag(t *testing.T) {
	for in, want := range map[string]string{
		``: ``, `a`: `a`, `a"`: `a"`, `x"y"`: `x"y"`, `W`: `W`, `W/`: ``, `W/x"y"`: `x"y"`, `"`: ``, `"a`: ``, `"a b"`: ` b"`, `W/"a b`: ` b`,
	} {
		if tag, rest, ok := cutTag([]byte(in)); ok || tag != nil || string(rest) != want {
			t.Errorf("%q: %q, %q, %v", in, tag, rest, ok)
		}
	}
}

// TestComparison is the table of RFC 9110 section 8.8.3.2.
func TestComparison(t *testing.T) {
	for _, c := range []struct {
		a, b         string
		strong, weak bool
	}{
		{`W/"1"`, `W/"1"`, false, true},
		{`W/"1"`, `W/"2"`, false, false},
		{`W/"1"`, `"1"`, false, true},
		{`"1"`, `"1"`, true, true},
		{`"1"`, `"2"`, false, false},
		{`"a"`, `"A"`, false, false},
		{`"a"`, ``, false, false},
	} {
		for _, pair := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			a, b := []byte(pair[0]), []byte(pair[1])
			if got := equalStrong(a, b); got != c.strong {
				t.Errorf("%s and %s are strongly equal: %v", a, b, got)
			}
			if got := equalWeak(a, b); got != c.weak {
				t.Errorf("%s and %s are weakly equal: %v", a, b, got)
			}
		}
	}
}

// "*" is recognised if it is the only member.
func TestStars(t *testing.T) {
	never := func(_, _ []byte) bool { return false }
	for _, yes := range []string{"*", " *", "*\t", " * ", "*,", ",*", ", *,"} {
		if !matchesAny(asLines(yes), nil, never) {
			t.Errorf("%q matches nothing", yes)
		}
	}
	for _, no := range []string{"", ",", "**", `"*"`, "W/*", "* *", "x, *", `"a, *`, "*, *", `*, "a"`, `"a", *`} {
		if matchesAny(asLines(no), nil, never) {
			t.Errorf("%q matches", no)
		}
	}
}

// TestMalformedLists: one malformed member, wherever it is, and the field matches nothing.
func TestMalformedLists(t *testing.T) {
	for _, bad := range []string{`x`, `"`, `W/`, `"b`, `w/"b"`, `"b"c`, `"b" "c"`, "\x01", `*`, `"a" *`} {
		for _, lines := range [][][]byte{
			asLines(`"a", ` + bad), asLines(bad + `, "a"`), asLines(`"a", , ` + bad + ", "), asLines(`"a"`, bad), asLines(bad, `"a"`),
		} {
			if matchesAny(lines, []byte(`"a"`), equalWeak) {
				t.Errorf("%q matches", lines)
			}
		}
	}
	for _, good := range []string{`"a"`, `,"a",`, `"b", "a"`, `"a", "b"`, ` "a"	`, `W/"a" , , "c,d"`} {
		if !matchesAny(asLines(good), []byte(`"a"`), equalWeak) {
			t.Errorf("%q matches nothing", good)
		}
	}
}

// A hostile list is read once, so it costs time in proportion to its length.
func TestTagListsAreReadOnce(t *testing.T) {
	for _, piece := range []string{`",`, `"a,`, `"a" "b",`, `W/,`, `x`, `"`, ` `, ` ,`, `"a", `, `"a"x"`, `,`, `*,`} {
		list := []byte(strings.Repeat(piece, 2000))
		cuts, before := 0, len(list)
		for rest, ok := list, true; ok && len(rest) > 0; cuts++ {
			_, rest, ok = cutMember(rest)
			if len(rest) >= before {
				t.Fatalf("%q: a cut took nothing", piece)
			}
			before = len(rest)
		}
		if limit := bytes.Count(list, []byte{','}) + 1; cuts > limit {
			t.Errorf("%q: %d cuts, more than %d", piece, cuts, limit)
		}
	}
}
