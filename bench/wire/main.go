// Command wire compares servers over TCP by what counts on a machine that
// serves: CPU time per request. Run it in the bench module, on Linux with wrk,
// taskset and two CPUs:
//
//	go -C bench run ./wire [-rounds 6] [-duration 2s] [-case REGEXP]
//
// Every server is a process pinned to CPU 0, wrk is pinned to CPU 1. The
// servers take turns in random order in every round; ratios are medians of the
// rounds' ratios. Requests per second are capped by wrk, so trust the CPU time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/process"
	"github.com/sluicehttp/sluice/bench/internal/report"
)

// kinds are the servers compared; the others are divided by the baseline.
var kinds = [...]string{peers.Sluice, peers.FastHTTP, peers.NetHTTP}

const baseline = 1 // index of fasthttp in kinds

// A wireCase is a load and what was measured under it.
type wireCase struct {
	name  string
	conns int
	depth int  // pipelined requests; 1: none
	close bool // a connection per request

	samples [len(kinds)][]sample
}

func allCases() []*wireCase {
	return []*wireCase{
		{name: "64 connections", conns: 64, depth: 1},
		{name: "512 connections", conns: 512, depth: 1},
		{name: "pipeline of 16", conns: 64, depth: 16},
		{name: "connection per request", conns: 64, depth: 1, close: true},
	}
}

// options are the command's flags.
type options struct {
	rounds   int
	duration time.Duration
	cases    []*wireCase
}

func main() {
	process.Main(nil)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o, err := parseFlags(os.Args[1:])
	if err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "wire:", err)
		os.Exit(1)
	}
}

func parseFlags(args []string) (options, error) {
	flags := flag.NewFlagSet("wire", flag.ExitOnError)
	rounds := flags.Int("rounds", 6, "rounds")
	duration := flags.Duration("duration", 2*time.Second, "time of one server in one round; whole seconds")
	pattern := flags.String("case", ".", "regular expression of the cases to run")
	flags.Parse(args)

	o := options{rounds: *rounds, duration: *duration}
	if o.rounds < 1 || o.duration < time.Second || o.duration%time.Second != 0 {
		return o, fmt.Errorf("-rounds %d -duration %v: want at least one round of whole seconds", o.rounds, o.duration)
	}
	wanted, err := regexp.Compile(*pattern)
	if err != nil {
		return o, err
	}
	for _, c := range allCases() {
		if wanted.MatchString(c.name) {
			o.cases = append(o.cases, c)
		}
	}
	if len(o.cases) == 0 {
		return o, fmt.Errorf("-case %q matches no case", *pattern)
	}
	return o, nil
}

// checkMachine says what is missing before anything is started.
func checkMachine() error {
	for tool, source := range map[string]string{"wrk": "package wrk", "taskset": "package util-linux"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is not installed (Debian: %s)", tool, source)
		}
	}
	if runtime.GOOS != "linux" || runtime.NumCPU() < 2 {
		return errors.New("needs Linux and two CPUs: one for the server and one for wrk")
	}
	return nil
}

func run(ctx context.Context, o options) (err error) {
	if err := checkMachine(); err != nil {
		return err
	}
	var servers [len(kinds)]*process.Server
	for i, kind := range kinds {
		if servers[i], err = process.StartServer(ctx, 0, kind); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, servers[i].Stop()) }()
	}
	script, err := writeScript()
	if err != nil {
		return err
	}
	defer os.Remove(script)
	for round := range o.rounds + 1 { // round 0 warms up
		for i, c := range o.cases {
			fmt.Fprintf(os.Stderr, "\rround %d/%d, case %d/%d ", round, o.rounds, i+1, len(o.cases))
			if err := c.measure(ctx, script, servers, o.duration, round > 0); err != nil {
				return err
			}
		}
	}
	fmt.Fprint(os.Stderr, "\r\033[K")
	report.Header(os.Stdout, fmt.Sprintf("go -C bench run ./wire -rounds %d -duration %v", o.rounds, o.duration))
	return printTable(o.cases)
}

// measure puts the load on every server once, in random order.
func (c *wireCase) measure(ctx context.Context, script string, servers [len(kinds)]*process.Server, duration time.Duration, keep bool) error {
	if !keep {
		duration = time.Second
	}
	for _, i := range rand.Perm(len(kinds)) {
		before, err := servers[i].CPU()
		if err != nil {
			return err
		}
		s, err := runWrk(ctx, script, c, servers[i].Addr, duration)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", kinds[i], c.name, err)
		}
		after, err := servers[i].CPU()
		if err != nil {
			return err
		}
		s.cpu = after - before
		if keep {
			c.samples[i] = append(c.samples[i], s)
		}
	}
	return nil
}

// columns returns what was measured of one server, round by round.
func columns(samples []sample) (cpu, rate, p99 []float64, failures int) {
	for _, s := range samples {
		cpu = append(cpu, float64(s.cpu.Nanoseconds())/1e3/float64(s.requests))
		rate = append(rate, float64(s.requests)/s.duration.Seconds())
		p99 = append(p99, float64(s.p99.Microseconds()))
		failures += s.failures
	}
	return cpu, rate, p99, failures
}

func printTable(cases []*wireCase) error {
	head := []string{"load", "server", "CPU µs/req", "÷ fasthttp", "req/s", "÷ fasthttp", "p99 µs", "÷ fasthttp", "errors"}
	var rows [][]string
	for _, c := range cases {
		baseCPU, baseRate, baseP99, _ := columns(c.samples[baseline])
		for i, kind := range kinds {
			cpu, rate, p99, failures := columns(c.samples[i])
			rows = append(rows, []string{
				c.name, kind,
				fmt.Sprintf("%.2f", report.Median(cpu)), report.Ratio(report.Ratios(cpu, baseCPU)),
				fmt.Sprintf("%.0f", report.Median(rate)), fmt.Sprintf("%.2f", report.Median(report.Ratios(rate, baseRate))),
				fmt.Sprintf("%.0f", report.Median(p99)), fmt.Sprintf("%.2f", report.Median(report.Ratios(p99, baseP99))),
				fmt.Sprint(failures),
			})
		}
	}
	return report.Table(os.Stdout, head, rows)
}
