// Package ratios runs benchmarks interleaved and compares their contenders:
//
//	go -C tools/bench run . ratios [--table client|compress|levels] [--bench REGEXP] [--cpu 1,2] [--count 6] [--benchtime 200ms]
//
// A benchmark's name ends with its contender's. In every round the contenders of a
// case run one after the other, in random order, each in a process of its own, so
// that the machine's moods hit all of them alike; a ratio is the median of the
// rounds' ratios.
package ratios

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// A Table is a set of benchmarks that are compared.
type Table string

// Tables.
const (
	Servers  Table = "server"
	Clients  Table = "client"
	Compress Table = "compress"
	Levels   Table = "levels"
)

// A source is where a table's benchmarks are.
type source struct {
	path  string // package
	bench string // regular expression of the benchmarks
	base  string // the contender that the others are compared with
}

// source returns where a table's benchmarks are.
func (t Table) source() (source, error) {
	const module = "github.com/sluicehttp/sluice/tools/bench"
	switch t {
	case Servers:
		return source{module, ".", "fasthttp"}, nil
	case Clients:
		return source{module + "/internal/client", ".", "fasthttp"}, nil
	case Compress:
		return source{module + "/internal/compress", "^BenchmarkCompress$", "direct"}, nil
	case Levels:
		return source{module + "/internal/compress", "^BenchmarkLevels$", "gzip_6"}, nil
	}
	return source{}, fmt.Errorf("no table %q: want %s, %s, %s or %s", t, Servers, Clients, Compress, Levels)
}

// Options say what is run, and for how long.
type Options struct {
	Table     Table
	Bench     string        // regular expression of the cases, "" for all
	CPUs      string        // values of GOMAXPROCS: "1,2"
	Rounds    int           // of each benchmark
	BenchTime time.Duration // of one benchmark in one round
}

// Command returns the subcommand.
func Command() *cobra.Command {
	return command.New("ratios", "Compare benchmarks in memory, interleaved: servers, clients or content codings", flags, run)
}

func flags(flags *pflag.FlagSet) func() (Options, error) {
	var o Options
	flags.StringVar((*string)(&o.Table), "table", string(Servers), "benchmarks to run: server, client, compress or levels")
	flags.StringVar(&o.Bench, "bench", "", "regular `expression` of the cases to run, such as Get1ReqPerConn$")
	flags.StringVar(&o.CPUs, "cpu", "1,2", "values of GOMAXPROCS")
	flags.IntVar(&o.Rounds, "count", 6, "rounds")
	flags.DurationVar(&o.BenchTime, "benchtime", 200*time.Millisecond, "time of one benchmark in one round")
	return func() (Options, error) { return o, o.check() }
}

func (o Options) check() error {
	_, err := o.Table.source()
	if err != nil {
		return err
	}
	if _, err := regexp.Compile(o.Bench); err != nil {
		return err
	}
	for field := range strings.SplitSeq(o.CPUs, ",") {
		if n, err := strconv.Atoi(field); err != nil || n < 1 {
			return fmt.Errorf("--cpu %q: want numbers, such as 1,2", o.CPUs)
		}
	}
	if o.Rounds < 1 || o.BenchTime <= 0 {
		return fmt.Errorf("--count %d --benchtime %v: want at least one round, and some time", o.Rounds, o.BenchTime)
	}
	return nil
}

func run(ctx context.Context, o Options) (d report.Document, err error) {
	cases, err := Measure(ctx, o)
	if err != nil {
		return d, err
	}
	d.Sections = []report.Section{table(o, cases)}
	return d, nil
}

// A Case is a benchmark without its contender, at one GOMAXPROCS.
type Case struct {
	Name       string
	CPU        int
	Contenders []string
	Results    map[string][]Result // by contender, round by round
}

// A Result is one line of a benchmark's output, by unit: "ns/op", "allocs/op".
type Result map[string]float64

// Measure runs the benchmarks.
func Measure(ctx context.Context, o Options) ([]*Case, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ratios")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "bench.test")
	if err := Build(ctx, o.Table, binary); err != nil {
		return nil, err
	}
	cases, err := list(ctx, binary, o)
	if err != nil {
		return nil, err
	}
	for round := range o.Rounds {
		for i, at := range rand.Perm(len(cases)) {
			command.Progress("round %d/%d, case %d/%d", round+1, o.Rounds, i+1, len(cases))
			if err := cases[at].measure(ctx, binary, o); err != nil {
				return nil, err
			}
		}
	}
	return cases, nil
}

// Build makes the program of a table's benchmarks.
func Build(ctx context.Context, t Table, binary string) error {
	module, err := command.ModuleFolder(ctx)
	if err != nil {
		return err
	}
	from, err := t.source()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, from.path)
	cmd.Dir = module
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go test -c: %w", err)
	}
	return nil
}

// list runs every benchmark once to learn their names, and returns the cases that
// the options want.
func list(ctx context.Context, binary string, o Options) ([]*Case, error) {
	from, _ := o.Table.source() // checked before
	out, err := exec.CommandContext(ctx, binary, "-test.run", "^$", "-test.bench", from.bench, "-test.benchtime", "1x").Output()
	if err != nil {
		return nil, fmt.Errorf("listing benchmarks: %w\n%s", err, out)
	}
	return casesOf(string(out), o)
}

func casesOf(output string, o Options) (cases []*Case, err error) {
	wanted := regexp.MustCompile(o.Bench) // checked before
	for line := range strings.Lines(output) {
		name, _, isOne := parse(line)
		slash := strings.LastIndexByte(name, '/')
		if !isOne || slash < 0 {
			continue
		}
		_, own, _ := strings.Cut(name[:slash], "/")
		if !wanted.MatchString(own) {
			continue
		}
		for field := range strings.SplitSeq(o.CPUs, ",") {
			cpu, _ := strconv.Atoi(field) // checked before
			i := slices.IndexFunc(cases, func(c *Case) bool { return c.Name == name[:slash] && c.CPU == cpu })
			if i < 0 {
				i = len(cases)
				cases = append(cases, &Case{Name: name[:slash], CPU: cpu, Results: make(map[string][]Result)})
			}
			cases[i].Contenders = append(cases[i].Contenders, name[slash+1:])
		}
	}
	if len(cases) == 0 {
		return nil, fmt.Errorf("--bench '%s' matches no case of\n%s", o.Bench, output)
	}
	return cases, nil
}

// measure runs the contenders once each, in random order.
func (c *Case) measure(ctx context.Context, binary string, o Options) error {
	for _, i := range rand.Perm(len(c.Contenders)) {
		name := c.Name + "/" + c.Contenders[i]
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(name), "/", "$/^") + "$"
		cmd := exec.CommandContext(ctx, binary, "-test.run", "^$", "-test.bench", pattern,
			"-test.benchtime", o.BenchTime.String(), "-test.cpu", strconv.Itoa(c.CPU), "-test.benchmem")
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", name, err, out)
		}
		result, err := resultOf(string(out), name)
		if err != nil {
			return err
		}
		c.Results[c.Contenders[i]] = append(c.Results[c.Contenders[i]], result)
	}
	return nil
}

var errNoResult = errors.New("no result")

// resultOf finds the line of a benchmark.
func resultOf(output, name string) (Result, error) {
	for line := range strings.Lines(output) {
		if got, result, isOne := parse(line); isOne && got == name {
			return result, nil
		}
	}
	return nil, fmt.Errorf("%w of %s in\n%s", errNoResult, name, output)
}

// parse reads a line such as "BenchmarkX/y-2  100  12.3 ns/op".
func parse(line string) (name string, r Result, isOne bool) {
	fields := strings.Fields(line)
	if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
		return "", nil, false
	}
	r = make(Result)
	for i := 2; i+1 < len(fields); i += 2 {
		value, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return "", nil, false
		}
		r[fields[i+1]] = value
	}
	name = fields[0]
	if dash := strings.LastIndexByte(name, '-'); dash > 0 { // GOMAXPROCS, unless that is 1
		if _, err := strconv.Atoi(name[dash+1:]); err == nil {
			name = name[:dash]
		}
	}
	return name, r, true
}

// Title returns the case's name without its benchmark's.
func (c *Case) Title() string {
	_, title, _ := strings.Cut(c.Name, "/")
	return title
}

// Column returns a figure of a contender, round by round.
func (c *Case) Column(contender, unit string) (values []float64) {
	for _, r := range c.Results[contender] {
		values = append(values, r[unit])
	}
	return values
}

// table makes the report.
func table(o Options, cases []*Case) report.Section {
	from, _ := o.Table.source() // checked before
	base, hasBytes := from.base, o.Table == Compress || o.Table == Levels
	s := report.Section{
		Title: "Benchmarks in memory: " + string(o.Table),
		Head:  []string{"case", "P", "by", "ns/op", "÷ " + base, "CPU ns/op", "÷ " + base, "B/op", "allocs/op"},
		Notes: []string{"Medians of the rounds; ratios are medians of the rounds' ratios, in brackets the lowest and the highest round's. CPU time is the process's, where the benchmark reads it."},
	}
	if hasBytes {
		s.Head = append(s.Head, "encoded B")
	}
	for _, c := range cases {
		for _, by := range c.Contenders {
			row := []string{c.Title(), strconv.Itoa(c.CPU), by}
			for _, unit := range []string{"ns/op", "cpu-ns/op"} {
				values := c.Column(by, unit)
				if slices.Max(values) == 0 {
					row = append(row, "-", "-")
					continue
				}
				row = append(row, fmt.Sprintf("%.0f", report.Median(values)), report.Ratio(report.Ratios(values, c.Column(base, unit))))
			}
			row = append(row, fmt.Sprintf("%.0f", report.Median(c.Column(by, "B/op"))), fmt.Sprintf("%.0f", report.Median(c.Column(by, "allocs/op"))))
			if hasBytes {
				row = append(row, fmt.Sprintf("%.0f", report.Median(c.Column(by, "encoded-B/op"))))
			}
			s.Rows = append(s.Rows, row)
		}
	}
	return s
}
