package mix

import (
	"fmt"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/latency"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

func document(o options, all []*measurement) report.Document {
	d := report.Document{}
	for _, m := range all {
		d.Sections = append(d.Sections, m.section())
	}
	return d
}

func (m *measurement) section() report.Section {
	s := report.Section{
		Title: fmt.Sprintf("Handlers beside each other with GOMAXPROCS %d", m.procs),
		Head:  []string{"request", "server", "p50 ms", "p99 ms", "max ms", "p50 ÷ perconn", "p99 ÷ perconn", "target", "answered", "errors"},
		Notes: []string{
			fmt.Sprintf("%s computes for %v (%d hashes), %s sleeps for %v. Latencies of all rounds together.", peers.CPUPath, m.compute, m.spins, peers.SleepPath, m.sleep),
			"Ratios are medians of the rounds' ratios, in brackets the lowest and the highest round's. tie: the median is above 1, but not every round.",
		},
	}
	for i, stream := range m.streams() {
		for _, kind := range m.kinds {
			s.Rows = append(s.Rows, m.row(i, stream.path, kind))
		}
	}
	return s
}

func (m *measurement) row(stream int, path, kind string) []string {
	var sum load.Result
	for _, s := range m.samples[kind] {
		sum.Add(s[stream])
	}
	row := []string{path, kind}
	for _, percent := range []float64{50, 99, 100} {
		row = append(row, latency.Milliseconds(sum.Latency.Percentile(percent)))
	}
	ratio50, ratio99, verdict := "-", "-", "-"
	if kind != baseline {
		ratio50 = report.Ratio(m.ratios(stream, kind, 50))
		ratios := m.ratios(stream, kind, 99)
		ratio99 = report.Ratio(ratios)
		if kind == peers.Epoll {
			verdict = report.NotAbove(ratios)
		}
	}
	return append(row, ratio50, ratio99, verdict, fmt.Sprint(sum.Requests), sum.Errors())
}

// ratios divides a percentile by the baseline's, round by round.
func (m *measurement) ratios(stream int, kind string, percent float64) []float64 {
	column := func(kind string) (values []float64) {
		for _, s := range m.samples[kind] {
			values = append(values, float64(s[stream].Latency.Percentile(percent))/float64(time.Millisecond))
		}
		return values
	}
	return report.Ratios(column(kind), column(baseline))
}
