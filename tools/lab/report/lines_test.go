package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// checkDrawing checks that a drawing is XML, and that nothing is outside of it.
func checkDrawing(t *testing.T, drawing []byte) {
	t.Helper()
	svg := string(drawing)
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Errorf("something is no number: %s", svg)
	}
	for _, points := range regexp.MustCompile(`points="([^"]*)"`).FindAllStringSubmatch(svg, -1) {
		for _, pair := range strings.Fields(points[1]) {
			x, y, _ := strings.Cut(pair, ",")
			px, _ := strconv.ParseFloat(x, 64)
			py, _ := strconv.ParseFloat(y, 64)
			if px < left || px > width-right || py < top || py > height-bottom {
				t.Errorf("a point is outside: %s", pair)
			}
		}
	}
}

func TestLines(t *testing.T) {
	series := []Series{{"a <b>", []Point{{0, 1}, {5, 50}, {9.7, 1234}}}, {"c", []Point{{0, 0}, {9, 3}}}, {"empty", nil}}
	for _, l := range []Lines{
		{Title: "T & T", X: "x", Y: "y", Series: series},
		{Title: "log", Series: series, LogY: true},
		{Title: "ticks", Series: series, XTicks: []Tick{{0, "none"}, {9, "many"}}},
		{Title: "nothing"},
		{Title: "nothing", LogY: true},
		{Title: "one", Series: []Series{{"p", []Point{{0, 10}}}}, LogY: true},
	} {
		checkDrawing(t, l.SVG())
	}
	svg := string(Lines{Title: "T & T", Series: series}.SVG())
	for _, text := range []string{"T &amp; T", "a &lt;b&gt;", ">1250<", ">0<"} {
		if !strings.Contains(svg, text) {
			t.Errorf("%s is missing in %s", text, svg)
		}
	}
}

func TestRoundTicks(t *testing.T) {
	for to, want := range map[float64]float64{0: 1, 1: 1, 6: 6, 7: 8, 1234: 1250, 1e6: 1e6, 0.3: 0.3} {
		last, ticks := roundTicks(to, 6, nil)
		if math.Abs(last-want) > 1e-9 || last < to-1e-9 || len(ticks) < 4 || len(ticks) > 8 {
			t.Errorf("up to %v: %d ticks, the last is %v, want %v", to, len(ticks), last, want)
		}
	}
}
