// Command wire compares servers over TCP by what counts on a machine that
// serves: CPU time per request. Run it in the bench module, on Linux with
// taskset and two CPUs:
//
//	go -C bench run ./wire -quick|-full [-out DIR] [-case REGEXP] [-servers LIST]
//
// Every server is a process pinned to CPU 0, the clients are one thread pinned
// to CPU 1. The servers of a case take turns in random order in every round;
// ratios are medians of the rounds' ratios. Requests per second are capped by
// the client, so trust the CPU time. -full repeats some cases with nothing
// pinned.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/client"
	"github.com/sluicehttp/sluice/bench/internal/command"
	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/process"
)

// The CPUs of servers and of the client.
const (
	serverCPU = 0
	clientCPU = 1
)

// allKinds are the servers that can be compared. The baseline always is.
var allKinds = [...]string{
	peers.Epoll, peers.PerConn, peers.FastHTTP, peers.Fiber, peers.Hertz, peers.NetHTTP, nginx, floorKind,
}

const baseline = peers.FastHTTP

func main() {
	process.Main(roles())
	command.Main("wire", parseFlags, run)
}

func roles() map[string]process.Role {
	all := client.Roles()
	all[loadRole] = putLoad
	return all
}

// options are the command's flags.
type options struct {
	rounds   int
	duration time.Duration
	kinds    []string
	cases    []*wireCase
	out      string // folder of the report; "": none

	markdown, commandLine string
}

// What -quick and -full stand for.
const (
	quickRounds, quickDuration = 3, 200 * time.Millisecond
	fullRounds, fullDuration   = 7, 700 * time.Millisecond
)

func parseFlags(args []string) (o options, err error) {
	flags := command.NewFlagSet("wire", "Command wire compares servers' CPU time per request over TCP.")
	quick := flags.Bool("quick", false, fmt.Sprintf("two minutes: %d rounds of %v; the default", quickRounds, quickDuration))
	full := flags.Bool("full", false, fmt.Sprintf("a quarter of an hour: %d rounds of %v, further cases, and some on all CPUs", fullRounds, fullDuration))
	flags.IntVar(&o.rounds, "rounds", 0, "rounds, after one to warm up; 0: as -quick or -full says")
	flags.DurationVar(&o.duration, "duration", 0, "time of one server in one round; 0: as -quick or -full says")
	flags.StringVar(&o.out, "out", "", "`folder` for the report as wire.md, with its plots; relative to the module bench")
	pattern := flags.String("case", ".", "regular `expression` of the cases to run; -list names them")
	servers := flags.String("servers", strings.Join(allKinds[:], ","), "servers to compare; "+baseline+" always is")
	list := flags.Bool("list", false, "list the cases and do nothing else")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.markdown, o.commandLine = flags.Markdown, flags.CommandLine()
	if *quick && *full {
		return o, errors.New("-quick and -full: want one of them")
	}
	if *list {
		for _, c := range offeredCases(true) {
			fmt.Println(c.name)
		}
		return o, command.ErrDone
	}
	rounds, duration := quickRounds, quickDuration
	if *full {
		rounds, duration = fullRounds, fullDuration
	}
	if o.rounds == 0 {
		o.rounds = rounds
	}
	if o.duration == 0 {
		o.duration = duration
	}
	if o.rounds < 1 || o.duration < 10*time.Millisecond {
		return o, fmt.Errorf("-rounds %d -duration %v: want at least one round of 10ms", o.rounds, o.duration)
	}
	if o.kinds, err = peers.ParseKinds(*servers, allKinds[:]); err != nil {
		return o, err
	}
	if !slices.Contains(o.kinds, baseline) {
		o.kinds = append(o.kinds, baseline)
	}
	o.cases, err = selectCases(*pattern, *full || *pattern != ".")
	return o, err
}

// offeredCases returns all cases, or those that are quick.
func offeredCases(full bool) (cases []*wireCase) {
	for _, c := range allCases() {
		if full || !c.extra {
			cases = append(cases, c)
		}
	}
	if !full {
		return cases
	}
	for _, c := range allCases() {
		if c.spread {
			c.name, c.shared, c.targets = c.name+", all CPUs", true, nil
			cases = append(cases, c)
		}
	}
	return cases
}

func selectCases(pattern string, full bool) (cases []*wireCase, err error) {
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	for _, c := range offeredCases(full) {
		if wanted.MatchString(c.name) {
			c.samples, c.perIdle, c.absent = make(map[string][]sample), make(map[string]float64), make(map[string]string)
			c.sizes = make(map[string]int)
			cases = append(cases, c)
		}
	}
	if cases == nil {
		return nil, fmt.Errorf("-case %q matches no case", pattern)
	}
	return cases, nil
}

func run(ctx context.Context, o options) error {
	if err := command.Require("taskset"); err != nil {
		return err
	}
	m, err := measure(ctx, o)
	if err != nil {
		return err
	}
	command.Progress("")
	return publish(os.Stdout, m)
}
