package seeds

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/latency"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/bench/internal/prefork"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// A sample is one load of one server.
type sample struct {
	load.Result
	cpu time.Duration // of all processes of the server
}

// A subject is a server in one of its forms, with what was measured of it.
type subject struct {
	kind    string // of package peers
	prefork bool

	*prefork.Server
	samples []sample
}

func (s *subject) name() string {
	if s.prefork {
		return s.kind + " prefork"
	}
	return s.kind
}

// A handler is what the prefork servers run.
type handler struct {
	name, title, file string
	sleep             time.Duration
}

// handlers returns both readings of the published test, see publishedPrefork.
func handlers() []handler {
	return []handler{
		{"plain handler", "Prefork over the wire: a plain handler", "seeds-prefork.svg", 0},
		{"handler sleeps 100 ms", "Prefork over the wire: a handler that sleeps for 100 ms", "seeds-prefork-sleep.svg", 100 * time.Millisecond},
	}
}

// preforks repeats the test of the prefork packages' README.
func preforks(ctx context.Context, o Options) (sections []report.Section, err error) {
	if err := command.Require(); err != nil {
		return nil, err
	}
	for _, h := range handlers() {
		if !slices.Contains(o.of(preforkPart), h.name) {
			continue
		}
		subjects, err := measurePrefork(ctx, o, h.sleep)
		if err != nil {
			return nil, err
		}
		sections = append(sections, preforkSection(h, subjects, o))
	}
	return sections, nil
}

func preforkHead() []string {
	return []string{"server", "req/s", "prefork ÷ one process", "p50 ms", "p99 ms", "÷ one process", "CPU µs/req", "÷ one process", "errors"}
}

// measurePrefork runs the rounds of one handler.
func measurePrefork(ctx context.Context, o Options, sleep time.Duration) (subjects []*subject, err error) {
	defer func() {
		for _, s := range subjects {
			if s.Server != nil {
				err = errors.Join(err, s.Stop())
			}
		}
	}()
	for _, kind := range Kinds() {
		if !slices.Contains(o.Kinds, kind) {
			continue
		}
		for _, many := range []bool{false, true} {
			s := &subject{kind: kind, prefork: many}
			subjects = append(subjects, s)
			if s.Server, err = prefork.Start(ctx, prefork.Options{Kind: kind, Prefork: many, Sleep: sleep, Workers: runtime.NumCPU()}); err != nil {
				return subjects, fmt.Errorf("%s: %w", s.name(), err)
			}
		}
	}
	generator, err := load.Start(ctx, process.Options{CPU: process.AnyCPU})
	if err != nil {
		return subjects, err
	}
	defer func() { err = errors.Join(err, generator.Stop()) }()
	var names []string
	for _, s := range subjects {
		names = append(names, s.name())
	}
	samples, err := command.Rounds(fmt.Sprintf("prefork, handler sleeps %v", sleep), o.Rounds, names, func(i int, _ bool) (sample, error) {
		return subjects[i].turn(generator, o.Duration)
	})
	for _, s := range subjects {
		s.samples = samples[s.name()]
	}
	return subjects, err
}

// preforkFields are the README's, besides the usual ones.
const preforkFields = "Connection: keep-alive\r\n"

// turn puts on the README's load, which was wrk's, but for the time.
func (s *subject) turn(generator *load.Generator, duration time.Duration) (got sample, err error) {
	l := load.Load{Addr: s.Addr, Conns: 512, Threads: 4, Duration: duration, Request: load.Get(peers.Target, preforkFields)}
	result, before, after, err := load.Measure(generator, l, s.TreeCPU)
	return sample{result, after - before}, err
}

// column returns a figure, round by round.
func (s *subject) column(figure func(sample) float64) (values []float64) {
	for _, one := range s.samples {
		values = append(values, figure(one))
	}
	return values
}

func rateOf(s sample) float64 { return s.Rate() }
func cpuOf(s sample) float64 {
	return float64(s.cpu.Nanoseconds()) / 1e3 / float64(s.Requests)
}
func p50Of(s sample) float64 { return float64(s.Latency.Percentile(50).Microseconds()) }
func p99Of(s sample) float64 { return float64(s.Latency.Percentile(99).Microseconds()) }

// preforkSection is the table of one handler. Subjects come in pairs: one
// process, several processes.
func preforkSection(h handler, subjects []*subject, o Options) report.Section {
	s := report.Section{
		Title: h.title,
		Head:  preforkHead(),
		Notes: []string{
			fmt.Sprintf("512 connections on 4 threads, as the README has it of wrk, rounds of %v for each server: %d, after one to warm up. Server and load share %d CPUs. CPU is that of all processes of a server.", o.Duration, o.Rounds, runtime.NumCPU()),
		},
	}
	isPlain := h.sleep == 0
	if isPlain {
		s.Notes = append(s.Notes, publishedPrefork)
	}
	rate := report.Panel{Title: "Thousands of requests per second (more is better)"}
	p99 := report.Panel{Title: "99th percentile, ms (less is better)"}
	for i, one := range subjects {
		base := subjects[i-i%2]
		var all load.Result
		for _, got := range one.samples {
			all.Add(got.Result)
		}
		s.Rows = append(s.Rows, []string{
			one.name(), fmt.Sprintf("%.0f", report.Median(one.column(rateOf))), one.against(base, rateOf),
			latency.Microseconds(report.Median(one.column(p50Of))), latency.Microseconds(report.Median(one.column(p99Of))), one.against(base, p99Of),
			fmt.Sprintf("%.2f", report.Median(one.column(cpuOf))), one.against(base, cpuOf), all.Errors(),
		})
		emphasis := report.Others
		if one.kind != peers.FastHTTP {
			emphasis = report.Ours
		}
		rate.Bars = append(rate.Bars, report.Bar{Name: short(one), Value: report.Median(one.column(rateOf)) / 1000, Emphasis: emphasis})
		p99.Bars = append(p99.Bars, report.Bar{Name: short(one), Value: report.Median(one.column(p99Of)) / 1000, Emphasis: emphasis})
	}
	if isPlain {
		rate.Bars = append(rate.Bars,
			report.Bar{Name: "published, one", Value: publishedPlainRate / 1000.0, Emphasis: report.Reference},
			report.Bar{Name: "published, pre.", Value: publishedPreforkRate / 1000.0, Emphasis: report.Reference})
		p99.Bars = append(p99.Bars,
			report.Bar{Name: "published, one", Value: publishedPlainP99, Emphasis: report.Reference},
			report.Bar{Name: "published, pre.", Value: publishedPreforkP99, Emphasis: report.Reference})
	}
	s.Plots = []report.Plot{{File: h.file, Title: h.title + ", 512 connections", Panels: []report.Panel{rate, p99}}}
	return s
}

// short is a name that a plot has room for.
func short(s *subject) string {
	if s.prefork {
		return s.kind + ", pre."
	}
	return s.kind
}

// against returns how a figure compares with the one-process server's.
func (s *subject) against(base *subject, figure func(sample) float64) string {
	if s == base {
		return "-"
	}
	return report.Ratio(report.Ratios(s.column(figure), base.column(figure)))
}
