package chart

import (
	"fmt"
	"math"
	"strings"
)

// Bars is a plot of horizontal bars, in groups: one for each row.
type Bars struct {
	Title  string
	Series []string // names of the bars of a group
	Rows   []Row
	Format func(float64) string
}

// A Row is a group of bars.
type Row struct {
	Label  string
	Values []float64 // one for each series; NaN: none
}

const (
	barHeight = 16
	rowGap    = 12
	labelRoom = 230 // for the names of rows
	valueRoom = 90  // for the figures behind bars
)

// SVG draws the plot.
func (p Bars) SVG() string {
	most := 0.0
	for _, row := range p.Rows {
		for _, v := range row.Values {
			if !math.IsNaN(v) {
				most = math.Max(most, v)
			}
		}
	}
	if most == 0 {
		most = 1
	}
	legend := 0
	if len(p.Series) > 1 {
		legend = 26
	}
	rowHeight := barHeight*max(len(p.Series), 1) + rowGap
	var b strings.Builder
	begin(&b, p.Title, width, top+legend+rowHeight*len(p.Rows)+rowGap)
	for i, name := range p.Series {
		if legend == 0 {
			break
		}
		x := float64(labelRoom + 170*i)
		fmt.Fprintf(&b, `<rect x="%.1f" y="%d" width="14" height="12" fill="%s"/>`+"\n", x, top-2, colour(i))
		text(&b, x+20, top+9, "start", 12, name)
	}
	for i, row := range p.Rows {
		y := float64(top + legend + i*rowHeight)
		text(&b, labelRoom-10, y+float64(rowHeight-rowGap)/2+4, "end", 12, row.Label)
		for j, v := range row.Values {
			if math.IsNaN(v) {
				continue
			}
			size := v / most * float64(width-labelRoom-valueRoom)
			at := y + float64(barHeight*j)
			fmt.Fprintf(&b, `<rect x="%d" y="%.1f" width="%.1f" height="%d" fill="%s"/>`+"\n", labelRoom, at, math.Max(size, 1), barHeight-3, colour(j))
			text(&b, labelRoom+size+6, at+11, "start", 11, format(p.Format, v))
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}
