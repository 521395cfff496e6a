package report

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDocument(t *testing.T) {
	d := Document{Command: "go run ./x", Sections: []Section{
		{Title: "First", Head: []string{"name", "µs"}, Rows: [][]string{{"a|b", "1000"}, {"longer", "7"}}, Notes: []string{"A note."}},
		{Title: "Second", Head: []string{"c", "d"}, Rows: [][]string{{"e", "f"}}},
	}}
	var out strings.Builder
	folder := t.TempDir()
	name := filepath.Join(folder, "x.md")
	if err := errors.Join(d.Publish(&out), d.PublishFolder(folder, "x")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"command: go run ./x\n", "First\n", "a|b", "  A note.\n", "\nSecond\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	want := "\n```\n\n### First\n\n" +
		"| name   |   µs |\n|--------|-----:|\n| a\\|b   | 1000 |\n| longer |    7 |\n\nA note.\n\n" +
		"### Second\n\n| c   |   d |\n|-----|----:|\n| e   |   f |\n"
	if !strings.HasPrefix(string(text), "```\ncommand: go run ./x\n") || !strings.HasSuffix(string(text), want) {
		t.Errorf("Markdown:\n%s\nwant at its end:\n%s", text, want)
	}
	if err := d.PublishFolder(name, "below a file"); err == nil {
		t.Error("no error from a file that cannot be")
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		value, most float64
		format      string
		want        string
	}{
		{0.78, 0.78, "%.2f", "≤ 0.78 met"},
		{0.79, 0.78, "%.2f", "≤ 0.78 missed"},
		{100, 128, "%.0f B", "≤ 128 B met"},
	} {
		if got := Verdict(c.value, c.most, c.format); got != c.want {
			t.Errorf("Verdict(%v, %v) = %q, want %q", c.value, c.most, got, c.want)
		}
	}
}

func TestNotAbove(t *testing.T) {
	for _, c := range []struct {
		ratios []float64
		want   string
	}{
		{[]float64{0.5, 0.9, 1.5}, "≤ 1 met"},
		{[]float64{0.9, 1.1, 1.2}, "≤ 1 tie"},
		{[]float64{1.01, 1.2}, "≤ 1 missed"},
	} {
		if got := NotAbove(c.ratios); got != c.want {
			t.Errorf("NotAbove(%v) = %q, want %q", c.ratios, got, c.want)
		}
	}
}
