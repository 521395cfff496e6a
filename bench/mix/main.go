// Command mix measures whether handlers stall each other: requests that compute
// for 20 ms, that sleep for 50 ms and that are answered at once come on
// connections of their own at the same time. Run it in the bench module, on
// Linux with taskset and two CPUs:
//
//	go -C bench run ./mix [-rounds 3] [-duration 2s] [-procs 1,2]
//
// With GOMAXPROCS=1 every server is pinned to CPU 0 and the clients to CPU 1,
// with more they share all CPUs. Requests come on a schedule, whatever the
// answers do, and latencies run from when a request was due. The servers take
// turns in random order in every round.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/client"
	"github.com/sluicehttp/sluice/bench/internal/command"
	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/process"
)

// The CPUs of servers and clients with GOMAXPROCS=1.
const (
	serverCPU = 0
	clientCPU = 1
)

// What handlers do.
const (
	computeTime = 20 * time.Millisecond
	sleepTime   = 50 * time.Millisecond
)

// streams returns the load: computing takes two fifths of a CPU.
func streams() []client.Stream {
	return []client.Stream{
		{Target: peers.InstantTarget, Conns: 16, Period: 20 * time.Millisecond},
		{Target: peers.CPUTarget, Conns: 2, Period: 100 * time.Millisecond},
		{Target: peers.SleepTarget, Conns: 64, Period: 100 * time.Millisecond},
	}
}

// allKinds are the servers that can be compared. The baseline always is.
var allKinds = [...]string{peers.PerConn, peers.Epoll, peers.FastHTTP, peers.NetHTTP}

const baseline = peers.PerConn

func main() {
	process.Main(client.Roles())
	command.Main("mix", parseFlags, run)
}

// options are the command's flags.
type options struct {
	rounds   int
	duration time.Duration
	procs    []int
	kinds    []string

	markdown, commandLine string
}

func parseFlags(args []string) (o options, err error) {
	flags := command.NewFlagSet("mix", "Command mix measures whether handlers that compute, sleep or do nothing stall each other.")
	flags.IntVar(&o.rounds, "rounds", 3, "rounds, after one to warm up")
	flags.DurationVar(&o.duration, "duration", 2*time.Second, "time of one server in one round")
	procs := flags.String("procs", "1,2", "values of GOMAXPROCS")
	servers := flags.String("servers", strings.Join(allKinds[:3], ","), "servers to compare; "+baseline+" always is, "+peers.NetHTTP+" can be")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.markdown, o.commandLine = flags.Markdown, flags.CommandLine()
	if o.rounds < 1 || o.duration < 100*time.Millisecond {
		return o, fmt.Errorf("-rounds %d -duration %v: want at least one round of 100ms", o.rounds, o.duration)
	}
	for field := range strings.SplitSeq(*procs, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 {
			return o, fmt.Errorf("-procs %q: want numbers, such as 1,2", *procs)
		}
		o.procs = append(o.procs, n)
	}
	if o.kinds, err = peers.ParseKinds(*servers, allKinds[:]); err != nil {
		return o, err
	}
	if !slices.Contains(o.kinds, baseline) {
		o.kinds = append([]string{baseline}, o.kinds...)
	}
	return o, nil
}

func run(ctx context.Context, o options) (err error) {
	if err := command.Require("taskset"); err != nil {
		return err
	}
	command.Progress("calibrating")
	spins, err := calibrate(computeTime)
	if err != nil {
		return err
	}
	all := make([]*measurement, len(o.procs))
	for i, procs := range o.procs {
		all[i] = &measurement{options: o, procs: procs, spins: spins, samples: make(map[string][]sample)}
		defer func() { err = errors.Join(err, all[i].stop()) }()
		if startErr := all[i].start(ctx); startErr != nil {
			return startErr
		}
	}
	for round := range o.rounds + 1 { // round 0 warms up
		for _, m := range all {
			if err := m.round(round); err != nil {
				return err
			}
		}
	}
	command.Progress("")
	return document(o, all).Publish(os.Stdout, o.markdown)
}

// A measurement is under way with one GOMAXPROCS.
type measurement struct {
	options
	procs, spins int

	servers []*process.Server // in the order of kinds
	pacers  []*client.Pacer   // in the order of kinds

	samples map[string][]sample // by kind, round by round
}

// A sample is one server's turn in one round, with a result per stream.
type sample []*client.StreamResult

// start starts the servers, each with clients that are connected.
func (m *measurement) start(ctx context.Context) error {
	server := process.Options{CPU: process.AnyCPU, Procs: m.procs}
	clients := process.Options{CPU: process.AnyCPU, Urgent: true}
	if m.procs == 1 {
		server.CPU, clients.CPU = serverCPU, clientCPU
	}
	for _, kind := range m.kinds {
		s, err := process.StartServer(ctx, process.ServerOptions{
			Kind: kind, Options: server,
			Peer: peers.Options{Handler: peers.Handler{Mixed: true, Sleep: sleepTime, Spins: m.spins}},
		})
		if err != nil {
			return err
		}
		m.servers = append(m.servers, s)
		p, err := client.StartPacer(ctx, clients, client.PaceConfig{Addr: s.Addr, Duration: m.duration, Streams: streams()})
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		m.pacers = append(m.pacers, p)
	}
	return nil
}

func (m *measurement) stop() error {
	var errs []error
	for _, p := range m.pacers {
		errs = append(errs, p.Stop())
	}
	return errors.Join(append(errs, process.StopServers(m.servers))...)
}

// round puts the load on every server once, in random order.
func (m *measurement) round(round int) error {
	for _, i := range rand.Perm(len(m.kinds)) {
		command.Progress("round %d/%d, GOMAXPROCS %d, %s", round, m.rounds, m.procs, m.kinds[i])
		results, err := m.pacers[i].Run()
		if err != nil {
			return fmt.Errorf("%s: %w", m.kinds[i], err)
		}
		if round > 0 {
			m.samples[m.kinds[i]] = append(m.samples[m.kinds[i]], results)
		}
	}
	return nil
}
