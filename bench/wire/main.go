// Command wire compares servers over TCP by what counts on a machine that
// serves: CPU time per request. Run it in the bench module, on Linux with wrk,
// taskset and two CPUs:
//
//	go -C bench run ./wire [-rounds 5] [-duration 1s] [-case REGEXP]
//
// Every server is a process pinned to CPU 0, wrk is pinned to CPU 1. The
// servers take turns in random order in every round; ratios are medians of the
// rounds' ratios. Requests per second are capped by wrk, so trust the CPU time.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/client"
	"github.com/sluicehttp/sluice/bench/internal/command"
	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/process"
	"github.com/sluicehttp/sluice/bench/internal/wrk"
)

// The CPUs of servers and of wrk.
const (
	serverCPU = 0
	clientCPU = 1
)

// allKinds are the servers that can be compared. The baseline always is.
var allKinds = [...]string{peers.PerConn, peers.Epoll, peers.FastHTTP, peers.NetHTTP}

const baseline = peers.FastHTTP

func main() {
	process.Main(client.Roles())
	command.Main("wire", parseFlags, run)
}

// options are the command's flags.
type options struct {
	rounds   int
	duration time.Duration
	kinds    []string
	cases    []*wireCase

	markdown, commandLine string
}

func parseFlags(args []string) (options, error) {
	flags := command.NewFlagSet("wire", "Command wire compares servers' CPU time per request over TCP.")
	rounds := flags.Int("rounds", 5, "rounds, after one to warm up")
	duration := flags.Duration("duration", time.Second, "time of one server in one round; whole seconds")
	pattern := flags.String("case", ".", "regular `expression` of the cases to run; -list names them")
	servers := flags.String("servers", strings.Join(allKinds[:], ","), "servers to compare; "+baseline+" always is")
	list := flags.Bool("list", false, "list the cases and do nothing else")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	o := options{rounds: *rounds, duration: *duration, markdown: flags.Markdown, commandLine: flags.CommandLine()}
	if *list {
		for _, c := range allCases() {
			fmt.Println(c.name)
		}
		return o, command.ErrDone
	}
	if o.rounds < 1 || o.duration < time.Second || o.duration%time.Second != 0 {
		return o, fmt.Errorf("-rounds %d -duration %v: want at least one round of whole seconds", o.rounds, o.duration)
	}
	var err error
	if o.kinds, err = peers.ParseKinds(*servers, allKinds[:]); err != nil {
		return o, err
	}
	if !slices.Contains(o.kinds, baseline) {
		o.kinds = append(o.kinds, baseline)
	}
	o.cases, err = selectCases(*pattern)
	return o, err
}

func selectCases(pattern string) (cases []*wireCase, err error) {
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	for _, c := range allCases() {
		if wanted.MatchString(c.name) {
			cases = append(cases, c)
		}
	}
	if cases == nil {
		return nil, fmt.Errorf("-case %q matches no case", pattern)
	}
	return cases, nil
}

func run(ctx context.Context, o options) (err error) {
	if err := command.Require("wrk", "taskset"); err != nil {
		return err
	}
	runner, err := wrk.NewRunner(clientCPU)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runner.Close()) }()
	for _, c := range o.cases {
		command.Progress("starting the servers of %q", c.name)
		stand, buildErr := c.build(ctx, o.kinds)
		defer func() { err = errors.Join(err, stand.stop()) }()
		if buildErr != nil {
			return buildErr
		}
	}
	for round := range o.rounds + 1 { // round 0 warms up
		for i, c := range o.cases {
			command.Progress("round %d/%d, case %d/%d, %s", round, o.rounds, i+1, len(o.cases), c.name)
			if err := c.measure(ctx, runner, o, round); err != nil {
				return err
			}
		}
	}
	command.Progress("")
	return document(o).Publish(os.Stdout, o.markdown)
}

// A stand is what a case is measured with: servers of its own, so that no case
// finds what another one left in their memory.
type stand struct {
	servers map[string]*process.Server // by kind
	idlers  []*process.Child           // hold idle connections
}

// build starts the servers, each with the idle connections that the case wants.
// What it returns is to be stopped even if it failed.
func (c *wireCase) build(ctx context.Context, kinds []string) (*stand, error) {
	c.stand = &stand{servers: make(map[string]*process.Server)}
	for _, kind := range kinds {
		server, err := process.StartServer(ctx, process.ServerOptions{
			Options: process.Options{CPU: serverCPU}, Kind: kind,
			Peer: peers.Options{Handler: peers.Handler{Sleep: c.sleep}}, Addresses: c.addresses,
		})
		if err != nil {
			return c.stand, err
		}
		c.stand.servers[kind] = server
		if c.idle > 0 {
			idlers, err := client.Hold(ctx, client.HoldConfig{Addr: server.Addr, Conns: c.idle})
			if err != nil {
				return c.stand, fmt.Errorf("%s, idle connections: %w", kind, err)
			}
			c.stand.idlers = append(c.stand.idlers, idlers...)
		}
	}
	return c.stand, nil
}

func (s *stand) stop() error {
	err := process.StopAll(s.idlers)
	for _, server := range s.servers {
		err = errors.Join(err, server.Stop())
	}
	return err
}

// measure puts the load on every server once, in random order.
func (c *wireCase) measure(ctx context.Context, runner *wrk.Runner, o options, round int) error {
	duration := o.duration
	if round == 0 {
		duration = time.Second
	}
	for _, i := range rand.Perm(len(o.kinds)) {
		kind := o.kinds[i]
		server := c.stand.servers[kind]
		before, err := server.CPU()
		if err != nil {
			return err
		}
		// Where every request closes a connection, the rounds take turns among
		// the server's addresses, so that closed ones are not in their way.
		s := sample{}
		s.Result, err = runner.Run(ctx, c.load, server.Addrs[round%len(server.Addrs)], duration)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", kind, c.name, err)
		}
		after, err := server.CPU()
		if err != nil {
			return err
		}
		s.cpu = after - before
		if round > 0 {
			c.samples[kind] = append(c.samples[kind], s)
		}
	}
	return nil
}
