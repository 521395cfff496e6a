package ascii

import (
	"bytes"
	"net/url"
	"strings"
	"testing"
)

func TestEscapeSetsFollowTheGrammar(t *testing.T) {
	for name, rule := range map[string]struct {
		set   escapeSet
		holds func(c byte) bool
	}{
		"arg":    {keepArg, func(c byte) bool { return in(c, unreserved) }},
		"path":   {keepPath, func(c byte) bool { return in(c, unreserved+subDelims+":@/") && !in(c, "!'()*") }},
		"target": {keepTarget, func(c byte) bool { return in(c, unreserved+subDelims) || in(c, genDelims) && c != '#' }},
		"hash":   {keepHash, func(c byte) bool { return c == '#' }},
		"host":   {keepHost, func(c byte) bool { return Is(c, HostChar) || in(c, "%:[]") || c >= 0x80 }},
		"scheme": {keepScheme, func(c byte) bool { return in(c, alpha+digit+"+-.") }},
	} {
		for c := range 256 {
			if got, want := escapes[c]&rule.set != 0, rule.holds(byte(c)); got != want {
				t.Errorf("%s: 0x%02x: %v, want %v", name, c, got, want)
			}
		}
	}
}

func TestEscaping(t *testing.T) {
	const s = "a b/c?d#e%f\r\n\xe9\x00~:"
	for name, test := range map[string]struct {
		got  []byte
		want string
	}{
		"arg":      {AppendArg([]byte("x"), []byte(s)), "xa+b%2Fc%3Fd%23e%25f%0D%0A%E9%00~%3A"},
		"path":     {AppendPath([]byte("x"), []byte(s)), "xa%20b/c%3Fd%23e%25f%0D%0A%E9%00~:"},
		"target":   {AppendTarget([]byte("x"), []byte(s)), "xa%20b/c?d%23e%25f%0D%0A%E9%00~:"},
		"fragment": {AppendFragment([]byte("x"), []byte(s)), "xa%20b/c?d#e%25f%0D%0A%E9%00~:"},
		"host":     {AppendHost([]byte("x"), []byte(s)), "xa%20b%2Fc%3Fd%23e%f%0D%0A\xe9%00~:"},
		"scheme":   {AppendScheme([]byte("x"), []byte(s)), "xa%20b%2Fc%3Fd%23e%25f%0D%0A%E9%00%7E%3A"},
		"nothing":  {AppendArg(nil, nil), ""},
	} {
		if string(test.got) != test.want {
			t.Errorf("%s: %q, want %q", name, test.got, test.want)
		}
	}
}

func TestTargetsAreWrittenAsRFC3986Allows(t *testing.T) {
	for s, want := range map[string]string{
		"/a?b=c":             "/a?b=c",
		"?discount=50%":      "?discount=50%25",
		"?%zz%4":             "?%25zz%254",
		"/%41%zZ%fF?%%41%e9": "/%41%25zZ%fF?%25%41%e9",
		"?q=caf\xc3\xa9":     "?q=caf%C3%A9",
		"?q=\"x\"&a=<b>":     "?q=%22x%22&a=%3Cb%3E",
		"?|^`{}\\":           "?%7C%5E%60%7B%7D%5C",
		"?a[]=1":             "?a[]=1",
		"/a b\x7f\xff#":      "/a%20b%7F%FF%23",
	} {
		if got := string(AppendTarget(nil, []byte(s))); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}

func TestUnescaping(t *testing.T) {
	for s, want := range map[string][2]string{
		"": {"", ""}, "abc": {"abc", "abc"}, "%41": {"A", "A"}, "%4": {"%4", "%4"}, "%": {"%", "%"}, "%zz": {"%zz", "%zz"},
		"a+b": {"a+b", "a b"}, "+%2B": {"++", " +"}, "%%41": {"%A", "%A"}, "%2f%2F": {"//", "//"}, "%00": {"\x00", "\x00"}, "a%4g%41": {"a%4gA", "a%4gA"},
	} {
		if got := string(AppendUnescaped([]byte("x"), []byte(s))); got != "x"+want[0] {
			t.Errorf("AppendUnescaped(%q) = %q", s, got)
		}
		if got := string(AppendUnescapedArg([]byte("x"), []byte(s))); got != "x"+want[1] {
			t.Errorf("AppendUnescapedArg(%q) = %q", s, got)
		}
		inPlace := []byte(s)
		if got := string(AppendUnescapedArg(inPlace[:0], inPlace)); got != want[1] {
			t.Errorf("AppendUnescapedArg(%q) in place = %q", s, got)
		}
	}
}

// FuzzEscape checks that decoding undoes encoding, that nothing forbidden is
// left, and that net/url decodes to the same.
func FuzzEscape(f *testing.F) {
	f.Add([]byte("a b%41\r\n\xff+&="))
	f.Fuzz(func(t *testing.T, s []byte) {
		arg := AppendArg(nil, s)
		if decoded := AppendUnescapedArg(nil, arg); !bytes.Equal(decoded, s) {
			t.Fatalf("argument %q becomes %q", s, decoded)
		}
		if decoded, err := url.QueryUnescape(string(arg)); err != nil || decoded != string(s) {
			t.Fatalf("net/url reads %q as %q, %v", arg, decoded, err)
		}
		path := AppendPath(nil, s)
		if decoded := AppendUnescaped(nil, path); !bytes.Equal(decoded, s) {
			t.Fatalf("path %q becomes %q", s, decoded)
		}
		for _, encoded := range [][]byte{arg, path, AppendTarget(nil, s), AppendFragment(nil, s), AppendHost(nil, s), AppendScheme(nil, s)} {
			if HasCTL(encoded) || bytes.IndexByte(encoded, ' ') >= 0 {
				t.Fatalf("%q becomes %q", s, encoded)
			}
		}
		target := AppendTarget(nil, s)
		if !bytes.Equal(AppendTarget(nil, target), target) {
			t.Fatalf("%q is not stable", target)
		}
		if !bytes.Equal(AppendUnescaped(nil, target), AppendUnescaped(nil, s)) {
			t.Fatalf("target %q becomes %q", s, target)
		}
		if i := outsideTarget(target); i >= 0 {
			t.Fatalf("%q is written as %q: byte %d", s, target, i)
		}
		inPlace := bytes.Clone(s)
		if want := AppendUnescapedArg(nil, s); !bytes.Equal(AppendUnescapedArg(inPlace[:0], inPlace), want) {
			t.Fatalf("%q differs in place", s)
		}
	})
}

// outsideTarget returns the position of the first byte that RFC 3986 does not allow
// in a path or query, or -1.
func outsideTarget(s []byte) int {
	const hex = digit + "ABCDEFabcdef"
	for i, c := range s {
		isEscape := c == '%' && i+2 < len(s) && in(s[i+1], hex) && in(s[i+2], hex)
		if !isEscape && !in(c, unreserved+subDelims+":/?[]@") {
			return i
		}
	}
	return -1
}

func TestEscapingDoesNotAllocate(t *testing.T) {
	s, buf := []byte("key with+some%20escapes"), make([]byte, 0, 256)
	allocations := testing.AllocsPerRun(100, func() {
		buf = AppendArg(buf[:0], s)
		buf = AppendPath(buf[:0], s)
		buf = AppendUnescapedArg(buf[:0], s)
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}

func BenchmarkAppendArg(b *testing.B) {
	s, buf := []byte("a value of some words"), make([]byte, 0, 256)
	for b.Loop() {
		buf = AppendArg(buf[:0], s)
	}
}

func BenchmarkAppendUnescapedArg(b *testing.B) {
	for name, s := range map[string]string{"plain": strings.Repeat("a", 20), "escaped": "a%20value+of%20some"} {
		b.Run(name, func(b *testing.B) {
			buf := make([]byte, 0, 256)
			for b.Loop() {
				buf = AppendUnescapedArg(buf[:0], []byte(s))
			}
		})
	}
}

// TestEscapesAtEachPlace: a byte is kept or escaped wherever it is, as it is alone.
func TestEscapesAtEachPlace(t *testing.T) {
	for c := range 256 {
		if c == '%' { // depends on what follows
			continue
		}
		for i := range 16 {
			s := []byte("/aZ09=_?&;:,.-@(")
			s[i] = byte(c)
			want := []byte("x")
			for j := range s {
				want = appendEscaped(want, s[j:j+1], keepTarget)
			}
			if got := AppendTarget([]byte("x"), s); !bytes.Equal(got, want) {
				t.Errorf("%q: %q, want %q", s, got, want)
			}
		}
	}
}
