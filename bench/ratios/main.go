// Command ratios runs the server benchmarks of ours, fasthttp and net/http
// interleaved and prints how they compare. Run it in the bench module:
//
//	go -C bench run ./ratios [-bench REGEXP] [-cpu 1,2] [-count 6] [-benchtime 200ms]
//
// The three run one after the other in every round, in random order, so that
// the machine's moods hit all of them alike; a ratio is the median of the
// rounds' ratios.
package main

import (
	"context"
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

	"github.com/sluicehttp/sluice/bench/internal/command"
	"github.com/sluicehttp/sluice/bench/internal/report"
)

// options are the command's flags.
type options struct {
	bench     *regexp.Regexp
	cpus      []int
	rounds    int
	benchTime time.Duration

	markdown, commandLine string
}

func main() {
	command.Main("ratios", parseFlags, run)
}

func parseFlags(args []string) (options, error) {
	flags := command.NewFlagSet("ratios", "Command ratios compares the in-memory server benchmarks of ours, fasthttp and net/http.")
	bench := flags.String("bench", ".", "regular expression of the cases to run, such as Get1ReqPerConn$")
	cpus := flags.String("cpu", "1,2", "values of GOMAXPROCS")
	rounds := flags.Int("count", 6, "rounds")
	benchTime := flags.Duration("benchtime", 200*time.Millisecond, "time of one benchmark in one round")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	o := options{rounds: *rounds, benchTime: *benchTime, markdown: flags.Markdown, commandLine: flags.CommandLine()}
	var err error
	if o.bench, err = regexp.Compile(*bench); err != nil {
		return o, err
	}
	for field := range strings.SplitSeq(*cpus, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 {
			return o, fmt.Errorf("-cpu %q: want numbers, such as 1,2", *cpus)
		}
		o.cpus = append(o.cpus, n)
	}
	if o.rounds < 1 {
		return o, fmt.Errorf("-count %d: want at least 1", o.rounds)
	}
	return o, nil
}

func run(ctx context.Context, o options) error {
	module, err := command.ModuleFolder(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ratios")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "bench.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "github.com/sluicehttp/sluice/bench")
	build.Dir = module
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("go test -c: %w", err)
	}
	cases, err := list(ctx, binary, o)
	if err != nil {
		return err
	}
	for round := range o.rounds {
		for i, at := range rand.Perm(len(cases)) {
			command.Progress("round %d/%d, case %d/%d", round+1, o.rounds, i+1, len(cases))
			if err := cases[at].measure(ctx, binary, o.benchTime); err != nil {
				return err
			}
		}
	}
	command.Progress("")
	return report.Document{Command: o.commandLine, Sections: []report.Section{table(cases)}}.Publish(os.Stdout, o.markdown)
}

// contenders are the prefixes of the benchmarks' names, ours first.
var contenders = [...]string{"Server", "FastHTTPServer", "NetHTTPServer"}

// A benchCase is one case at one GOMAXPROCS, with a result per contender and
// round.
type benchCase struct {
	name    string // without the contender
	cpu     int
	results [len(contenders)][]result
}

// list returns the cases that every contender has and that the flags want.
func list(ctx context.Context, binary string, o options) ([]*benchCase, error) {
	out, err := exec.CommandContext(ctx, binary, "-test.list", "^Benchmark").Output()
	if err != nil {
		return nil, fmt.Errorf("-test.list: %w", err)
	}
	names := strings.Fields(string(out))
	var cases []*benchCase
	for _, name := range names {
		name, ours := strings.CutPrefix(name, "Benchmark"+contenders[0])
		if !ours || !o.bench.MatchString(name) {
			continue
		}
		for _, other := range contenders {
			if !slices.Contains(names, "Benchmark"+other+name) {
				return nil, fmt.Errorf("there is no Benchmark%s%s to compare with", other, name)
			}
		}
		for _, cpu := range o.cpus {
			cases = append(cases, &benchCase{name: name, cpu: cpu})
		}
	}
	if len(cases) == 0 {
		return nil, fmt.Errorf("-bench '%s' matches no case of %q", o.bench, names)
	}
	return cases, nil
}

// measure runs the contenders once each, in random order.
func (c *benchCase) measure(ctx context.Context, binary string, benchTime time.Duration) error {
	for _, i := range rand.Perm(len(contenders)) {
		name := "Benchmark" + contenders[i] + c.name
		cmd := exec.CommandContext(ctx, binary, "-test.run", "^$", "-test.bench", "^"+name+"$",
			"-test.benchtime", benchTime.String(), "-test.cpu", strconv.Itoa(c.cpu), "-test.benchmem")
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", name, err, out)
		}
		r, err := parse(string(out), name)
		if err != nil {
			return err
		}
		c.results[i] = append(c.results[i], r)
	}
	return nil
}

// A result is one line of a benchmark's output.
type result struct {
	nanoseconds, allocs float64 // per operation
}

// parse finds the line of the benchmark and reads its figures.
func parse(output, name string) (result, error) {
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[0] != name && !strings.HasPrefix(fields[0], name+"-") {
			continue
		}
		var r result
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return result{}, fmt.Errorf("%s: cannot read %q", name, line)
			}
			switch fields[i+1] {
			case "ns/op":
				r.nanoseconds = value
			case "allocs/op":
				r.allocs = value
			}
		}
		return r, nil
	}
	return result{}, fmt.Errorf("no result of %s in\n%s", name, output)
}

// table makes the report.
func table(cases []*benchCase) report.Section {
	head := []string{"case", "P", "ours ns", "fasthttp ns", "net/http ns", "ours/fasthttp", "ours/net/http", "allocs ours", "fasthttp", "net/http"}
	var rows [][]string
	for _, c := range cases {
		var times, allocs [len(contenders)][]float64
		for i, results := range c.results {
			for _, r := range results {
				times[i] = append(times[i], r.nanoseconds)
				allocs[i] = append(allocs[i], r.allocs)
			}
		}
		row := []string{c.name, strconv.Itoa(c.cpu)}
		for i := range contenders {
			row = append(row, fmt.Sprintf("%.0f", report.Median(times[i])))
		}
		row = append(row, report.Ratio(report.Ratios(times[0], times[1])), fmt.Sprintf("%.2f", report.Median(report.Ratios(times[0], times[2]))))
		for i := range contenders {
			row = append(row, fmt.Sprintf("%.0f", report.Median(allocs[i])))
		}
		rows = append(rows, row)
	}
	return report.Section{
		Title: "Server benchmarks in memory", Head: head, Rows: rows,
		Notes: []string{"Medians of the rounds; ratios are medians of the rounds' ratios, in brackets the lowest and the highest round's."},
	}
}
