package h1

import (
	"bytes"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
)

func TestAppendFieldValue(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a": "a", " a\t": "a", "a b\tc": "a b\tc", "a\r\nX: 1": "a  X: 1", "\r\n": "", "\x00a\x7f": "a",
		" \r\n a\n ": "a", "a\x00b": "a b", "\x80\xff": "\x80\xff",
	} {
		if got := string(AppendFieldValue([]byte("+"), []byte(in))); got != "+"+want {
			t.Errorf("AppendFieldValue(%q) = %q, want %q", in, got[1:], want)
		}
	}
}

func TestIsTokenAndHasLineBreak(t *testing.T) {
	for s, want := range map[string]bool{"": false, "GET": true, "X-Y": true, "a b": false, "a:": false, "a\x00": false, "ä": false} {
		if IsToken([]byte(s)) != want {
			t.Errorf("IsToken(%q) = %v", s, !want)
		}
	}
	for s, want := range map[string]bool{"": false, "a b\t\x01": false, "\n": true, "a\r": true, "a\x00b": true} {
		if HasLineBreak([]byte(s)) != want {
			t.Errorf("HasLineBreak(%q) = %v", s, !want)
		}
	}
}

// FuzzAppendField: for any value, the parser finds exactly what was appended.
func FuzzAppendField(f *testing.F) {
	f.Add("X-Name", "value")
	f.Add("Host", " a\r\nX: 1\x00")
	f.Add("Content-Length", "\t5")
	f.Fuzz(func(t *testing.T, name, value string) {
		if !IsToken([]byte(name)) || len(name)+len(value) > 1000 {
			t.Skip()
		}
		fit := AppendFieldValue(nil, []byte(value))
		line := AppendField(nil, []byte(name), fit)
		p := HeadParser{Limits: DefaultLimits}
		p.ResetTrailer()
		tab := field.Table{KeepNames: true}
		used, done, err := p.Parse(&tab, append(line, "\r\n"...))
		if err != nil || !done || used != len(line)+2 || tab.Len() != 1 {
			t.Fatalf("%q: used %d, done=%v, %d fields, %v", line, used, done, tab.Len(), err)
		}
		if !bytes.Equal(tab.Name(0), []byte(name)) || !bytes.Equal(tab.Value(0), fit) {
			t.Errorf("%q is read as %q = %q", line, tab.Name(0), tab.Value(0))
		}
		if again := AppendFieldValue(nil, fit); !bytes.Equal(again, fit) {
			t.Errorf("%q becomes %q", fit, again)
		}
	})
}
