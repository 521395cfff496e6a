package files

import (
	"errors"
	"fmt"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/latency"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// targetOf returns the most that the CPU time per request of a server, divided
// by nginx's, may be for a file of a size; 0: there is no target.
func targetOf(kind string, size command.Size) float64 {
	switch {
	case kind != peers.Epoll: // the engine that sluice chooses where it can
		return 0
	case size == command.KiB:
		return 1
	case size == command.MiB:
		return 1.2
	}
	return 0
}

// columns are what was measured of one server with one file, round by round.
type columns struct {
	cpu, rate []float64 // µs per request, requests per second
	p50, p99  []float64 // µs
	all       load.Result
}

func (m *measurement) columns(kind string, size command.Size) (c columns) {
	for _, s := range m.samples[pair{size, kind}] {
		c.cpu = append(c.cpu, float64(s.cpu.Nanoseconds())/1e3/float64(s.Requests))
		c.rate = append(c.rate, s.Rate())
		c.p50 = append(c.p50, float64(s.Latency.Percentile(50).Microseconds()))
		c.p99 = append(c.p99, float64(s.Latency.Percentile(99).Microseconds()))
		c.all.Add(s.Result)
	}
	return c
}

// measured is the table of absolute figures.
func (m *measurement) measured() report.Section {
	s := report.Section{
		Title: fmt.Sprintf("Static files over %d keep-alive connections, medians of the rounds", m.options.conns),
		Head:  []string{"file", "server", "CPU µs/req", "req/s", "÷ nginx", "MiB/s", "p50 ms", "p99 ms", "errors"},
		Notes: []string{"CPU is the server's, with its children. The client caps the requests per second."},
	}
	for _, f := range m.files {
		base := m.columns(baseline, f.size)
		for _, kind := range m.options.kinds {
			c := m.columns(kind, f.size)
			rate := report.Median(c.rate)
			s.Rows = append(s.Rows, []string{
				f.size.String(), kind, fmt.Sprintf("%.2f", report.Median(c.cpu)),
				fmt.Sprintf("%.0f", rate), fmt.Sprintf("%.2f", report.Median(report.Ratios(c.rate, base.rate))),
				fmt.Sprintf("%.0f", rate*float64(f.size)/float64(command.MiB)),
				latency.Microseconds(report.Median(c.p50)), latency.Microseconds(report.Median(c.p99)), c.all.Errors(),
			})
		}
	}
	return s
}

// compared is the table of ratios beside the targets.
func (m *measurement) compared() report.Section {
	s := report.Section{
		Title: "CPU time per request ÷ nginx",
		Head:  []string{"file", "server", "÷ nginx", "target", "÷ nginx-cache"},
		Notes: []string{"Medians of the rounds' ratios, in brackets the lowest and the highest round's. nginx-cache is nginx with open_file_cache, which is off by default."},
	}
	for _, f := range m.files {
		base, cached := m.columns(baseline, f.size).cpu, m.columns(nginxCache, f.size).cpu
		for _, kind := range m.options.kinds {
			if kind == baseline {
				continue
			}
			cpu := m.columns(kind, f.size).cpu
			ratios := report.Ratios(cpu, base)
			s.Rows = append(s.Rows, []string{
				f.size.String(), kind, report.Ratio(ratios), verdict(ratios, targetOf(kind, f.size)), report.Ratio(report.Ratios(cpu, cached)),
			})
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

// answered is the table of what the servers' answers have.
func (m *measurement) answered() report.Section {
	s := report.Section{
		Title: "What is answered",
		Head:  []string{"server", "header fields"},
		Notes: []string{"All answers have been checked: status 200, the file's bytes, Content-Length, Last-Modified, Accept-Ranges, no Content-Encoding."},
	}
	for _, kind := range m.options.kinds {
		s.Rows = append(s.Rows, []string{kind, m.fields[kind]})
	}
	return s
}

// failure is what makes the command fail: answers that were none, and targets
// that were missed.
func (m *measurement) failure() error {
	var errs []error
	for _, f := range m.files {
		base := m.columns(baseline, f.size).cpu
		for _, kind := range m.options.kinds {
			c := m.columns(kind, f.size)
			if c.all.Failures > 0 {
				errs = append(errs, fmt.Errorf("%s, %s: errors: %s", kind, f.size, c.all.Errors()))
			}
			most, ratio := targetOf(kind, f.size), report.Median(report.Ratios(c.cpu, base))
			if most > 0 && ratio > most {
				errs = append(errs, fmt.Errorf("%s, %s: %.2f × nginx's CPU time per request, want at most %.2f", kind, f.size, ratio, most))
			}
		}
	}
	return errors.Join(errs...)
}
