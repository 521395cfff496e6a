package prefork

import (
	"fmt"
	"strings"

	"github.com/sluicehttp/sluice/tools/bench/internal/latency"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// target is the most that sluice's CPU time per request with several processes
// may be, divided by that with one.
const target = 1.10

// columns are what was measured of one server, round by round.
type columns struct {
	cpu, sysmon   []float64 // µs per request
	waited        []float64 // µs per request
	slept, ousted []float64 // per request
	busiest       []float64
	rate          []float64 // requests per second
	p50, p99      []float64 // µs
}

func columnsOf(samples []sample) (c columns) {
	for _, s := range samples {
		n := float64(s.Requests)
		c.cpu = append(c.cpu, float64(s.cpu.Nanoseconds())/1e3/n)
		c.sysmon = append(c.sysmon, float64(s.sysmon.Nanoseconds())/1e3/n)
		c.waited = append(c.waited, float64(s.waited.Nanoseconds())/1e3/n)
		c.slept = append(c.slept, float64(s.slept)/n)
		c.ousted = append(c.ousted, float64(s.ousted)/n)
		c.busiest = append(c.busiest, s.busiest)
		c.rate = append(c.rate, s.Rate())
		c.p50 = append(c.p50, float64(s.Latency.Percentile(50).Microseconds()))
		c.p99 = append(c.p99, float64(s.Latency.Percentile(99).Microseconds()))
	}
	return c
}

func (m *measurement) document() report.Document {
	d := report.Document{Sections: []report.Section{m.compared(), m.measured()}}
	if len(m.calls) > 0 {
		d.Sections = append(d.Sections, m.counted())
	}
	return d
}

// compared is the table of ratios.
func (m *measurement) compared() report.Section {
	s := report.Section{
		Title: "CPU time per request ÷ the same server as one process that uses all CPUs",
		Head:  []string{"load", "server", "ratio", "target"},
		Notes: []string{fmt.Sprintf("%d processes. Medians of the rounds' ratios, in brackets the lowest and the highest round's.", m.workers)},
	}
	for _, c := range m.cases {
		for _, v := range m.variants {
			if v.base == "" {
				continue
			}
			ratios := report.Ratios(columnsOf(m.samples[c.name][v.name]).cpu, columnsOf(m.samples[c.name][v.base]).cpu)
			verdict := "-"
			if v.Prefork && v.Kind != peers.FastHTTP {
				verdict = report.Verdict(report.Median(ratios), target, "%.2f")
			}
			s.Rows = append(s.Rows, []string{c.name, v.name, report.Ratio(ratios), verdict})
		}
	}
	return s
}

// measured is the table of absolute figures.
func (m *measurement) measured() report.Section {
	s := report.Section{
		Title: "Medians of the rounds, all processes of a server together",
		Head:  []string{"load", "server", "CPU µs/req", "sysmon µs/req", "sleeps/req", "ousted/req", "waits µs/req", "busiest", "req/s", "p50 ms", "p99 ms"},
		Notes: []string{
			"sysmon: Go's monitor thread, a part of CPU. sleeps: threads that gave up their CPU because they had nothing to do. ousted: they had to. waits: ready to run, without a CPU. " +
				"busiest: the part of the CPU time that the busiest process had.",
		},
	}
	for _, c := range m.cases {
		for _, v := range m.variants {
			of := columnsOf(m.samples[c.name][v.name])
			s.Rows = append(s.Rows, []string{
				c.name, v.name, fmt.Sprintf("%.2f", report.Median(of.cpu)), fmt.Sprintf("%.2f", report.Median(of.sysmon)), fmt.Sprintf("%.3f", report.Median(of.slept)),
				fmt.Sprintf("%.3f", report.Median(of.ousted)), fmt.Sprintf("%.1f", report.Median(of.waited)),
				fmt.Sprintf("%.0f %%", 100*report.Median(of.busiest)), fmt.Sprintf("%.0f", report.Median(of.rate)),
				latency.Microseconds(report.Median(of.p50)), latency.Microseconds(report.Median(of.p99)),
			})
		}
	}
	return s
}

// counted is the table of system calls.
func (m *measurement) counted() report.Section {
	s := report.Section{
		Title: "Per request, in a round of its own",
		Head:  []string{"load", "server"},
		Notes: []string{"Counted by perf in all threads of all processes."},
	}
	for _, event := range events() {
		name := event[strings.Index(event, ":")+1:]
		if name == "sys_enter" {
			name = "system calls"
		}
		s.Head = append(s.Head, strings.TrimPrefix(name, "sys_enter_"))
	}
	for _, c := range m.cases {
		for _, v := range m.variants {
			row := []string{c.name, v.name}
			for _, event := range events() {
				row = append(row, fmt.Sprintf("%.3f", m.calls[c.name][v.name][event]))
			}
			s.Rows = append(s.Rows, row)
		}
	}
	return s
}
