package report

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func testPlot() Plot {
	return Plot{File: "p.svg", Title: "a < b", Unit: "µs", Panels: []Panel{
		{Title: "first", Bars: []Bar{{Name: "ours & others", Value: 5, Low: 4, High: 10, Emphasis: Ours}, {Name: "none"}}},
		{Title: "second", Bars: []Bar{{Name: "x", Value: 0.001234}}},
		{Title: "third"},
	}}
}

func TestSVG(t *testing.T) {
	svg := string(testPlot().SVG())
	for decoder := xml.NewDecoder(strings.NewReader(svg)); ; {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	// The longest range fills the space, and a bar has its part of it.
	for _, want := range []string{"a &lt; b", "ours &amp; others", "5.00 µs", "0.001 µs", `width="127.0"`, "first", "third", "#1f6feb"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in\n%s", want, svg)
		}
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Errorf("no numbers in\n%s", svg)
	}
}

func TestSignificant(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 1234: "1234", 12.345: "12.3", 1.2345: "1.23", 0.12345: "0.123", 0.01: "0.010"} {
		if got := significant(value); got != want {
			t.Errorf("%v: %q, want %q", value, got, want)
		}
	}
}

func TestPublishFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new")
	d := Document{Title: "Title", Command: "c", Sections: []Section{{Title: "s", Head: []string{"a"}, Plots: []Plot{testPlot()}}}}
	if err := d.PublishFolder(folder, "name"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "name.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# Title\n", "command: c\n", "### s\n", "![a < b](p.svg)\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if svg, err := os.ReadFile(filepath.Join(folder, "p.svg")); err != nil || !strings.HasPrefix(string(svg), "<svg ") {
		t.Errorf("%q, %v", svg, err)
	}
}
