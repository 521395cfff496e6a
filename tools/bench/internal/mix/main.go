// Package mix measures whether handlers stall each other: requests that compute
// for 20 ms, that sleep for 50 ms and that are answered at once come on
// connections of their own at the same time. Run it in the bench module, on
// Linux with taskset and two CPUs:
//
//	go -C tools/bench run . mix [--rounds 3] [--duration 2s] [--procs 1,2]
//
// With GOMAXPROCS=1 every server is pinned to CPU 0 and the clients to CPU 1,
// with more they share all CPUs. Requests come on a schedule, whatever the
// answers do, and latencies run from when a request was due. The servers take
// turns in random order in every round.
package mix

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// The CPUs of servers and clients with GOMAXPROCS=1.
const (
	serverCPU = 0
	clientCPU = 1
)

// What handlers do, if the flags do not say otherwise.
const (
	computeTime = 20 * time.Millisecond
	sleepTime   = 50 * time.Millisecond
)

// A stream is requests for a path, each connection's after a period.
type stream struct {
	path   string
	conns  int
	period time.Duration
}

// streams returns the load: computing takes two fifths of a CPU, and half of the sleepers sleep.
func (o options) streams() []stream {
	return []stream{
		{peers.InstantPath, 16, 20 * time.Millisecond},
		{peers.CPUPath, 2, 5 * o.compute},
		{peers.SleepPath, 64, 2 * o.sleep},
	}
}

// loads returns the streams as loads of a server.
func (m *measurement) loads(addr string) (loads []load.Load) {
	for _, s := range m.streams() {
		loads = append(loads, load.Load{
			Addr: addr, Request: load.Get(s.path+peers.Query, ""), Conns: s.conns, Duration: m.duration,
			Rate: float64(s.conns) / s.period.Seconds(),
		})
	}
	return loads
}

// allKinds are the servers that can be compared. The baseline always is.
var allKinds = [...]string{peers.PerConn, peers.Epoll, peers.FastHTTP, peers.NetHTTP}

const baseline = peers.PerConn

// options are the command's flags.
type options struct {
	rounds   int
	duration time.Duration
	compute  time.Duration // CPU time of a request for peers.CPUPath
	sleep    time.Duration // of a request for peers.SleepPath
	procs    []int
	kinds    []string
}

// Command returns the subcommand.
func Command() *cobra.Command {
	return command.New("mix", "Measure whether handlers that compute, sleep or do nothing stall each other", flags, run)
}

func flags(flags *pflag.FlagSet) func() (options, error) {
	var o options
	flags.IntVar(&o.rounds, "rounds", 3, "rounds, after one to warm up")
	flags.DurationVar(&o.duration, "duration", 2*time.Second, "time of one server in one round")
	flags.DurationVar(&o.compute, "compute", computeTime, "CPU time of a request that computes")
	flags.DurationVar(&o.sleep, "sleep", sleepTime, "time of a request that sleeps")
	procs := flags.String("procs", "1,2", "values of GOMAXPROCS")
	servers := flags.String("servers", strings.Join(allKinds[:3], ","), "servers to compare; "+baseline+" always is, "+peers.NetHTTP+" can be")
	return func() (_ options, err error) {
		if o.rounds < 1 || o.duration < 100*time.Millisecond {
			return o, fmt.Errorf("--rounds %d --duration %v: want at least one round of 100ms", o.rounds, o.duration)
		}
		if o.compute < 100*time.Microsecond || o.sleep < time.Millisecond {
			return o, fmt.Errorf("--compute %v --sleep %v: want at least 100µs and 1ms", o.compute, o.sleep)
		}
		if o.procs, err = command.ParseProcs(*procs); err != nil {
			return o, err
		}
		if o.kinds, err = peers.ParseKinds(*servers, allKinds[:]); err != nil {
			return o, err
		}
		if !slices.Contains(o.kinds, baseline) {
			o.kinds = append([]string{baseline}, o.kinds...)
		}
		return o, nil
	}
}

func run(ctx context.Context, o options) (d report.Document, err error) {
	if err := command.Require("taskset"); err != nil {
		return d, err
	}
	command.Progress("calibrating")
	spins, err := peers.Calibrate(o.compute)
	if err != nil {
		return d, err
	}
	all := make([]*measurement, len(o.procs))
	for i, procs := range o.procs {
		all[i] = &measurement{options: o, procs: procs, spins: spins, samples: make(map[string][]sample)}
		defer func() { err = errors.Join(err, all[i].stop()) }()
		if startErr := all[i].start(ctx); startErr != nil {
			return d, startErr
		}
	}
	for round := range o.rounds + 1 { // round 0 warms up
		for _, m := range all {
			if err := m.round(round); err != nil {
				return d, err
			}
		}
	}
	return document(o, all), nil
}

// A measurement is under way with one GOMAXPROCS.
type measurement struct {
	options
	procs, spins int

	servers   []*servers.Server // in the order of kinds
	generator *load.Generator

	samples map[string][]sample // by kind, round by round
}

// A sample is one server's turn in one round, with a result per stream.
type sample []load.Result

// start starts the servers and the process that puts load on them.
func (m *measurement) start(ctx context.Context) error {
	server := process.Options{CPU: process.AnyCPU, Procs: m.procs}
	clients := process.Options{CPU: process.AnyCPU, Urgent: true}
	if m.procs == 1 {
		server.CPU, clients.CPU = serverCPU, clientCPU
	}
	for _, kind := range m.kinds {
		s, err := servers.Start(ctx, servers.Options{
			Kind: kind, Options: server,
			Peer: peers.Options{Handler: peers.Handler{Mixed: true, Sleep: m.sleep, Spins: m.spins}},
		})
		if err != nil {
			return err
		}
		m.servers = append(m.servers, s)
	}
	var err error
	m.generator, err = load.Start(ctx, clients)
	return err
}

func (m *measurement) stop() error {
	var errs []error
	if m.generator != nil {
		errs = append(errs, m.generator.Stop())
	}
	return errors.Join(append(errs, servers.StopAll(m.servers))...)
}

// round puts the load on every server once, in random order.
func (m *measurement) round(round int) error {
	for _, i := range rand.Perm(len(m.kinds)) {
		command.Progress("round %d/%d, GOMAXPROCS %d, %s", round, m.rounds, m.procs, m.kinds[i])
		err := m.generator.Open(m.loads(m.servers[i].Addr)...)
		var results sample
		if err == nil {
			results, err = m.generator.Run()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.kinds[i], err)
		}
		if round > 0 {
			m.samples[m.kinds[i]] = append(m.samples[m.kinds[i]], results)
		}
	}
	return nil
}
