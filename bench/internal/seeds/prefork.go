package seeds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/command"
	"github.com/sluicehttp/sluice/bench/internal/latency"
	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/report"
	"github.com/sluicehttp/sluice/bench/internal/workers"
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

	*workers.Server
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
func preforks(ctx context.Context, o Options, _ string) (sections []report.Section, err error) {
	lacking := command.Require("wrk")
	for _, h := range handlers() {
		if !slices.Contains(o.of(preforkPart), h.name) {
			continue
		}
		if lacking != nil {
			sections = append(sections, report.Section{Title: h.title, Head: preforkHead(), Notes: []string{"Left out: " + lacking.Error() + "."}})
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
			if s.Server, err = workers.Start(ctx, workers.Options{Kind: kind, Prefork: many, Sleep: sleep, Workers: runtime.NumCPU()}); err != nil {
				return subjects, fmt.Errorf("%s: %w", s.name(), err)
			}
		}
	}
	for round := range o.Rounds + 1 { // round 0 warms up
		for _, i := range rand.Perm(len(subjects)) {
			s := subjects[i]
			command.Progress("prefork, handler sleeps %v, round %d/%d, %s", sleep, round, o.Rounds, s.name())
			got, err := s.turn(ctx, o.Duration)
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
		"-c", "512", "--timeout", "8", "-t", "4", "http://"+s.Addr+"/").CombinedOutput()
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
func preforkSection(h handler, subjects []*subject, o Options) report.Section {
	s := report.Section{
		Title: h.title,
		Head:  preforkHead(),
		Notes: []string{
			fmt.Sprintf("wrk -c 512 -t 4 with the README's header fields, rounds of %v for each server: %d, after one to warm up. Server and wrk share %d CPUs. CPU is that of all processes of a server.", o.Duration, o.Rounds, runtime.NumCPU()),
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
