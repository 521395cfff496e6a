package report

import (
	"fmt"
	"math"
	"strings"
)

const (
	width  = 760
	height = 420
	// The frame of the data.
	left, right, top, bottom = 84, 24, 48, 60
	// legendRoom is what many series take beside the frame; few fit into it.
	legendRoom, fewSeries = 240, 4
	font                  = "system-ui, sans-serif"
	ink, faint            = "#24292f", "#d0d7de"
)

// colours tell series apart, for those who see colours otherwise, too.
func colour(i int) string {
	all := [...]string{"#0969da", "#bc4c00", "#1a7f37", "#8250df", "#9a6700", "#57606a"}
	return all[i%len(all)]
}

// dashes tell those apart that have one colour.
func dashes(i int) string {
	all := [...]string{"", "7 4", "2 3"}
	return all[i/6%len(all)]
}

// A Series is a line.
type Series struct {
	Name   string  // for the legend
	Points []Point // in the order of X
}

// A Point is a place in a plot.
type Point struct {
	X, Y float64 // in the units of the axes
}

// A Tick is a mark of an axis.
type Tick struct {
	At    float64 // on the axis
	Label string  // below it
}

// Lines is a plot of lines. X and Y begin at 0 unless a scale is logarithmic.
type Lines struct {
	Title, X, Y      string   // of the plot and of its axes
	Series           []Series // in the order of the legend
	XTicks           []Tick   // nil: round numbers
	FormatX, FormatY func(float64) string
	LogY             bool
}

// SVG draws the plot.
func (l Lines) SVG() []byte {
	var b strings.Builder
	legend, whole := float64(left+12), width
	if len(l.Series) > fewSeries {
		legend, whole = width, width+legendRoom
	}
	begin(&b, l.Title, whole, height)
	x, y := l.axes()
	for _, t := range x.ticks {
		at := x.place(t.At)
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s"/>`+"\n", at, top, at, height-bottom, faint)
		text(&b, at, height-bottom+18, "middle", 12, t.Label)
	}
	for _, t := range y.ticks {
		at := y.place(t.At)
		fmt.Fprintf(&b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="%s"/>`+"\n", left, at, width-right, at, faint)
		text(&b, left-8, at+4, "end", 12, t.Label)
	}
	text(&b, (left+width-right)/2, height-16, "middle", 13, l.X)
	fmt.Fprintf(&b, `<text x="20" y="%d" font-size="13" text-anchor="middle" fill="%s" transform="rotate(-90 20 %d)">%s</text>`+"\n",
		(top+height-bottom)/2, ink, (top+height-bottom)/2, escaped(l.Y))
	for i, s := range l.Series {
		style := fmt.Sprintf(`stroke="%s" stroke-dasharray="%s"`, colour(i), dashes(i))
		b.WriteString(`<polyline fill="none" ` + style + ` stroke-width="2" points="`)
		for j, p := range s.Points {
			if j > 0 {
				b.WriteByte(' ')
			}
			fmt.Fprintf(&b, "%.1f,%.1f", x.place(p.X), y.place(p.Y))
		}
		b.WriteString(`"/>` + "\n")
		at := float64(top + 16 + 18*i)
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s stroke-width="3"/>`+"\n", legend, at-4, legend+24, at-4, style)
		text(&b, legend+32, at, "start", 12, s.Name)
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// axes returns the scales that hold all points.
func (l Lines) axes() (x, y axis) {
	x = axis{from: 0, first: left, last: width - right}
	y = axis{from: 0, first: height - bottom, last: top, isLog: l.LogY}
	lowest := math.Inf(1)
	for _, s := range l.Series {
		for _, p := range s.Points {
			x.to, y.to = math.Max(x.to, p.X), math.Max(y.to, p.Y)
			if p.Y > 0 {
				lowest = math.Min(lowest, p.Y)
			}
		}
	}
	if l.LogY && !math.IsInf(lowest, 0) {
		y.from = math.Pow(10, math.Floor(math.Log10(lowest)))
		y.to = math.Pow(10, math.Ceil(math.Log10(math.Max(y.to, lowest*1.01))))
		for at := y.from; at <= y.to*1.01; at *= 10 {
			y.ticks = append(y.ticks, Tick{at, format(l.FormatY, at)})
		}
	} else {
		y.isLog = false
		y.to, y.ticks = roundTicks(y.to, 6, l.FormatY)
	}
	if x.ticks = l.XTicks; x.ticks == nil {
		x.to, x.ticks = roundTicks(x.to, 6, l.FormatX)
	}
	return x, y
}

// An axis maps values to places.
type axis struct {
	from, to    float64 // values
	first, last float64 // places
	isLog       bool
	ticks       []Tick
}

func (a axis) place(v float64) float64 {
	from, to := a.from, a.to
	if a.isLog {
		from, to, v = math.Log10(from), math.Log10(to), math.Log10(math.Max(v, a.from))
	}
	if to <= from {
		return a.first
	}
	return a.first + (v-from)/(to-from)*(a.last-a.first)
}

// roundTicks returns about n marks at round numbers from 0 on, and the last of
// them, which is not below to.
func roundTicks(to float64, n int, formatted func(float64) string) (last float64, ticks []Tick) {
	if to <= 0 {
		to = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(to/float64(n))))
	for _, factor := range []float64{1, 2, 2.5, 5, 10} {
		if to/(step*factor) <= float64(n) {
			step *= factor
			break
		}
	}
	for i := 0; ; i++ {
		at := float64(i) * step
		ticks = append(ticks, Tick{at, format(formatted, at)})
		if at >= to {
			return at, ticks
		}
	}
}

func format(f func(float64) string, v float64) string {
	if f == nil {
		return fmt.Sprint(v)
	}
	return f(v)
}

// begin writes the head of a drawing.
func begin(b *strings.Builder, title string, width, height int) {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="%s" role="img">`+"\n", width, height, width, height, font)
	fmt.Fprintf(b, "<title>%s</title>\n", escaped(title))
	fmt.Fprintf(b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	text(b, float64(width)/2, 26, "middle", 16, title)
}

// text writes a text at a place.
func text(b *strings.Builder, x, y float64, anchor string, size int, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" font-size="%d" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, size, anchor, ink, escaped(s))
}

func escaped(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
