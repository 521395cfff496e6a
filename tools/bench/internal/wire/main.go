// Package wire compares servers over TCP by what counts on a machine that
// serves: CPU time per request. Run it in the bench module, on Linux with
// taskset and two CPUs:
//
//	go -C tools/bench run . wire [--quick|--full] [--head two|browser|both] [--out DIR] [--case REGEXP] [--servers LIST]
//
// Every server is a process pinned to CPU 0, the clients are one thread pinned
// to CPU 1. The servers of a case take turns in random order in every round;
// ratios are medians of the rounds' ratios. Requests per second are capped by
// the client, so trust the CPU time. --full repeats some cases with servers that have as many
// Ps as there are CPUs: with nothing pinned, at half load too, and on one CPU.
package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// The CPUs of servers and of the client.
const (
	serverCPU = 0
	clientCPU = 1
)

// allKinds are the servers that can be compared. The baseline always is. The first
// ordinaryKinds of them are if no flag says which.
var allKinds = [...]string{
	peers.Epoll, peers.PerConn, peers.FastHTTP, peers.Fiber, peers.Hertz, peers.NetHTTP, peers.Gnet, nginxKind, floorKind,
	multipath, preforkKind,
}

const ordinaryKinds = len(allKinds) - 2

// multipath is the kind of peers.Epoll with a listener for Multipath TCP, as
// net.Listen makes it.
const multipath = "multipath"

// preforkKind is Sluice with a worker process on each CPU.
const preforkKind = "prefork"

// before is the kind of peers.Epoll in the program of --before.
const before = "before"

const baseline = peers.FastHTTP

// options are the command's flags.
type options struct {
	rounds   int
	duration time.Duration
	kinds    []string
	others   map[string]string // commands of servers, by their kinds
	before   string            // another build of this program; "": none
	heads    []load.Head
	cases    []*wireCase
	list     bool // name the cases, and do nothing else
}

// What --quick and --full stand for.
const (
	quickRounds, quickDuration = 3, 200 * time.Millisecond
	fullRounds, fullDuration   = 7, 700 * time.Millisecond
)

// Command returns the subcommand.
func Command() *cobra.Command {
	return command.New("wire", "Compare servers' CPU time per request over TCP", flags, run)
}

func flags(flags *pflag.FlagSet) func() (options, error) {
	var o options
	quick := flags.Bool("quick", false, fmt.Sprintf("three minutes: %d rounds of %v; the default", quickRounds, quickDuration))
	full := flags.Bool("full", false, fmt.Sprintf("25 minutes: %d rounds of %v, further cases, and some on all CPUs", fullRounds, fullDuration))
	flags.IntVar(&o.rounds, "rounds", 0, "rounds, after one to warm up, but for clients in memory; 0: as --quick or --full says")
	flags.DurationVar(&o.duration, "duration", 0, "time of one server in one round over the wire; 0: as --quick or --full says")
	pattern := flags.String("case", ".", "regular `expression` of the cases to run; --list names them")
	heads := flags.String("head", "two", "heads of the requests: two (Host, User-Agent and what the load needs), browser (12 fields), or both, which takes twice the time")
	servers := flags.String("servers", strings.Join(allKinds[:ordinaryKinds], ","), "servers to compare over the wire, also "+strings.Join(allKinds[ordinaryKinds:], ", ")+"; "+baseline+" always is one")
	programs := flags.StringArray("program", nil, "a further server, as `NAME=COMMAND`: a program with its arguments, in which {addr} or {port} is where it is to listen, {body} a file with the body of its answers, and {case} what is asked: text, large, json, file, gzip, tls or sleep; without {body} it is in the cases with a short text only, POST among them")
	flags.StringVar(&o.before, "before", "", "a `program` bench of another commit, in which epoll is measured, too, with the same handlers")
	flags.BoolVar(&o.list, "list", false, "list the cases and do nothing else")
	return func() (_ options, err error) {
		if *quick && *full {
			return o, errors.New("--quick and --full: want one of them")
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
		if err := o.add(*programs); err != nil {
			return o, err
		}
		if o.heads, err = load.ParseHeads(*heads); err != nil {
			return o, err
		}
		return o, o.choose(*pattern, *full || *pattern != ".")
	}
}

// add makes kinds of servers of programs.
func (o *options) add(programs []string) error {
	if o.before != "" {
		o.kinds = append(o.kinds, before)
	}
	names, commands, err := command.ParsePrograms(programs, slices.Concat(allKinds[:], []string{before}))
	o.kinds, o.others = append(o.kinds, names...), commands
	return err
}

// setTimes fills in the rounds and times that no flag gives.
func (o *options) setTimes(full bool) error {
	rounds, duration := quickRounds, quickDuration
	if full {
		rounds, duration = fullRounds, fullDuration
	}
	if o.rounds == 0 {
		o.rounds = rounds
	}
	if o.duration == 0 {
		o.duration = duration
	}
	if o.rounds < 1 || o.duration < 10*time.Millisecond {
		return fmt.Errorf("--rounds %d --duration %v: want at least one round of 10ms", o.rounds, o.duration)
	}
	return nil
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
	return append(cases, spreadCases()...)
}

// spreadCases returns cases in which servers have as many Ps, or processes, as there are CPUs.
func spreadCases() (cases []*wireCase) {
	for _, c := range allCases() {
		if !c.spread {
			continue
		}
		c.goal = goal{}
		shared, apart, half := *c, *c, *c
		shared.name, shared.shared = c.name+", all CPUs", true
		apart.name, apart.apart = c.name+", all Ps on one CPU", true
		half.name, half.shared, half.half = c.name+", all CPUs, half load", true, true
		if cases = append(cases, &shared); c.load.Depth == 0 {
			cases = append(cases, &apart, &half)
		}
	}
	return cases
}

// choose chooses the cases, of all of them or of those that are quick, with each of the heads.
func (o *options) choose(pattern string, full bool) error {
	chosen, err := command.Choose("case", pattern, offeredCases(full), func(c *wireCase) string { return c.name })
	for _, c := range chosen {
		for _, h := range o.heads {
			one := *c
			one.head = h
			o.cases = append(o.cases, one.begin())
		}
	}
	return err
}

func run(ctx context.Context, o options) (d report.Document, err error) {
	if o.list {
		for _, c := range offeredCases(true) {
			fmt.Println(c.name)
		}
		return d, nil
	}
	m, err := measure(ctx, o)
	if err != nil {
		return d, err
	}
	return document(m), nil
}
