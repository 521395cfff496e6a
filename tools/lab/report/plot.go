package report

import (
	"unicode/utf8"

	"fmt"
	"html"
	"math"
	"strings"
)

// A Plot is a picture of bars, in panels that have a scale each.
type Plot struct {
	File   string // its name, in the folder of the report
	Title  string // at the top
	Unit   string // follows each value
	Panels []Panel
	// Format returns a value with its unit; nil: three digits, and Unit.
	Format func(float64) string
}

// A Panel is a group of bars that are compared.
type Panel struct {
	Title string // above the bars
	Bars  []Bar  // from top to bottom
}

// A Bar is a value with the range of the rounds'.
type Bar struct {
	Name             string   // beside it
	Value, Low, High float64  // none below 0
	Emphasis         Emphasis // its colour
}

// An Emphasis says how a bar is drawn.
type Emphasis int

// Kinds of bars.
const (
	Others Emphasis = iota
	Ours
	Reference // a bound, or a figure of somebody else
)

// color returns a bar's colour. It is told apart in print, too.
func (e Emphasis) color() string {
	switch e {
	case Ours:
		return "#1f6feb"
	case Reference:
		return "#b8b8b8"
	default:
		return "#6e7781"
	}
}

// Sizes of a picture, in pixels.
const (
	panelGap   = 24
	thickness  = 16
	barStep    = 20
	leastName  = 92
	barWidth   = 254
	letter     = 7 // the width of one in a name, at most
	valueWidth = 74
	titleSpace = 44
	panelTitle = 24
	perRow     = 2
)

// SVG returns the picture. It has a white ground, so that it can be read on a
// dark page.
func (p Plot) SVG() []byte {
	var body strings.Builder
	y, names, panelWidth := titleSpace, p.nameWidth(), p.nameWidth()+barWidth+valueWidth
	for start := 0; start < len(p.Panels); start += perRow {
		row := p.Panels[start:min(start+perRow, len(p.Panels))]
		tallest := 0
		for i, panel := range row {
			p.draw(&body, panel, panelGap+i*(panelWidth+panelGap), y, names)
			tallest = max(tallest, panelTitle+barStep*len(panel.Bars))
		}
		y += tallest + panelGap
	}
	columns := min(perRow, max(len(p.Panels), 1))
	width := panelGap + columns*(panelWidth+panelGap)
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#1f2328">`+"\n", width, y, width, y)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, y)
	fmt.Fprintf(&out, `<text x="%d" y="27" font-size="15" font-weight="bold">%s</text>`+"\n", panelGap, html.EscapeString(p.Title))
	out.WriteString(body.String())
	out.WriteString("</svg>\n")
	return []byte(out.String())
}

// nameWidth returns the room for the names of bars.
func (p Plot) nameWidth() int {
	longest := 0
	for _, panel := range p.Panels {
		for _, bar := range panel.Bars {
			longest = max(longest, utf8.RuneCountInString(bar.Name))
		}
	}
	return max(leastName, letter*longest)
}

func (p Plot) format(value float64) string {
	if p.Format != nil {
		return p.Format(value)
	}
	return significant(value) + " " + p.Unit
}

// draw draws a panel with its left upper corner at x and y.
func (plot Plot) draw(out *strings.Builder, p Panel, x, y, nameWidth int) {
	fmt.Fprintf(out, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", x, y+14, html.EscapeString(p.Title))
	most := 0.0
	for _, bar := range p.Bars {
		most = max(most, bar.Value, bar.High)
	}
	if most <= 0 {
		most = 1
	}
	at := func(value float64) float64 { return float64(x+nameWidth) + barWidth*max(value, 0)/most }
	for i, bar := range p.Bars {
		top := y + panelTitle + i*barStep
		middle := float64(top) + thickness/2
		fmt.Fprintf(out, `<text x="%d" y="%.0f" text-anchor="end">%s</text>`+"\n", x+nameWidth-6, middle+4, html.EscapeString(bar.Name))
		fmt.Fprintf(out, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", x+nameWidth, top, at(bar.Value)-at(0), thickness, bar.Emphasis.color())
		end := at(bar.Value)
		if bar.High > bar.Low {
			fmt.Fprintf(out, `<path d="M%.1f %.1fH%.1fM%.1f %.1fv8M%.1f %.1fv8" stroke="#1f2328" fill="none"/>`+"\n",
				at(bar.Low), middle, at(bar.High), at(bar.Low), middle-4, at(bar.High), middle-4)
			end = max(end, at(bar.High))
		}
		fmt.Fprintf(out, `<text x="%.1f" y="%.0f">%s</text>`+"\n", end+6, middle+4, html.EscapeString(plot.format(bar.Value)))
	}
}

// significant formats a value with three digits that count.
func significant(value float64) string {
	if value == 0 {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(value))))
	return fmt.Sprintf("%.*f", min(max(digits, 0), 3), value)
}
