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
//
// The report's last sections are those of seeds: in memory at GOMAXPROCS 1, 2
// and 4, and prefork over the wire, beside the published figures.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/client"
	"github.com/sluicehttp/sluice/bench/internal/command"
	"github.com/sluicehttp/sluice/bench/internal/load"
	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/process"
	"github.com/sluicehttp/sluice/bench/internal/seeds"
	"github.com/sluicehttp/sluice/bench/internal/workers"
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
	maps.Copy(all, load.Roles())
	maps.Copy(all, workers.Roles())
	return all
}

// options are the command's flags.
type options struct {
	rounds   int
	duration time.Duration
	kinds    []string
	cases    []*wireCase
	seeds    seeds.Options // the last sections
	out      string        // folder of the report; "": none

	markdown, commandLine string
}

// What -quick and -full stand for.
const (
	quickRounds, quickDuration = 3, 200 * time.Millisecond
	fullRounds, fullDuration   = 7, 700 * time.Millisecond
)

func parseFlags(args []string) (o options, err error) {
	flags := command.NewFlagSet("wire", "Command wire compares servers' CPU time per request over TCP.")
	quick := flags.Bool("quick", false, fmt.Sprintf("three minutes: %d rounds of %v; the default", quickRounds, quickDuration))
	full := flags.Bool("full", false, fmt.Sprintf("25 minutes: %d rounds of %v, further cases, and some on all CPUs", fullRounds, fullDuration))
	flags.IntVar(&o.rounds, "rounds", 0, "rounds, after one to warm up, but for clients in memory; 0: as -quick or -full says")
	flags.DurationVar(&o.duration, "duration", 0, "time of one server in one round over the wire; 0: as -quick or -full says")
	flags.StringVar(&o.out, "out", "", "`folder` for the report as wire.md, with its plots; relative to the module bench")
	pattern := flags.String("case", ".", "regular `expression` of the cases to run; -list names them")
	servers := flags.String("servers", strings.Join(allKinds[:], ","), "servers to compare over the wire; "+baseline+" always is")
	list := flags.Bool("list", false, "list the cases and do nothing else")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.markdown, o.commandLine = flags.Markdown, flags.CommandLine()
	if *quick && *full {
		return o, errors.New("-quick and -full: want one of them")
	}
	if *list {
		for _, name := range offeredNames() {
			fmt.Println(name)
		}
		return o, command.ErrDone
	}
	if err := o.setTimes(*full); err != nil {
		return o, err
	}
	if o.kinds, err = peers.ParseKinds(*servers, allKinds[:]); err != nil {
		return o, err
	}
	if !slices.Contains(o.kinds, baseline) {
		o.kinds = append(o.kinds, baseline)
	}
	o.seeds.Kinds = o.kinds
	return o, o.choose(*pattern, *full || *pattern != ".")
}

// setTimes fills in the rounds and times that no flag gives.
func (o *options) setTimes(full bool) error {
	rounds, duration := quickRounds, quickDuration
	o.seeds = seeds.Quick()
	if full {
		rounds, duration = fullRounds, fullDuration
		o.seeds = seeds.Full()
	}
	if o.rounds == 0 {
		o.rounds = rounds
	} else {
		o.seeds.Rounds, o.seeds.Count = o.rounds, o.rounds
	}
	if o.duration == 0 {
		o.duration = duration
	} else {
		o.seeds.Duration = (o.duration + time.Second - 1).Truncate(time.Second) // wrk takes whole seconds
	}
	if o.rounds < 1 || o.duration < 10*time.Millisecond {
		return fmt.Errorf("-rounds %d -duration %v: want at least one round of 10ms", o.rounds, o.duration)
	}
	return o.seeds.Check()
}

// offeredNames returns the names that -case chooses from.
func offeredNames() (names []string) {
	for _, c := range offeredCases(true) {
		names = append(names, c.name)
	}
	for _, c := range seeds.Cases() {
		names = append(names, c.Name)
	}
	return names
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

// choose chooses the cases: of all of them, or of those that are quick.
func (o *options) choose(pattern string, full bool) error {
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	for _, c := range seeds.Cases() {
		if (full || c.IsQuick) && wanted.MatchString(c.Name) {
			o.seeds.Cases = append(o.seeds.Cases, c)
		}
	}
	for _, c := range offeredCases(full) {
		if wanted.MatchString(c.name) {
			c.samples, c.perIdle, c.absent = make(map[string][]sample), make(map[string]float64), make(map[string]string)
			c.sizes = make(map[string]int)
			o.cases = append(o.cases, c)
		}
	}
	if o.cases == nil && o.seeds.Cases == nil {
		return fmt.Errorf("-case %q matches no case", pattern)
	}
	return nil
}

func run(ctx context.Context, o options) error {
	m, err := measure(ctx, o)
	if err != nil {
		return err
	}
	command.Progress("")
	return publish(os.Stdout, m)
}
