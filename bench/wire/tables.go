package main

import (
	"fmt"

	"github.com/sluicehttp/sluice/bench/internal/latency"
	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/report"
	"github.com/sluicehttp/sluice/bench/internal/wrk"
)

// columns are what was measured of one server, round by round.
type columns struct {
	cpu, rate     []float64 // µs per request, requests per second
	p50, p99, max []float64 // µs
	errors        wrk.Errors
}

func columnsOf(samples []sample) (c columns) {
	for _, s := range samples {
		c.cpu = append(c.cpu, float64(s.cpu.Nanoseconds())/1e3/float64(s.Requests))
		c.rate = append(c.rate, float64(s.Requests)/s.Duration.Seconds())
		c.p50 = append(c.p50, float64(s.P50.Microseconds()))
		c.p99 = append(c.p99, float64(s.P99.Microseconds()))
		c.max = append(c.max, float64(s.Max.Microseconds()))
		c.errors = c.errors.Add(s.Errors)
	}
	return c
}

func document(o options) report.Document {
	return report.Document{Command: o.commandLine, Sections: []report.Section{measured(o), compared(o)}}
}

// measured is the table of absolute figures.
func measured(o options) report.Section {
	s := report.Section{
		Title: "Medians of the rounds",
		Head:  []string{"load", "server", "CPU µs/req", "req/s", "÷ fasthttp", "p50 ms", "p99 ms", "÷ fasthttp", "max ms", "errors"},
		Notes: []string{"wrk caps the requests per second. Latencies are wrk's; max is the median of the rounds' maxima."},
	}
	for _, c := range o.cases {
		base := columnsOf(c.samples[baseline])
		for _, kind := range o.kinds {
			m := columnsOf(c.samples[kind])
			s.Rows = append(s.Rows, []string{
				c.name, kind, fmt.Sprintf("%.2f", report.Median(m.cpu)),
				fmt.Sprintf("%.0f", report.Median(m.rate)), fmt.Sprintf("%.2f", report.Median(report.Ratios(m.rate, base.rate))),
				milliseconds(m.p50), milliseconds(m.p99), fmt.Sprintf("%.2f", report.Median(report.Ratios(m.p99, base.p99))),
				milliseconds(m.max), m.errors.String(),
			})
		}
	}
	return s
}

func milliseconds(microseconds []float64) string {
	return latency.Microseconds(report.Median(microseconds))
}

// compared is the table of ratios beside the targets.
func compared(o options) report.Section {
	s := report.Section{
		Title: "CPU time per request ÷ " + baseline,
		Head:  []string{"load", "server", "ratio", "target"},
		Notes: []string{"Medians of the rounds' ratios, in brackets the lowest and the highest round's."},
	}
	for _, c := range o.cases {
		base := columnsOf(c.samples[baseline]).cpu
		for _, kind := range o.kinds {
			if kind == baseline {
				continue
			}
			ratios := report.Ratios(columnsOf(c.samples[kind]).cpu, base)
			s.Rows = append(s.Rows, []string{c.name, kind, report.Ratio(ratios), verdict(ratios, c.targets[kind])})
		}
		perConn, epoll := columnsOf(c.samples[peers.PerConn]).cpu, columnsOf(c.samples[peers.Epoll]).cpu
		if ratios := report.Ratios(epoll, perConn); len(ratios) > 0 {
			s.Rows = append(s.Rows, []string{c.name, "epoll ÷ perconn", report.Ratio(ratios), verdict(ratios, c.mostOfPerConn)})
		}
	}
	return s
}

// verdict says whether the median reaches the target; 0: there is none.
func verdict(ratios []float64, most float64) string {
	if most == 0 {
		return "-"
	}
	return report.Verdict(report.Median(ratios), most, "%.2f")
}
