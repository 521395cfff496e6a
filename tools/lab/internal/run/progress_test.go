//go:build linux

package run

import (
	"strings"
	"testing"
)

func TestProgress(t *testing.T) {
	for _, isTerminal := range []bool{true, false} {
		var out strings.Builder
		p := NewProgress(&out, isTerminal)
		p.Phase("connections", 100)
		p.Set(50, "7/s")
		p.Set(100, "")
		p.Phase("ending", 0)
		p.Set(1, "")
		p.Close()
		for _, name := range []string{"connections", "ending"} {
			if !strings.Contains(out.String(), name) {
				t.Errorf("terminal %v: %s is missing in %q", isTerminal, name, out.String())
			}
		}
		if strings.Contains(out.String(), "7/s") != isTerminal { // lines come seldom
			t.Errorf("terminal %v: %q", isTerminal, out.String())
		}
	}
}

// TestDescription: a line that is wider than the terminal would not be overwritten.
func TestDescription(t *testing.T) {
	for _, c := range []struct {
		name, note  string
		width, wide int
	}{{"load", "7 requests/s", 0, 53}, {"load", "7 requests/s", 200, 53}, {"load", "7 requests/s", 40, 40 - barWidth}, {"load", "", 3, 0}} {
		text := description(c.name, c.note, c.width)
		if len(text) != c.wide || !strings.HasPrefix("load         7 requests/s", text[:min(len(text), 20)]) {
			t.Errorf("%+v: %q", c, text)
		}
	}
}

func TestTail(t *testing.T) {
	var end tail
	for range 1000 {
		if _, err := end.Write([]byte("line\n")); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = end.Write([]byte("last\n"))
	if s := end.String(); len(s) > tailSize || !strings.HasSuffix(s, "line\nlast") {
		t.Errorf("%d bytes are kept: %q", len(s), s)
	}
}
