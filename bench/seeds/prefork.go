package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/command"
	"github.com/sluicehttp/sluice/bench/internal/latency"
	"github.com/sluicehttp/sluice/bench/internal/process"
	"github.com/sluicehttp/sluice/bench/internal/report"
)

// A sample is one run of wrk against one server.
type sample struct {
	rate     float64       // answers per second
	p50, p99 time.Duration // of latency
	requests int
	failures int           // connections and answers that wrk counts as errors
	cpu      time.Duration // of all processes of the server
}

// A subject is a server in one of its forms, with what was measured of it.
type subject struct {
	kind    string // of package peers
	prefork bool
	sleep   time.Duration

	*server
	samples []sample
}

func (s *subject) name() string {
	if s.prefork {
		return s.kind + " prefork"
	}
	return s.kind
}

// preforks repeats the test of the prefork packages' README.
func preforks(ctx context.Context, o options, _ string) (sections []report.Section, err error) {
	if err := command.Require("wrk"); err != nil {
		return nil, err
	}
	const sleep = 100 * time.Millisecond
	for _, c := range []struct {
		title, file string
		sleep       time.Duration
	}{
		{"Prefork: a plain handler", "seeds-prefork.svg", 0},
		{"Prefork: a handler that sleeps for 100 ms", "seeds-prefork-sleep.svg", sleep},
	} {
		subjects, err := measurePrefork(ctx, o, c.sleep)
		if err != nil {
			return nil, err
		}
		sections = append(sections, preforkSection(c.title, c.file, subjects, o))
	}
	return sections, nil
}

// measurePrefork runs the rounds of one handler.
func measurePrefork(ctx context.Context, o options, sleep time.Duration) (subjects []*subject, err error) {
	defer func() {
		for _, s := range subjects {
			if s.server != nil {
				err = errors.Join(err, s.Stop())
			}
		}
	}()
	for _, kind := range preforkKinds {
		for _, many := range []bool{false, true} {
			s := &subject{kind: kind, prefork: many, sleep: sleep}
			subjects = append(subjects, s)
			if s.server, err = startServer(ctx, serverConfig{Kind: kind, Prefork: many, Sleep: sleep, Workers: runtime.NumCPU()}); err != nil {
				return subjects, fmt.Errorf("%s: %w", s.name(), err)
			}
		}
	}
	for round := range o.rounds + 1 { // round 0 warms up
		for _, i := range rand.Perm(len(subjects)) {
			s := subjects[i]
			command.Progress("prefork, handler sleeps %v, round %d/%d, %s", sleep, round, o.rounds, s.name())
			got, err := s.turn(ctx, o.duration)
			if err != nil {
				return subjects, fmt.Errorf("%s: %w", s.name(), err)
			}
			if round > 0 {
				s.samples = append(s.samples, got)
			}
		}
	}
	return subjects, nil
}

// turn runs wrk as the README does, but for the time.
func (s *subject) turn(ctx context.Context, duration time.Duration) (sample, error) {
	before, err := s.TreeCPU()
	if err != nil {
		return sample{}, err
	}
	out, err := exec.CommandContext(ctx, "wrk", "-H", "Host: localhost",
		"-H", "Accept: text/plain,text/html;q=0.9,application/xhtml+xml;q=0.9,application/xml;q=0.8,*/*;q=0.7",
		"-H", "Connection: keep-alive", "--latency", "-d", strconv.Itoa(int(duration/time.Second)),
		"-c", "512", "--timeout", "8", "-t", "4", "http://"+s.addr+"/").CombinedOutput()
	if err != nil {
		return sample{}, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	after, err := s.TreeCPU()
	if err != nil {
		return sample{}, err
	}
	result, err := parseWrk(string(out))
	result.cpu = after - before
	return result, err
}

// parseWrk reads what wrk prints.
func parseWrk(output string) (s sample, err error) {
	found := func(pattern string) []string { return regexp.MustCompile(pattern).FindStringSubmatch(output) }
	rate, requests := found(`Requests/sec:\s*([0-9.]+)`), found(`(\d+) requests in`)
	p50, p99 := found(`50%\s+([0-9.]+[a-z]+)`), found(`99%\s+([0-9.]+[a-z]+)`)
	if rate == nil || requests == nil || p50 == nil || p99 == nil {
		return s, fmt.Errorf("cannot read what wrk says:\n%s", output)
	}
	var errs [5]error
	s.rate, errs[0] = strconv.ParseFloat(rate[1], 64)
	s.requests, errs[1] = strconv.Atoi(requests[1])
	s.p50, errs[2] = time.ParseDuration(p50[1])
	s.p99, errs[3] = time.ParseDuration(p99[1])
	if s.requests == 0 {
		errs[4] = errors.New("no request was answered")
	}
	if bad := found(`Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`); bad != nil {
		for _, digits := range bad[1:] {
			n, _ := strconv.Atoi(digits) // they are digits
			s.failures += n
		}
	}
	if bad := found(`Non-2xx or 3xx responses: (\d+)`); bad != nil {
		n, _ := strconv.Atoi(bad[1])
		s.failures += n
	}
	return s, errors.Join(errs[:]...)
}

// column returns a figure, round by round.
func (s *subject) column(figure func(sample) float64) (values []float64) {
	for _, one := range s.samples {
		values = append(values, figure(one))
	}
	return values
}

func rateOf(s sample) float64 { return s.rate }
func cpuOf(s sample) float64 {
	return float64(s.cpu.Nanoseconds()) / 1e3 / float64(s.requests)
}
func p50Of(s sample) float64 { return float64(s.p50.Microseconds()) }
func p99Of(s sample) float64 { return float64(s.p99.Microseconds()) }

// preforkSection is the table of one handler. Subjects come in pairs: one
// process, several processes.
func preforkSection(title, file string, subjects []*subject, o options) report.Section {
	s := report.Section{
		Title: title,
		Head:  []string{"server", "req/s", "prefork ÷ one process", "p50 ms", "p99 ms", "÷ one process", "CPU µs/req", "÷ one process", "errors"},
		Notes: []string{
			fmt.Sprintf("wrk -c 512 -t 4 with the README's header fields, rounds of %v for each server: %d, after one to warm up. Server and wrk share %d CPUs. CPU is that of all processes of a server.", o.duration, o.rounds, runtime.NumCPU()),
		},
	}
	isPlain := len(subjects) > 0 && subjects[0].sleep == 0
	if isPlain {
		s.Notes = append(s.Notes, publishedPrefork)
	}
	rate := report.Panel{Title: "Thousands of requests per second (more is better)"}
	p99 := report.Panel{Title: "99th percentile, ms (less is better)"}
	for i, one := range subjects {
		base := subjects[i-i%2]
		failures := 0
		for _, got := range one.samples {
			failures += got.failures
		}
		s.Rows = append(s.Rows, []string{
			one.name(), fmt.Sprintf("%.0f", report.Median(one.column(rateOf))), one.against(base, rateOf),
			latency.Microseconds(report.Median(one.column(p50Of))), latency.Microseconds(report.Median(one.column(p99Of))), one.against(base, p99Of),
			fmt.Sprintf("%.2f", report.Median(one.column(cpuOf))), one.against(base, cpuOf), fmt.Sprint(failures),
		})
		emphasis := report.Others
		if one.kind == preforkKinds[0] || one.kind == preforkKinds[1] {
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
	s.Plots = []report.Plot{{File: file, Title: title + ", 512 connections", Panels: []report.Panel{rate, p99}}}
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

// A server is what a subject runs as.
type server struct {
	*process.Child
	addr string
}
