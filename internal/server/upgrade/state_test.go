package upgrade

import (
	"strings"
	"testing"
)

// TestState: what was packed comes back. What is cut, or of another protocol, is no State.
func TestState(t *testing.T) {
	for _, s := range []State{{"talk", "bye", []byte("own")}, {"", "", nil}, {strings.Repeat("n", MaxName), strings.Repeat("f", 300), []byte("\x00")}} {
		packed := append(AppendState([]byte("before"), s.Name, s.Farewell), s.Own...)[len("before"):]
		if got, ok := ParseState(packed); !ok || got.Name != s.Name || got.Farewell != s.Farewell || string(got.Own) != string(s.Own) {
			t.Errorf("%+v comes back as %+v, %v", s, got, ok)
		}
		for cut := range len(packed) - len(s.Own) {
			if got, ok := ParseState(packed[:cut]); ok {
				t.Errorf("%d of %d bytes are %+v", cut, len(packed), got)
			}
		}
	}
	for _, in := range []string{"", "\x01ab", "u\x80", "u\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "u\xff\xff\xff\xff\x0fx"} {
		if s, ok := ParseState([]byte(in)); ok {
			t.Errorf("%q is %+v", in, s)
		}
	}
}

// FuzzParseState: whatever comes from another process, it is packed again as it came, but for
// the form of its lengths.
func FuzzParseState(f *testing.F) {
	f.Add(append(AppendState(nil, "talk", "bye"), "own"...))
	f.Add([]byte("u\x01a"))
	f.Fuzz(func(t *testing.T, in []byte) {
		s, ok := ParseState(in)
		if !ok {
			return
		}
		again, ok := ParseState(append(AppendState(nil, s.Name, s.Farewell), s.Own...))
		if !ok || again.Name != s.Name || again.Farewell != s.Farewell || string(again.Own) != string(s.Own) {
			t.Errorf("%+v comes back as %+v, %v", s, again, ok)
		}
	})
}
