package uri

import (
	"bytes"
	"fmt"
	"testing"
	"unsafe"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// pairsOf returns the pairs of a as text.
func pairsOf(a *Args) (pairs []string) {
	for i := range a.pairs {
		p := &a.pairs[i]
		pairs = append(pairs, fmt.Sprintf("%q %q %v", a.at(p.key), a.at(p.value), p.hasNoValue))
	}
	return pairs
}

// slowly splits and decodes a query without words and marks.
func slowly(b []byte) (pairs []string) {
	for _, pair := range bytes.Split(b, []byte("&")) {
		key, value, found := bytes.Cut(pair, []byte("="))
		if len(key)+len(value) > 0 {
			pairs = append(pairs, fmt.Sprintf("%q %q %v", ascii.AppendUnescapedArg(nil, key), ascii.AppendUnescapedArg(nil, value), !found))
		}
	}
	return pairs
}

// FuzzArgsParse checks that reading words finds what reading bytes does, and that what is
// written is read as the same pairs.
func FuzzArgsParse(f *testing.F) {
	for _, s := range []string{
		"", "a", "a=1", "=&a==b&&c=&=d&e", "page=2&q=a+b", "12345678", "1234567=", "12345678=x", "a=1234567&b", "%61+%6=%2b+%&%", "a<=>b;,-/=c",
		"\x80\xa5\xa6\xab\xbd=\xff&\x00=\x01", "=<=<&,=+,&-", "key=0123456789abcdef0123456789abcdef&order=created&limit=50",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var a, again Args
		a.Add([]byte("earlier"), []byte("pair"), false)
		a.Parse(b)
		if got, want := pairsOf(&a), slowly(b); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%q: %s, want %s", b, got, want)
		}
		again.Parse(a.QueryString())
		if got, want := pairsOf(&again), pairsOf(&a); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%q: %s, written and read %s", b, want, got)
		}
	})
}

// TestArgsThatAreChangedForEverStaySmall: what a change makes useless in the text goes
// before the text grows.
func TestArgsThatAreChangedForEverStaySmall(t *testing.T) {
	var a Args
	a.Parse([]byte("a=1&bb=2&ccc"))
	for i := range 10_000 {
		a.Set([]byte("a"), bytes.Repeat([]byte("x"), i%100), false)
		a.Add([]byte("bb"), a.Peek([]byte("a")), i%2 == 0)
		a.Del([]byte("bb"))
	}
	if got, want := string(a.QueryString()), "a="+string(bytes.Repeat([]byte("x"), 99))+"&ccc"; a.find([]byte("ccc")) == nil || len(got) != len(want) {
		t.Errorf("%q, want %q", got, want)
	}
	if n := a.HeldBytes(); n > 2048 {
		t.Errorf("%d bytes are held", n)
	}
}

// TestArgsTakePartsOfThemselves: even if the text moves.
func TestArgsTakePartsOfThemselves(t *testing.T) {
	var a Args
	a.Parse([]byte("a=" + string(bytes.Repeat([]byte("x"), 200))))
	for range 20 {
		a.Set([]byte("b"), a.Peek([]byte("a")), false)
		a.Add([]byte("c"), a.Peek([]byte("b")), false)
		a.Del([]byte("b"))
		if got := a.Peek([]byte("c")); len(got) != 200 || len(bytes.Trim(got, "x")) > 0 {
			t.Fatalf("%q", got)
		}
		a.Del([]byte("c"))
	}
}

// TestArgsHaveLittlePairs: a form has at most one for every two of its bytes.
func TestArgsHaveLittlePairs(t *testing.T) {
	if n := unsafe.Sizeof(pair{}); n != 24 {
		t.Errorf("%d bytes", n)
	}
	for used, want := range map[int]int{1: maxText - 1, maxText: 0} {
		if !fits(used, want) || fits(used, want+1) {
			t.Errorf("after %d bytes not %d fit", used, want)
		}
	}
}

// TestParsedPairsAreBounded: a form of the shortest pairs takes up memory like another one
// of its size. Its first pairs are there, in a list that was used before, too.
func TestParsedPairsAreBounded(t *testing.T) {
	form := bytes.Repeat([]byte("&a"), 2<<20)
	var a Args
	for name, prepare := range map[string]func(){"new": func() {}, "used": func() {}, "larger": func() { a.pairs = make([]pair, 0, 2*maxParsed) }} {
		prepare()
		a.Parse(append([]byte("first=1"), form...))
		if n := a.Len(); n != maxParsed {
			t.Errorf("%s: %d pairs, want %d", name, n, maxParsed)
		}
		if got := a.Peek([]byte("first")); string(got) != "1" {
			t.Errorf("%s: first is %q", name, got)
		}
	}
	a = Args{}
	a.Parse(form)
	if held, want := a.HeldBytes(), 3*len(form); held > want {
		t.Errorf("%d bytes are held for a form of %d, want at most %d", held, len(form), want)
	}
	exact := bytes.Repeat([]byte("&a"), maxParsed)
	if a.Parse(exact); a.Len() != maxParsed {
		t.Errorf("%d pairs of %d", a.Len(), maxParsed)
	}
}

func TestArgsHeldBytes(t *testing.T) {
	buf := make([]byte, 0, 1000)
	a := Args{text: make([]byte, 0, 100), pairs: make([]pair, 0, 10), buf: &buf}
	if got, want := a.HeldBytes(), 1100+10*int(unsafe.Sizeof(pair{})); got != want {
		t.Errorf("%d, want %d", got, want)
	}
}

func BenchmarkArgsParse(b *testing.B) {
	for name, query := range map[string]string{
		"one": "page=2", "encoded": "q=caf%C3%A9+au+lait&page=2", "many": "page=2&limit=50&order=created&token=0123456789abcdef0123456789abcdef",
	} {
		b.Run(name, func(b *testing.B) {
			var a Args
			query := []byte(query)
			b.ReportAllocs()
			for b.Loop() {
				a.Parse(query)
			}
		})
	}
}

// TestArgsSort: pairs are ordered by their keys, and with Sort also by their values.
func TestArgsSort(t *testing.T) {
	const query = "b=2&a=2&b=1&a=1&a&c"
	for _, test := range []struct {
		name, want string
		sort       func(a *Args)
	}{
		{"Sort", "a&a=1&a=2&b=1&b=2&c", func(a *Args) { a.Sort(bytes.Compare) }},
		{"Sort, reversed", "c&b=2&b=1&a=2&a=1&a", func(a *Args) { a.Sort(func(x, y []byte) int { return bytes.Compare(y, x) }) }},
		{"SortKeys keeps the order of values", "a=2&a=1&a&b=2&b=1&c", func(a *Args) { a.SortKeys(bytes.Compare) }},
	} {
		var a Args
		a.Parse([]byte(query))
		a.Set([]byte("c"), nil, true) // a change, so that a copy is known as one
		copied := a
		test.sort(&copied)
		if got := string(copied.QueryString()); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
		if got := string(a.QueryString()); got != query {
			t.Errorf("%s of a copy changes the original to %s", test.name, got)
		}
	}
}

// TestArgsGetters: an absent value is nil, one that is there is not, even if it is empty.
func TestArgsGetters(t *testing.T) {
	for _, query := range []string{"a=1&b&a=2&c=&a", ""} {
		var a Args
		a.Parse([]byte(query))
		for key, values := range map[string][]string{"a": {"1", "2", ""}, "b": {""}, "c": {""}, "d": nil, "A": nil} {
			if query == "" {
				values = nil
			}
			got := a.PeekMulti([]byte(key))
			if len(got) != len(values) || values == nil && got != nil {
				t.Errorf("%q: %s has values %q, want %q", query, key, got, values)
				continue
			}
			for i := range got {
				if string(got[i]) != values[i] || got[i] == nil {
					t.Errorf("%q: value %d of %s is %q, want %q", query, i, key, got[i], values[i])
				}
			}
			if a.Has([]byte(key)) != (values != nil) {
				t.Errorf("%q: Has(%s) is %v", query, key, values == nil)
			}
			if first := a.Peek([]byte(key)); (first != nil) != (values != nil) || values != nil && string(first) != values[0] {
				t.Errorf("%q: Peek(%s) is %q", query, key, first)
			}
		}
	}
	var a Args // without any text
	a.Add(nil, nil, true)
	if got := a.Peek(nil); got == nil {
		t.Error("a pair that is there has the value nil")
	}
}

// TestArgsAll: pairs that are added meanwhile are yielded, too.
func TestArgsAll(t *testing.T) {
	var a Args
	a.Parse([]byte("a=1&b&c=3"))
	var got []string
	for key, value := range a.All() {
		if key == nil || value == nil {
			t.Errorf("%q, %q: nil", key, value)
		}
		got = append(got, string(key)+"="+string(value))
		if string(key) == "b" {
			a.Add([]byte("d"), []byte("4"), false)
		}
	}
	if want := "[a=1 b= c=3 d=4]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	n := 0
	for range a.All() {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d pairs are yielded after the end of the loop", n)
	}
}

// TestArgsCopyTo: copies share no memory, and replace what was there.
func TestArgsCopyTo(t *testing.T) {
	for _, earlier := range []string{"", "x=y", "a=" + string(bytes.Repeat([]byte("x"), 1000))} {
		var a, b Args
		a.Parse([]byte("a=1&b&c="))
		b.Parse([]byte(earlier))
		a.CopyTo(&b)
		a.CopyTo(&a) // nothing happens
		a.Set([]byte("a"), []byte("2"), false)
		if got := string(b.QueryString()); got != "a=1&b&c=" {
			t.Errorf("after %.10q: the copy is %s", earlier, got)
		}
		b.Set([]byte("a"), []byte("3"), false)
		if got := string(a.QueryString()); got != "a=2&b&c=" {
			t.Errorf("after %.10q: the original is %s", earlier, got)
		}
	}
}

// TestArgsAllocateOnce: a list that is used again needs no new memory.
func TestArgsAllocateOnce(t *testing.T) {
	var a Args
	query, key, value := []byte("page=2&q=caf%C3%A9+au+lait&x"), []byte("page"), []byte("3")
	if n := testing.AllocsPerRun(100, func() {
		a.Parse(query)
		a.Set(key, value, false)
		_ = a.QueryString()
		a.Del(key)
		_ = a.Has(key)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
