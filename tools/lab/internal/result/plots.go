package result

import (
	"fmt"
	"math"
	"sort"
	"strings"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/report"
)

// The names of plots.
const (
	latencyPlot    = "latency.svg"
	memoryPlot     = "memory.svg"
	throughputPlot = "throughput.svg"
	comparedPlot   = "latencies.svg"
	perConnPlot    = "memory-per-connection.svg"
	broadcastPlot  = "broadcast.svg"
)

// plots draws what one run has measured.
func (r *Result) plots() map[string][]byte {
	all := map[string][]byte{memoryPlot: r.memoryChart().SVG()}
	if len(r.Load.Latency.Curve) > 0 {
		all[latencyPlot] = curves("Latency: "+r.Scenario.Name, []string{r.Scenario.Name}, []*Result{r}).SVG()
	}
	if len(r.Broadcasts) > 0 {
		all[broadcastPlot] = r.broadcastChart().SVG()
	}
	return all
}

// plotLinks shows the plots in Markdown.
func (r *Result) plotLinks() string {
	links := fmt.Sprintf("\n![Memory against connections](%s)\n", memoryPlot)
	if len(r.Load.Latency.Curve) > 0 {
		links += fmt.Sprintf("\n![Latency by percentile](%s)\n", latencyPlot)
	}
	if len(r.Broadcasts) > 0 {
		links += fmt.Sprintf("\n![WebSockets that broadcasts have reached](%s)\n", broadcastPlot)
	}
	return links
}

// memoryChart is memory against connections, while they were being made.
func (r *Result) memoryChart() report.Lines {
	c := report.Lines{
		Title: fmt.Sprintf("Memory: %s", r.Scenario.Name),
		X:     "connections", Y: "memory",
		FormatX: func(v float64) string { return Count(v) }, FormatY: Bytes,
	}
	before := r.Memory.Before
	for _, kind := range []struct {
		name string
		of   func(*MemorySample) float64
	}{
		{"kernel, both ends (growth)", func(s *MemorySample) float64 {
			return float64(grown(before.Slab, s.Slab) + grown(before.SockBuffer, s.SockBuffer))
		}},
		{"server processes (anonymous)", func(s *MemorySample) float64 { return float64(s.Server.Anon) }},
		{"client processes (anonymous)", func(s *MemorySample) float64 { return float64(s.Client.Anon) }},
	} {
		series := report.Series{Name: kind.name}
		for _, s := range append([]MemorySample{before}, r.Memory.Growing...) {
			series.Points = append(series.Points, report.Point{X: float64(s.Connections), Y: kind.of(&s)})
		}
		sort.SliceStable(series.Points, func(i, j int) bool { return series.Points[i].X < series.Points[j].X })
		c.Series = append(c.Series, series)
	}
	return c
}

// broadcastChart is how many WebSockets a broadcast has reached against the time since its
// order.
func (r *Result) broadcastChart() report.Lines {
	c := report.Lines{
		Title: fmt.Sprintf("Broadcasts: %s", r.Scenario.Name), X: "time since the order", Y: "WebSockets reached",
		FormatX: func(v float64) string { return Span(time.Duration(v)) }, FormatY: func(v float64) string { return Count(v) },
	}
	for i, b := range r.Broadcasts {
		s := report.Series{Name: fmt.Sprintf("broadcast %d", i+1)}
		for _, p := range b.Latency.Curve {
			s.Points = append(s.Points, report.Point{X: float64(p.Latency), Y: p.Percentile / 100 * float64(b.Received)})
		}
		c.Series = append(c.Series, s)
	}
	return c
}

// curves is latency against percentiles. The scale is that of the distance to
// 100 %, so that tails can be seen.
func curves(title string, labels []string, results []*Result) report.Lines {
	c := report.Lines{Title: title, X: "percentile", Y: "latency", LogY: true, FormatY: func(v float64) string { return Span(time.Duration(v)) }}
	last := 1.0
	for i, r := range results {
		if len(r.Load.Latency.Curve) == 0 {
			continue
		}
		s := report.Series{Name: labels[i]}
		for _, p := range r.Load.Latency.Curve {
			if p.Percentile < 100 {
				x := nines(p.Percentile)
				last = math.Max(last, x)
				s.Points = append(s.Points, report.Point{X: x, Y: float64(p.Latency)})
			}
		}
		c.Series = append(c.Series, s)
	}
	for i := 0; i <= int(last); i++ {
		percentile := 100 - 100*math.Pow(10, -float64(i))
		c.XTicks = append(c.XTicks, report.Tick{At: float64(i), Label: fmt.Sprintf("%.6g %%", percentile)})
	}
	return c
}

// nines returns how many nines a percentile has: 1 for 90, 2 for 99.
func nines(percentile float64) float64 { return -math.Log10(1 - percentile/100) }

// comparisonPlots draws several runs together.
func comparisonPlots(results []*Result) map[string][]byte {
	title := ""
	if n, same := sameConnections(results); same {
		title = fmt.Sprintf(", %s connections", Count(n))
	}
	labels := labelsOf(results)
	perSec := report.Plot{Title: "Requests per second" + title, Format: func(v float64) string { return Count(v) }, Panels: make([]report.Panel, 1)}
	latency := report.Plot{Title: "Latency" + title, Format: func(v float64) string { return Span(time.Duration(v)) }, Panels: []report.Panel{{Title: "p50"}, {Title: "p99"}}}
	memory := report.Plot{Title: "Memory per connection" + title, Format: Bytes, Panels: []report.Panel{{Title: "servers (Pss)"}, {Title: "kernel, both ends"}}}
	for i, r := range results {
		bar := func(p *report.Panel, value float64) {
			if !math.IsNaN(value) {
				p.Bars = append(p.Bars, report.Bar{Name: labels[i], Value: value})
			}
		}
		bar(&perSec.Panels[0], r.Load.PerSec)
		if r.hasLatency() {
			bar(&latency.Panels[0], float64(r.Load.Latency.P50))
			bar(&latency.Panels[1], float64(r.Load.Latency.P99))
		}
		bar(&memory.Panels[0], r.PerConn(r.Memory.Worked.Server.Proportional))
		bar(&memory.Panels[1], r.KernelPerConn())
	}
	return map[string][]byte{
		throughputPlot: perSec.SVG(), comparedPlot: latency.SVG(), perConnPlot: memory.SVG(),
		latencyPlot: curves("Latency by percentile"+title, labels, results).SVG(),
	}
}

// labelsOf returns what results are called beside each other: the scenario and what tells
// those of one scenario apart.
func labelsOf(results []*Result) []string {
	_, same := sameConnections(results)
	runs := make(map[string]int) // of a scenario
	for _, r := range results {
		runs[r.Scenario.Name]++
	}
	labels, seen := make([]string, len(results)), make(map[string]int)
	for i, r := range results {
		label := r.Scenario.Name
		if !same {
			label += ", " + Count(r.Memory.After.Connections)
		}
		if runs[r.Scenario.Name] > 1 {
			mode, _, _ := strings.Cut(r.modeText(), ",")
			label += ", " + mode
		}
		if seen[label]++; seen[label] > 1 {
			label += fmt.Sprintf(" (%d)", seen[label])
		}
		labels[i] = label
	}
	return labels
}

// sameConnections reports whether all runs had as many connections, and how many.
func sameConnections(results []*Result) (n int, same bool) {
	for _, r := range results {
		if n != 0 && r.Memory.After.Connections != n {
			return 0, false
		}
		n = r.Memory.After.Connections
	}
	return n, true
}

// SaveComparison writes the table and plots of several runs to a folder.
func SaveComparison(folder string, results []*Result) error {
	files := comparisonPlots(results)
	var links strings.Builder
	for _, name := range []string{throughputPlot, comparedPlot, latencyPlot, perConnPlot} {
		fmt.Fprintf(&links, "\n![](%s)\n", name)
	}
	files[reportName] = []byte(Compare(results) + links.String())
	return saveAll(folder, files)
}
