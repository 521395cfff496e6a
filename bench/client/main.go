// Command client compares what a request costs its client: ours, fasthttp and
// net/http, in the cases of the client benchmarks of fasthttp's README. Run it
// in the bench module:
//
//	go -C bench run ./client [-case REGEXP] [-cpu 1,2] [-rounds 21] [-turn 10ms]
//
// Clients and servers are in one process. In half of the cases the server is the
// same for all clients, in the others it is that of the client's library. The contenders take turns in random order in every round, each with
// its own connections, which stay open.
package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/command"
)

func main() {
	command.Main("client", parseFlags, run)
}

// options are the command's flags.
type options struct {
	cases  *regexp.Regexp
	cpus   []int
	rounds int
	turn   time.Duration

	markdown, commandLine string
}

func parseFlags(args []string) (o options, err error) {
	flags := command.NewFlagSet("client", "Command client compares what a request costs its client: ours, fasthttp and net/http.")
	pattern := flags.String("case", ".", "regular expression of the cases to run, such as '100TCP' or 'Inmemory, raw$'")
	cpus := flags.String("cpu", "1,2", "values of GOMAXPROCS")
	flags.IntVar(&o.rounds, "rounds", 21, "rounds")
	flags.DurationVar(&o.turn, "turn", 10*time.Millisecond, "time of one contender in one round")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.markdown, o.commandLine = flags.Markdown, flags.CommandLine()
	if o.rounds < 1 || o.turn < time.Millisecond {
		return o, fmt.Errorf("-rounds %d -turn %v: want at least one round of 1ms", o.rounds, o.turn)
	}
	if o.cases, err = regexp.Compile(*pattern); err != nil {
		return o, err
	}
	for field := range strings.SplitSeq(*cpus, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 {
			return o, fmt.Errorf("-cpu %q: want numbers, such as 1,2", *cpus)
		}
		o.cpus = append(o.cpus, n)
	}
	return o, nil
}

func run(ctx context.Context, o options) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	cases, err := newCases(o)
	if err != nil {
		return err
	}
	// One case after the other: idle connections of others would be in the way
	// of the garbage collector.
	for i, c := range cases {
		if err := measure(ctx, c, o, fmt.Sprintf("case %d/%d, ", i+1, len(cases))); err != nil {
			return fmt.Errorf("%s, GOMAXPROCS %d: %w", c.name(), c.procs, err)
		}
	}
	command.Progress("")
	return document(o, cases).Publish(os.Stdout, o.markdown)
}

// newCases returns the cases that the flags want.
func newCases(o options) ([]*benchCase, error) {
	var cases []*benchCase
	for _, s := range scenarios() {
		if !o.cases.MatchString(s.name()) {
			continue
		}
		for _, procs := range o.cpus {
			cases = append(cases, &benchCase{scenario: s, procs: procs})
		}
	}
	if len(cases) == 0 {
		return nil, fmt.Errorf("-case '%s' matches none", o.cases)
	}
	return cases, nil
}
