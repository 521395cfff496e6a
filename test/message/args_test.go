package message_test

import (
	"bytes"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/test/harness"
)

func parsedArgs(s string) *sluice.Args {
	var a sluice.Args
	a.Parse(s)
	return &a
}

func TestArgsParse(t *testing.T) {
	for s, want := range map[string][]string{
		"":              nil,
		"&&":            nil,
		"=":             nil,
		"=&a=b&=":       {"a", "b"},
		"a":             {"a", ""},
		"a=":            {"a", ""},
		"=b":            {"", "b"},
		"a=b=c":         {"a", "b=c"},
		"a=1&b&a=2":     {"a", "1", "b", "", "a", "2"},
		"%61+%62=%2b+%": {"a b", "+ %"},
		"a;b=c":         {"a;b", "c"},
		"%00=%0d%0a":    {"\x00", "\r\n"},
	} {
		var got []string
		for key, value := range parsedArgs(s).All() {
			got = append(got, string(key), string(value))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}

func TestArgsWriting(t *testing.T) {
	var a sluice.Args
	a.Add("a b", "c&d=e")
	a.AddNoValue("none")
	a.AddBytesK([]byte("k"), "")
	a.AddBytesV("v", []byte("\r\n\x00"))
	a.AddBytesKV([]byte("é"), []byte("~"))
	a.AddBytesKNoValue([]byte("="))
	const want = "a+b=c%26d%3De&none&k=&v=%0D%0A%00&%C3%A9=~&%3D"
	if got := a.String(); got != want {
		t.Errorf("String: %q", got)
	}
	if got := string(a.QueryString()); got != want {
		t.Errorf("QueryString: %q", got)
	}
	if got := string(a.AppendBytes([]byte("x?"))); got != "x?"+want {
		t.Errorf("AppendBytes: %q", got)
	}
	var w bytes.Buffer
	if n, err := a.WriteTo(&w); n != int64(len(want)) || err != nil || w.String() != want {
		t.Errorf("WriteTo: %d, %v, %q", n, err, w.String())
	}
}

func TestArgsWriteToReportsTheError(t *testing.T) {
	wantErr := errors.New("full")
	if n, err := parsedArgs("a=b").WriteTo(harness.WriterFunc(func(p []byte) (int, error) { return 1, wantErr })); n != 1 || err != wantErr {
		t.Errorf("%d, %v", n, err)
	}
}

func TestArgsSetReplacesTheFirst(t *testing.T) {
	a := parsedArgs("a=1&b=2&a=3")
	a.Set("a", "x")
	a.SetBytesK([]byte("n1"), "v")
	a.SetBytesV("n2", []byte("w"))
	a.SetBytesKV([]byte("b"), []byte("y"))
	a.SetUint("n1", 7)
	a.SetUintBytes([]byte("u"), 0)
	if got := a.String(); got != "a=x&b=y&a=3&n1=7&n2=w&u=0" {
		t.Errorf("%q", got)
	}
	a.SetNoValue("a")
	a.SetBytesKNoValue([]byte("new"))
	if got := a.String(); got != "a&b=y&a=3&n1=7&n2=w&u=0&new" {
		t.Errorf("%q", got)
	}
	a.Set("a", "")
	if got := a.String(); !strings.HasPrefix(got, "a=&") {
		t.Errorf("a value set on a pair without one: %q", got)
	}
}

func TestArgsSetUintPanicsOnNegative(t *testing.T) {
	a := parsedArgs("n=1")
	defer func() {
		if recover() == nil || a.String() != "n=1" {
			t.Errorf("no panic, or changed: %q", a.String())
		}
	}()
	a.SetUint("n", -1)
}

func TestArgsDelKeepsTheOthersApart(t *testing.T) {
	a := parsedArgs("a=11&b=22&a=33&c=44&d=55")
	a.Del("a")
	a.DelBytes([]byte("none"))
	if got := a.String(); got != "b=22&c=44&d=55" {
		t.Errorf("%q", got)
	}
	// The slots that are free again must not share memory with those in use.
	a.Add("x", "XX")
	a.Add("y", "YY")
	a.Set("b", "99")
	if got := a.String(); got != "b=99&c=44&d=55&x=XX&y=YY" {
		t.Errorf("%q", got)
	}
}

func TestArgsPeek(t *testing.T) {
	a := parsedArgs("a=1&b&c=&a=2")
	if got := a.Peek("a"); string(got) != "1" {
		t.Errorf("a: %q", got)
	}
	if got := a.PeekBytes([]byte("b")); got == nil || len(got) > 0 {
		t.Errorf("b: %v", got)
	}
	if a.Peek("none") != nil || a.PeekMulti("none") != nil {
		t.Error("a value for a key that is missing")
	}
	if got := a.PeekMulti("a"); len(got) != 2 || string(got[0]) != "1" || string(got[1]) != "2" {
		t.Errorf("PeekMulti: %q", got)
	}
	if got := a.PeekMultiBytes([]byte("b")); len(got) != 1 || got[0] == nil {
		t.Errorf("PeekMultiBytes: %v", got)
	}
	if !a.Has("c") || !a.HasBytes([]byte("b")) || a.Has("d") {
		t.Error("Has")
	}
	var fresh sluice.Args
	fresh.AddNoValue("n")
	if fresh.Peek("n") == nil {
		t.Error("a pair without value is nil when its memory is new")
	}
}

func TestArgsGetNumbers(t *testing.T) {
	a := parsedArgs("n=12&f=1.5&empty=&none&bad=x&neg=-1&big=99999999999999999999")
	for key, want := range map[string]struct {
		n        int
		nErr     error
		f        float64
		fErr     error
		nOr, fOr float64
	}{
		"n":       {12, nil, 12, nil, 12, 12},
		"f":       {-1, ascii.ErrNotNumber, 1.5, nil, 0, 1.5},
		"empty":   {-1, sluice.ErrNoArgValue, -1, sluice.ErrNoArgValue, 0, 0},
		"none":    {-1, sluice.ErrNoArgValue, -1, sluice.ErrNoArgValue, 0, 0},
		"missing": {-1, sluice.ErrNoArgValue, -1, sluice.ErrNoArgValue, 0, 0},
		"bad":     {-1, ascii.ErrNotNumber, -1, ascii.ErrNotNumber, 0, 0},
		"neg":     {-1, ascii.ErrNotNumber, -1, ascii.ErrNotNumber, 0, 0},
		"big":     {-1, ascii.ErrNumberRange, 1e20, nil, 0, 1e20},
	} {
		if n, err := a.GetUint(key); n != want.n || !errors.Is(err, want.nErr) {
			t.Errorf("GetUint(%q) = %d, %v", key, n, err)
		}
		if f, err := a.GetUfloat(key); f != want.f || !errors.Is(err, want.fErr) {
			t.Errorf("GetUfloat(%q) = %v, %v", key, f, err)
		}
		if n, f := a.GetUintOrZero(key), a.GetUfloatOrZero(key); float64(n) != want.nOr || f != want.fOr {
			t.Errorf("%q or zero: %d, %v", key, n, f)
		}
	}
}

func TestArgsGetBool(t *testing.T) {
	for value, want := range map[string]bool{
		"1": true, "t": true, "T": true, "true": true, "TRUE": true, "True": true, "y": true, "Y": true, "yes": true, "YES": true, "Yes": true,
		"": false, "0": false, "on": false, "tRUE": false, "yEs": false, "2": false,
	} {
		if got := parsedArgs("k=" + value).GetBool("k"); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
	if parsedArgs("").GetBool("k") {
		t.Error("a missing key is true")
	}
}

func TestArgsSort(t *testing.T) {
	const unsorted = "b=2&a=3&b=1&a&c&A=1&a=1&a="
	a := parsedArgs(unsorted)
	a.Sort(bytes.Compare)
	if got := a.String(); got != "A=1&a&a=&a=1&a=3&b=1&b=2&c" {
		t.Errorf("Sort: %q", got)
	}
	a.Parse(unsorted)
	a.SortKeys(func(x, y []byte) int { return bytes.Compare(y, x) })
	if got := a.String(); got != "c&b=2&b=1&a=3&a&a=1&a=&A=1" {
		t.Errorf("SortKeys: %q", got)
	}
}

func TestArgsIteration(t *testing.T) {
	a := parsedArgs("a=1&b=2&c=3")
	var keys string
	for key := range a.All() {
		keys += string(key)
		if string(key) == "b" {
			break
		}
	}
	a.VisitAll(func(key, value []byte) { keys += string(key) + string(value) })
	if keys != "aba1b2c3" {
		t.Errorf("%q", keys)
	}
	for key := range a.All() {
		a.DelBytes(bytes.Clone(key))
	}
	if a.String() != "b=2" { // the pair after a deleted one takes its place
		t.Errorf("deleted while iterating: %q", a.String())
	}
}

func TestArgsCopiesAreIndependent(t *testing.T) {
	a := parsedArgs("a=1&b")
	b := parsedArgs("old=1&old=2&old=3")
	a.CopyTo(b)
	a.CopyTo(a)
	a.Set("a", "2")
	a.Peek("a")[0] = 'x'
	if got := b.String(); got != "a=1&b" {
		t.Errorf("%q", got)
	}
	if got := a.String(); got != "a=x&b" {
		t.Errorf("copied to itself: %q", got)
	}
}

func TestArgsDoesNotAllocateWhenUsedAgain(t *testing.T) {
	var a, b sluice.Args
	query, key := []byte("name=value&other=some+text%21&flag"), []byte("other")
	work := func() {
		a.ParseBytes(query)
		a.SetBytesKV(key, key)
		a.Add("x", "y")
		a.SetUint("n", 12)
		a.Del("x")
		a.Sort(bytes.Compare)
		a.CopyTo(&b)
		_ = b.QueryString()
		if a.GetUintOrZero("n") != 12 || !a.HasBytes(key) {
			t.Fatal("wrong content")
		}
		for range b.All() {
		}
		a.Reset()
	}
	work()
	if n := testing.AllocsPerRun(100, work); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzArgs checks that writing and parsing are inverse, and that net/url reads
// the same pairs.
func FuzzArgs(f *testing.F) {
	for _, s := range []string{"", "a=b&c", "=&=a", "a+b=%41%zz&&", "\r\n=\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a := parsedArgs(s)
		written := a.String()
		if strings.ContainsAny(written, "\r\n\x00 #?") {
			t.Fatalf("%q is written as %q", s, written)
		}
		again := parsedArgs(written)
		if again.String() != written || again.Len() != a.Len() {
			t.Fatalf("%q: %d pairs %q, again %d pairs %q", s, a.Len(), written, again.Len(), again.String())
		}
		values, err := url.ParseQuery(written)
		if err != nil {
			t.Fatal(err)
		}
		for key := range a.All() {
			for i, value := range a.PeekMultiBytes(key) {
				if values[string(key)][i] != string(value) {
					t.Fatalf("%q: net/url reads %q", written, values)
				}
			}
		}
	})
}

func BenchmarkArgsParse(b *testing.B) {
	var a sluice.Args
	query := []byte("name=value&other=some+text%21&flag&id=12345")
	for b.Loop() {
		a.ParseBytes(query)
	}
}

func BenchmarkArgsPeek(b *testing.B) {
	a := parsedArgs("name=value&other=some+text%21&flag&id=12345")
	for b.Loop() {
		a.Peek("id")
	}
}
