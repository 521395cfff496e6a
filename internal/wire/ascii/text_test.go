package ascii

import (
	"bytes"
	"html"
	"net/textproto"
	"strconv"
	"strings"
	"testing"
)

func TestCut(t *testing.T) {
	for s, want := range map[string][3]string{"": {"", "", "false"}, "a": {"a", "", "false"}, "a=": {"a", "", "true"}, "=b": {"", "b", "true"}, "a=b=c": {"a", "b=c", "true"}} {
		before, after, found := Cut([]byte(s), '=')
		if got := [3]string{string(before), string(after), strconv.FormatBool(found)}; got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}

func TestAppendLower(t *testing.T) {
	if got := string(AppendLower([]byte("X"), "AZ[@az\xc9")); got != "Xaz[@az\xc9" {
		t.Errorf("%q", got)
	}
	if got := string(AppendLower(nil, []byte("HoSt"))); got != "host" {
		t.Errorf("%q", got)
	}
}

// TestAppendLowerWords has every byte at every place in words of every length.
func TestAppendLowerWords(t *testing.T) {
	for c := range 256 {
		for n := range 20 {
			for i := range n {
				s := bytes.Repeat([]byte{'~'}, n)
				s[i] = byte(c)
				want := bytes.Clone(s)
				want[i] = Lower(byte(c))
				if got := IsLower(s); got != bytes.Equal(s, want) {
					t.Fatalf("IsLower(%q) is %v", s, got)
				}
				if got := AppendLower(nil, s); !bytes.Equal(got, want) {
					t.Fatalf("%q becomes %q", s, got)
				}
			}
		}
	}
	all := make([]byte, 256)
	for c := range all {
		all[c] = byte(c)
	}
	want := bytes.Clone(all)
	for i, c := range want {
		want[i] = Lower(c)
	}
	for from := range 16 {
		if got := AppendLower(nil, all[from:]); !bytes.Equal(got, want[from:]) {
			t.Errorf("from %d: %q", from, got)
		}
	}
}

func TestControlCharacters(t *testing.T) {
	for c := range 256 {
		s := "a" + string([]byte{byte(c)}) + "b"
		isCTL := c < 0x20 || c == 0x7f
		if HasCTL(s) != isCTL || HasCTL([]byte(s)) != isCTL {
			t.Errorf("HasCTL(%q) = %v", s, !isCTL)
		}
		want := s
		if isCTL && c != '\t' {
			want = "a b"
		}
		if got := string(AppendFieldText([]byte("x"), s)); got != "x"+want {
			t.Errorf("AppendFieldText(%q) = %q", s, got)
		}
		blanked, line := want, s
		if c == '\r' || c == '\n' {
			blanked, line = s, want
		}
		if got := string(AppendOneLine([]byte("x"), []byte(s))); got != "x"+line {
			t.Errorf("AppendOneLine(%q) = %q", s, got)
		}
		text := []byte(s)
		if BlankControls(text); string(text) != blanked {
			t.Errorf("BlankControls(%q): %q", s, text)
		}
	}
}

func TestAppendHTMLEscape(t *testing.T) {
	for _, s := range []string{"", "a", "<", "a<b>&\"c'd", "<<", "é<\x00", "&amp;"} {
		if got, want := string(AppendHTMLEscape([]byte("x"), s)), "x"+html.EscapeString(s); got != want {
			t.Errorf("AppendHTMLEscape(%q) = %q, want %q", s, got, want)
		}
	}
}

func TestAppendCanonicalKey(t *testing.T) {
	for key, want := range map[string]string{
		"": "", "host": "Host", "HOST": "Host", "content-type": "Content-Type", "cONTENT-tYPE": "Content-Type", "a--b": "A--B",
		"-a-b-": "-A-B-", "x_y": "X_y", "1a-2b": "1a-2b", "a b": "a b", "X Y": "X Y", "x:y": "x:y", "É-x": "É-x",
		"x\r\nevil: 1": "x  evil: 1", "a\x00b": "a b",
	} {
		if got := string(AppendCanonicalKey([]byte("-"), key)); got != "-"+want {
			t.Errorf("AppendCanonicalKey(%q) = %q, want %q", key, got, want)
		}
	}
}

// FuzzAppendCanonicalKey compares with net/textproto, which canonicalises
// tokens in the same way.
func FuzzAppendCanonicalKey(f *testing.F) {
	f.Add("content-type")
	f.Add("a\r\nb")
	f.Fuzz(func(t *testing.T, key string) {
		got := string(AppendCanonicalKey(nil, key))
		if AllString(key, Token) && got != textproto.CanonicalMIMEHeaderKey(key) {
			t.Fatalf("%q: %q, net/textproto %q", key, got, textproto.CanonicalMIMEHeaderKey(key))
		}
		if strings.ContainsAny(got, "\r\n\x00") || len(got) != len(key) {
			t.Fatalf("%q: %q", key, got)
		}
	})
}

func TestUnsafeConversions(t *testing.T) {
	b := []byte("abc")
	if String(b) != "abc" || String(nil) != "" || string(Bytes("abc")) != "abc" || len(Bytes("")) != 0 {
		t.Error("conversions change the text")
	}
	allocations := testing.AllocsPerRun(100, func() {
		if s := String(b); len(Bytes(s)) != 3 {
			t.Fatal("wrong length")
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}

func TestHasMember(t *testing.T) {
	for list, want := range map[string]bool{
		"": false, "b": true, " B\t": true, "a,b": true, "a, b ,c": true, ",,b": true, "ab": false, "a b": false, "b;q=1": false,
	} {
		if got := HasMember([]byte(list), "b"); got != want {
			t.Errorf("%q: %v", list, got)
		}
	}
}
