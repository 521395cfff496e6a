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
