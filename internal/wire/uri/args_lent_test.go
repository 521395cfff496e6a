package uri

import (
	"bytes"
	"fmt"
	"testing"
)

// lentPath stands before the queries of the tests.
const lentPath = "/some/path?"

// shown returns all that the getters of a say of its pairs, and of keys.
func shown(a *Args, keys [][]byte) string {
	text := fmt.Appendf(nil, "%d %q", a.Len(), a.AppendBytes(nil))
	for key, value := range a.All() {
		text = fmt.Appendf(text, " %q=%q", key, value)
		keys = append(keys, bytes.Clone(key))
	}
	for _, key := range keys {
		value := a.Peek(key)
		text = fmt.Appendf(text, "\n%q: %q %v %v %q", key, value, value == nil, a.Has(key), a.PeekMulti(key))
	}
	return string(text)
}

// FuzzArgsLend checks that a list shows the same if it was lent the query, before and after
// changes, in a copy, and in a copy by assignment.
func FuzzArgsLend(f *testing.F) {
	for _, s := range []string{"", "a", "a=1", "=", "&", "=x", "=&a==b&&c=&=d&e", "page=2&q=a+b", "page=2&page=3", "%61=1", "a=b=c&a", "pag=1&page=2&pages=3", "\xff=\x80&é=ü"} {
		for _, key := range []string{"", "a", "a=b", "page", "a=1&b"} {
			f.Add([]byte(s), []byte(key))
		}
	}
	f.Fuzz(func(t *testing.T, query, key []byte) {
		keys := [][]byte{key, query, {}, query[:len(query)/2]}
		var parsed, lent, copied Args
		for _, change := range []func(*Args){
			func(*Args) {},
			func(a *Args) { a.Add(key, query, len(key) == 1) },
			func(a *Args) { a.Set(key, query, false) },
			func(a *Args) { a.Add(a.Peek(key), a.Peek(query), true) },
			func(a *Args) { a.Del(key) },
			func(a *Args) { a.SortKeys(bytes.Compare) },
			func(a *Args) { a.QueryString() },
			(*Args).Reset,
		} {
			target := append([]byte(lentPath), query...)
			parsed.Parse(query)
			lent.Lend(target, len(lentPath))
			before := shown(&parsed, keys)
			if got := shown(&lent, keys); got != before {
				t.Fatalf("lent %q:\n%s, want\n%s", query, got, before)
			}
			lent.CopyTo(&copied)
			assigned := lent
			change(&parsed)
			change(&lent)
			if got, want := shown(&lent, keys), shown(&parsed, keys); got != want {
				t.Fatalf("changed %q:\n%s, want\n%s", query, got, want)
			}
			if string(target) != lentPath+string(query) {
				t.Fatalf("%q was changed to %q", query, target)
			}
			if got := shown(&assigned, keys); got != before && assigned.lent != nil {
				t.Fatalf("copied %q by assignment:\n%s, want\n%s", query, got, before)
			}
			assigned.Add([]byte("x"), []byte("y"), false)
			if got, want := shown(&lent, keys), shown(&parsed, keys); got != want {
				t.Fatalf("%q, after a change of a copy by assignment:\n%s, want\n%s", query, got, want)
			}
			clear(target)
			if got := shown(&copied, keys); got != before {
				t.Fatalf("copied %q:\n%s, want\n%s", query, got, before)
			}
		}
	})
}

// TestArgsLend: what is lent is not copied before it is changed, and a list that is changed while
// it is looked at goes on.
func TestArgsLend(t *testing.T) {
	target := []byte(lentPath + "a=1&b=2")
	var a Args
	if allocs := testing.AllocsPerRun(10, func() {
		a.Lend(target, len(lentPath))
		if string(a.Peek([]byte("b"))) != "2" || a.Peek([]byte("c")) != nil || a.Len() != 2 {
			t.Error("it does not show what it was lent")
		}
		a.Reset()
	}); allocs != 0 || a.HeldBytes() != 0 {
		t.Errorf("%v allocations, %d bytes", allocs, a.HeldBytes())
	}
	a.Lend(target, len(lentPath))
	var seen []string
	for key, value := range a.All() {
		if seen = append(seen, fmt.Sprintf("%s=%s", key, value)); len(seen) == 1 {
			a.Add([]byte("c"), []byte("3"), false)
		}
	}
	if got := fmt.Sprint(seen); got != "[a=1 b=2 c=3]" {
		t.Errorf("%s during a change", got)
	}
	if value := append(a.Peek([]byte("a")), "xyz"...); string(value) != "1xyz" || string(a.Peek([]byte("b"))) != "2" {
		t.Errorf("%q, %q: a value has room for others", value, a.Peek([]byte("b")))
	}
	a.Lend(target, len(lentPath))
	if value := append(a.Peek([]byte("a")), "xyz"...); string(value) != "1xyz" || string(target) != lentPath+"a=1&b=2" {
		t.Errorf("%q, %q: a value that is lent has room for others", value, target)
	}
	long := append(target, bytes.Repeat([]byte("x"), longestLent)...)
	if a.Lend(long, len(lentPath)); a.lent != nil {
		t.Error("a long query is not parsed")
	}
}
