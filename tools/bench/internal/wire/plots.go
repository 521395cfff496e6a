package wire

import (
	"slices"

	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// plots draws what was measured.
func plots(m *measurement) []report.Plot {
	all := []report.Plot{
		m.plot("wire-cpu.svg", "Server CPU per request (less is better)", "µs", func(_ *wireCase, _ string, of columns) []float64 { return of.cpu }),
		m.plot("wire-rate.svg", "Requests per second (more is better; the client caps it)", "k/s", func(_ *wireCase, _ string, of columns) []float64 { return scaled(of.rate, 1e-3) }),
		m.plot("wire-p99.svg", "99th percentile of latency at full load (less is better)", "ms", func(_ *wireCase, _ string, of columns) []float64 { return scaled(of.p99, 1e-3) }),
		m.plot("wire-memory.svg", "Resident memory after the rounds (less is better)", "MiB", func(_ *wireCase, _ string, of columns) []float64 { return scaled(of.resident, 1.0/(1<<20)) }),
	}
	if slices.ContainsFunc(m.cases, func(c *wireCase) bool { return c.idle > 0 }) {
		all = append(all, m.plot("wire-idle.svg", "Memory of an idle connection (less is better)", "bytes", func(c *wireCase, kind string, _ columns) []float64 {
			if c.idle == 0 {
				return nil
			}
			return []float64{c.perIdle[kind]}
		}))
	}
	return all
}

func scaled(values []float64, by float64) (out []float64) {
	for _, v := range values {
		out = append(out, v*by)
	}
	return out
}

// plot draws one figure of every case and server. Those that have none are left
// out.
func (m *measurement) plot(file, title, unit string, figure func(*wireCase, string, columns) []float64) report.Plot {
	p := report.Plot{File: file, Title: title, Unit: unit}
	for _, c := range m.cases {
		panel := report.Panel{Title: c.label()}
		for _, kind := range m.kinds {
			if len(c.samples[kind]) == 0 {
				continue
			}
			values := figure(c, kind, columnsOf(c.samples[kind]))
			if len(values) == 0 {
				continue
			}
			panel.Bars = append(panel.Bars, report.Bar{
				Name: kind, Value: report.Median(values), Low: slices.Min(values), High: slices.Max(values), Emphasis: emphasis(kind),
			})
		}
		if len(panel.Bars) > 0 {
			p.Panels = append(p.Panels, panel)
		}
	}
	return p
}

func emphasis(kind string) report.Emphasis {
	switch kind {
	case peers.Epoll, peers.PerConn:
		return report.Ours
	case floorKind:
		return report.Reference
	}
	return report.Others
}
