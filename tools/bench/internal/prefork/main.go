// Package prefork measures what several processes cost: CPU time per request of
// servers with a process per CPU, beside the same server as one process. Run it
// in the bench module, on Linux:
//
//	go -C tools/bench run . prefork [--rounds 5] [--duration 1s] [--case REGEXP] [--perf]
//
// Nothing is pinned: the servers share all CPUs with the process that puts load
// on them, as they do on a machine with other work. The servers take turns in
// random order in every round, each with connections of its own that are new in
// every round; ratios are medians of the rounds' ratios.
package prefork

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// options are the command's flags.
type options struct {
	rounds   int
	duration time.Duration
	workers  int
	cases    []loadCase
	variants []variant
	perf     bool
}

// Command returns the subcommand.
func Command() *cobra.Command {
	return command.New("prefork", "Compare CPU time per request of servers with several processes and with one", flags, run)
}

func flags(flags *pflag.FlagSet) func() (options, error) {
	var o options
	flags.IntVar(&o.rounds, "rounds", 5, "rounds, after one to warm up")
	flags.DurationVar(&o.duration, "duration", time.Second, "time of one server in one round")
	flags.IntVar(&o.workers, "workers", runtime.NumCPU(), "worker processes; GOMAXPROCS of a single process")
	flags.BoolVar(&o.perf, "perf", false, "count system calls, too, in a last round that is not part of the others' figures; needs perf and root")
	pattern := flags.String("case", ".", "regular `expression` of the cases to run: "+strings.Join(names(allCases(), loadCase.named), "; "))
	servers := flags.String("servers", ".", "regular `expression` of the servers to run: "+strings.Join(names(allVariants(), variant.named), "; ")+". Those they are compared with always run")
	return func() (_ options, err error) {
		if o.rounds < 1 || o.duration < 100*time.Millisecond || o.workers < 1 {
			return o, fmt.Errorf("--rounds %d --duration %v --workers %d: want at least one round of 100ms, and a worker", o.rounds, o.duration, o.workers)
		}
		if o.cases, err = command.Choose("case", *pattern, allCases(), loadCase.named); err != nil {
			return o, err
		}
		o.variants, err = selectVariants(*servers)
		return o, err
	}
}

// A loadCase is a load and its name.
type loadCase struct {
	name string
	load load.Load
}

func allCases() []loadCase {
	return []loadCase{
		{"64 connections", load.Load{Conns: 64}},
		{"512 connections", load.Load{Conns: 512}},
		{"64 connections, 10,000 requests/s", load.Load{Conns: 64, Rate: 10_000}},
		{"connection per request", load.Load{Conns: 64, Close: true}},
	}
}

func (c loadCase) named() string { return c.name }

func names[T any](all []T, name func(T) string) (names []string) {
	for _, one := range all {
		names = append(names, name(one))
	}
	return names
}

// selectVariants returns the variants that are named, and those that they are compared with.
func selectVariants(pattern string) ([]variant, error) {
	all := slices.DeleteFunc(allVariants(), func(v variant) bool { return v.optional && pattern == "." })
	named, err := command.Choose("servers", pattern, all, variant.named)
	isNotWanted := func(v variant) bool {
		return !slices.ContainsFunc(named, func(n variant) bool { return n.name == v.name || n.base == v.name })
	}
	return slices.DeleteFunc(all, isNotWanted), err
}

func run(ctx context.Context, o options) (d report.Document, err error) {
	if err := command.Require(); err != nil {
		return d, err
	}
	m := &measurement{options: o, samples: make(map[string]map[string][]sample), calls: make(map[string]map[string]calls)}
	defer func() { err = errors.Join(err, m.stop()) }()
	if err := m.start(ctx); err != nil {
		return d, err
	}
	for _, c := range o.cases {
		m.samples[c.name], err = command.Rounds(c.name, o.rounds, names(m.variants, variant.named), func(i int, _ bool) (sample, error) {
			return m.turn(c.load, m.servers[m.variants[i].name])
		})
		if err != nil {
			return d, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	if o.perf {
		if err := m.countCalls(ctx); err != nil {
			return d, err
		}
	}
	return m.document(), nil
}

// A measurement is under way.
type measurement struct {
	options
	servers   map[string]*Server // by the variant's name
	generator *load.Generator

	samples map[string]map[string][]sample // by case and variant, round by round
	calls   map[string]map[string]calls    // by case and variant
}

// A sample is one server's turn in one round.
type sample struct {
	load.Result
	usage // of all its processes together
	// busiest is the part of the CPU time that one process had, of those that
	// serve.
	busiest float64
}

func (m *measurement) start(ctx context.Context) (err error) {
	m.servers = make(map[string]*Server)
	for _, v := range m.variants {
		o := v.Options
		if o.Workers = m.workers; v.oneP {
			o.Workers = 1
		}
		if m.servers[v.name], err = Start(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
	}
	m.generator, err = load.Start(ctx, process.Options{CPU: process.AnyCPU})
	return err
}

func (m *measurement) stop() error {
	var errs []error
	for _, s := range m.servers {
		if s != nil {
			errs = append(errs, s.Stop())
		}
	}
	if m.generator != nil {
		errs = append(errs, m.generator.Stop())
	}
	return errors.Join(errs...)
}

// turn puts load on a server, with connections that are new.
func (m *measurement) turn(l load.Load, s *Server) (sample, error) {
	l.Addr, l.Duration = s.Addr, m.duration
	if err := prepare(&l); err != nil {
		return sample{}, err
	}
	result, before, after, err := load.Measure(m.generator, l, func() ([]usage, error) { return usages(s) })
	if err == nil && result.Failures > 0 {
		err = fmt.Errorf("%d requests failed, the first one: %s", result.Failures, result.FirstFailure)
	}
	if err != nil {
		return sample{}, err
	}
	return newSample(result, before, after), nil
}

// prepare gives a load its request, and checks the answer.
func prepare(l *load.Load) error {
	closing := ""
	if l.Close {
		closing = "Connection: close\r\n"
	}
	l.Request = []byte("GET " + peers.Target + " HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: prefork\r\n" + closing + "\r\n")
	answer, err := l.Ask()
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK || string(answer.Content) != peers.Body {
		return fmt.Errorf("unexpected answer: %s, %q", answer.Status, answer.Content)
	}
	return nil
}

// newSample makes a sample of what processes had used before and after. The
// master's are first.
func newSample(result load.Result, before, after []usage) sample {
	s := sample{Result: result}
	var most time.Duration
	for i := range after {
		used := after[i].minus(before[i])
		s.usage = s.usage.plus(used)
		most = max(most, used.cpu)
	}
	if s.cpu > 0 {
		s.busiest = float64(most) / float64(s.cpu)
	}
	return s
}
