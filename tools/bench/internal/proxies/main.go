// Package proxies compares reverse proxies over TCP by their CPU time per request, and by the
// memory of idle WebSockets and streams of events. Run it in the bench module, on Linux with
// taskset, nginx and two CPUs:
//
//	go -C tools/bench run . proxy [--rounds N] [--duration D] [--conns N] [--case REGEXP] [--servers LIST] [--before PROGRAM]
//
// Every proxy is a process pinned to CPU 0 with one thread for requests; the client and the
// upstream share CPU 1. All proxies of a case are up at the same time, and take turns in random order
// in every round; ratios are medians of the rounds' ratios.
package proxies

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/nginx"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// The CPUs of proxies, and of the client and the upstream.
const (
	proxyCPU  = 0
	clientCPU = 1
)

// Kinds of proxies.
const (
	ours      = peers.Sluice
	nginxKind = "nginx"
	haproxy   = "haproxy"
	netHTTP   = peers.NetHTTP
	fiber     = peers.Fiber
	traefik   = "traefik"
	before    = "before" // the command, in the program of --before
)

var allKinds = []string{ours, nginxKind, haproxy, netHTTP, fiber, traefik}

// baseline is what the others are divided by.
const baseline = nginxKind

// most is the most that our CPU time per request ÷ the baseline's may be.
const most = 1.0

// options are the command's flags.
type options struct {
	rounds    int
	duration  time.Duration
	requests  int64 // of a turn; 0: duration ends it
	conns     int   // that are idle
	untilIdle time.Duration
	kinds     []string
	program   string // the command; "": it is built
	before    string // another build of the command; "": none
	cases     []proxyCase
	idle      []idleCase
}

// Command returns the subcommand.
func Command() *cobra.Command {
	return command.New("proxy", "Compare reverse proxies over TCP", flags, run)
}

func flags(flags *pflag.FlagSet) func() (options, error) {
	o := options{untilIdle: untilIdle}
	flags.IntVar(&o.rounds, "rounds", 7, "rounds, after one to warm up")
	flags.DurationVar(&o.duration, "duration", 500*time.Millisecond, "time of one proxy in one round")
	flags.IntVar(&o.conns, "conns", 2000, "WebSockets, and streams of events, that are idle")
	flags.StringVar(&o.before, "before", "", "a `program` sluice of another commit, which is measured, too, but for idle connections")
	pattern := flags.String("case", ".", "regular `expression` of the cases to run")
	servers := flags.String("servers", strings.Join(allKinds, ","), "proxies to compare; "+baseline+" always is")
	return func() (_ options, err error) {
		if o.rounds < 1 || o.duration < 10*time.Millisecond {
			return o, fmt.Errorf("--rounds %d --duration %v: want at least one round of 10ms", o.rounds, o.duration)
		}
		if o.conns < 1 {
			return o, fmt.Errorf("--conns %d: want at least one", o.conns)
		}
		if err := process.CheckConnections(2 * (o.conns + firstConns)); err != nil { // of both sides
			return o, err
		}
		if err := o.choose(*pattern); err != nil {
			return o, err
		}
		if o.kinds, err = peers.ParseKinds(*servers+","+baseline, allKinds); o.before != "" {
			o.kinds = append(o.kinds, before)
		}
		return o, err
	}
}

// choose chooses cases of both kinds by their names.
func (o *options) choose(pattern string) error {
	var names []string
	for _, c := range allCases() {
		names = append(names, c.name)
	}
	for _, c := range idleCases {
		names = append(names, c.name)
	}
	chosen, err := command.Choose("case", pattern, names, func(name string) string { return name })
	if err != nil {
		return err
	}
	o.cases = slices.DeleteFunc(allCases(), func(c proxyCase) bool { return !slices.Contains(chosen, c.name) })
	o.idle = slices.DeleteFunc(slices.Clone(idleCases), func(c idleCase) bool { return !slices.Contains(chosen, c.name) })
	return nil
}

func run(ctx context.Context, o options) (d report.Document, err error) {
	if err := command.Require("taskset"); err != nil {
		return d, err
	}
	if _, err := nginx.Find(nginxKind); err != nil {
		return d, err // it is the upstream, too
	}
	d.Title = "Reverse proxies"
	if len(o.cases) > 0 && o.program == "" && slices.Contains(o.kinds, ours) {
		folder, failed := os.MkdirTemp("", "proxy")
		if failed != nil {
			return d, failed
		}
		defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
		if o.program, err = command.BuildSluice(ctx, folder); err != nil {
			return d, err
		}
	}
	var all []measured
	for _, c := range o.cases {
		m, err := measure(ctx, o, c)
		if err != nil {
			return d, fmt.Errorf("%s: %w", c.name, err)
		}
		all = append(all, m)
	}
	if len(all) > 0 {
		d.Sections = append(d.Sections, requestTable(o, all))
	}
	if len(o.idle) > 0 {
		held, err := measureIdle(ctx, o)
		if err != nil {
			return d, err
		}
		d.Sections = append(d.Sections, idleTable(o, held))
	}
	return d, nil
}
