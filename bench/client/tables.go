package main

import (
	"fmt"
	"strconv"

	"github.com/sluicehttp/sluice/bench/internal/report"
)

// Targets of ours.
const (
	mostOfFastHTTP = 0.80 // ns/op ÷ fasthttp's
	mostAllocs     = 0.05 // per request, in memory
)

func document(o options, cases []*benchCase) report.Document {
	table := report.Section{
		Title: "Clients",
		Head:  []string{"case", "server", "P", "client", "ns/op", "÷ fasthttp", "CPU ns/op", "÷ fasthttp", "B/op", "allocs/op", "time", "allocs"},
		Notes: []string{
			"ns/op is time on the clock, as in Go's benchmarks; CPU time is the process's, server included, and leaves out what other processes take. Medians of the rounds; ratios are medians of the rounds' ratios, in brackets the lowest and the highest round's.",
			"Server: raw is the same for all clients: it counts ends of heads and writes constants. own is that of the client's library, as in fasthttp's README. DoFastServer has none: a connection answers as it is written to.",
			"bytes is no client: it writes a constant and reads to the response's end. No client can be quicker.",
			fmt.Sprintf("Targets of ours: time ≤ %.2f × fasthttp; no allocation per request in memory.", mostOfFastHTTP),
		},
	}
	for _, c := range cases {
		for _, m := range c.makers {
			table.Rows = append(table.Rows, c.row(m.name))
		}
	}
	d := report.Document{Command: o.commandLine, Sections: []report.Section{table}}
	if s := verdicts(cases); s.Rows != nil {
		d.Sections = append(d.Sections, s)
	}
	return d
}

func (c *benchCase) row(contender string) []string {
	ratios := c.ratios(contender)
	server := c.server
	if server == "" {
		server = "-"
	}
	time, allocs := "-", "-"
	if contender == sluiceName {
		time = report.Verdict(report.Median(ratios), mostOfFastHTTP, "%.2f")
		if !c.isTCP {
			allocs = report.Verdict(c.allocs(contender), mostAllocs, "%.2f")
		}
	}
	return []string{
		c.title, server, strconv.Itoa(c.procs), contender,
		c.median(contender, sample.time),
		report.Ratio(ratios),
		c.median(contender, sample.cpu),
		report.Ratio(report.Ratios(c.column(contender, sample.cpu), c.column(fasthttpName, sample.cpu))),
		c.median(contender, sample.size),
		fmt.Sprintf("%.2f", c.allocs(contender)),
		time, allocs,
	}
}

// ratios are the contender's times to fasthttp's.
func (c *benchCase) ratios(contender string) []float64 {
	return report.Ratios(c.column(contender, sample.time), c.column(fasthttpName, sample.time))
}

func (c *benchCase) median(contender string, figure func(sample) float64) string {
	return fmt.Sprintf("%.0f", report.Median(c.column(contender, figure)))
}

func (c *benchCase) allocs(contender string) float64 {
	return report.Median(c.column(contender, func(s sample) float64 { return s.allocs }))
}

// column returns a figure of a contender, round by round.
func (c *benchCase) column(contender string, figure func(sample) float64) (values []float64) {
	for _, s := range c.samples[contender] {
		values = append(values, figure(s))
	}
	return values
}

func (s sample) time() float64 { return s.nanoseconds }
func (s sample) cpu() float64  { return s.cpuNanoseconds }
func (s sample) size() float64 { return s.bytes }

// verdicts sums up how many cases of ours meet the targets.
func verdicts(cases []*benchCase) report.Section {
	var timed, quick, inMemory, frugal int
	for _, c := range cases {
		if len(c.samples[sluiceName]) == 0 {
			continue
		}
		timed++
		if report.Median(c.ratios(sluiceName)) <= mostOfFastHTTP {
			quick++
		}
		if c.isTCP {
			continue
		}
		inMemory++
		if c.allocs(sluiceName) <= mostAllocs {
			frugal++
		}
	}
	if timed == 0 {
		return report.Section{}
	}
	rows := [][]string{{fmt.Sprintf("ns/op ≤ %.2f × fasthttp", mostOfFastHTTP), fmt.Sprintf("%d of %d", quick, timed)}}
	if inMemory > 0 {
		rows = append(rows, []string{"0 allocs/op in memory", fmt.Sprintf("%d of %d", frugal, inMemory)})
	}
	return report.Section{Title: "Targets of ours", Head: []string{"target", "cases that meet it"}, Rows: rows}
}
