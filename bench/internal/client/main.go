// Package client compares clients over TCP by their CPU time per request. Run it in the
// bench module, on Linux with taskset and two CPUs:
//
//	go -C bench run . client [--rounds N] [--requests N] [--case REGEXP]
//
// Every client is a process pinned to CPU 0 with one P; the server, which is the same for
// all, is pinned to CPU 1. The clients take turns in random order in every round; ratios
// are medians of the rounds' ratios.
package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/bench/internal/command"
	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/servers"
	"github.com/sluicehttp/sluice/lab/process"
	"github.com/sluicehttp/sluice/lab/report"
)

// The CPUs of clients and of the server.
const (
	clientCPU = 0
	serverCPU = 1
)

// A loadCase is what the clients do. The first contender is what the others are divided by.
type loadCase struct {
	name       string
	callers    int
	timeout    time.Duration // of each request; 0: none
	contenders []string
}

var (
	http1 = []string{fasthttpName, sluiceName, netHTTPName, bytesName}
	http2 = []string{netHTTP2Name, sluice2Name, sluiceName}
)

var allCases = []loadCase{
	{"HTTP/1.1, 1 caller", 1, 0, http1},
	{"HTTP/1.1, 64 callers", 64, 0, http1},
	{"HTTP/1.1, 64 callers, a time-out each", 64, time.Minute, []string{fasthttpName, sluiceName, netHTTPName}},
	{"HTTP/2, 1 caller", 1, 0, http2},
	{"HTTP/2, 64 callers", 64, 0, http2},
}

// options are the command's flags.
type options struct {
	rounds, requests int
	cases            []loadCase
}

// Command returns the subcommand.
func Command() *cobra.Command {
	return command.New("client", "Compare clients' CPU time per request over TCP", flags, run)
}

func flags(flags *pflag.FlagSet) func() (options, error) {
	var o options
	flags.IntVar(&o.rounds, "rounds", 7, "rounds, after one to warm up")
	flags.IntVar(&o.requests, "requests", 20_000, "requests of a client in a round")
	pattern := flags.String("case", ".", "regular `expression` of the cases to run")
	return func() (_ options, err error) {
		if o.rounds < 1 || o.requests < 1000 {
			return o, fmt.Errorf("--rounds %d --requests %d: want at least one round of 1000", o.rounds, o.requests)
		}
		wanted, err := regexp.Compile(*pattern)
		if err != nil {
			return o, err
		}
		for _, c := range allCases {
			if wanted.MatchString(c.name) {
				o.cases = append(o.cases, c)
			}
		}
		if o.cases == nil {
			return o, errors.New("no case matches --case")
		}
		return o, nil
	}
}

func run(ctx context.Context, o options) (d report.Document, err error) {
	if err := command.Require("taskset"); err != nil {
		return d, err
	}
	server, err := servers.Start(ctx, servers.Options{Options: process.Options{CPU: serverCPU, Procs: 1}, Kind: peers.Epoll, Peer: peers.Options{HTTP2: true}})
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	s := report.Section{
		Title: "CPU µs per request of the client's process, medians of the rounds",
		Head:  []string{"load", "client", "CPU µs/req", "ratio"},
		Notes: []string{fmt.Sprintf("%d rounds of %d requests for each client, in random order, after one to warm up. The first client of a load is what the others are divided by. "+
			"In brackets the lowest and the highest round's ratio. bytes is no client: it writes and reads constant bytes.", o.rounds, o.requests)},
	}
	for _, c := range o.cases {
		cpu, err := measure(ctx, o, c, server.Addr)
		if err != nil {
			return d, fmt.Errorf("%s: %w", c.name, err)
		}
		for i, name := range c.contenders {
			s.Rows = append(s.Rows, []string{c.name, name, fmt.Sprintf("%.2f", report.Median(cpu[i])), report.Ratio(report.Ratios(cpu[i], cpu[0]))})
		}
	}
	return report.Document{Title: "Clients over the wire", Sections: []report.Section{s}}, nil
}

// measure returns the CPU time of each contender's rounds, in µs per request.
func measure(ctx context.Context, o options, c loadCase, addr string) (cpu [][]float64, err error) {
	var children []*process.Child
	defer func() {
		for _, child := range children {
			err = errors.Join(err, child.Stop())
		}
	}()
	for _, name := range c.contenders {
		child, err := process.Start(ctx, process.Options{CPU: clientCPU, Procs: 1}, role, config{name, addr, c.callers, c.timeout})
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	}
	cpu = make([][]float64, len(children))
	for round := range o.rounds + 1 { // round 0 warms up
		command.Progress("%s: round %d/%d", c.name, round, o.rounds)
		for _, i := range rand.Perm(len(children)) {
			spent, err := turn(children[i], o.requests)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.contenders[i], err)
			}
			if round > 0 {
				cpu[i] = append(cpu[i], float64(spent.Nanoseconds())/1000/float64(o.requests))
			}
		}
	}
	return cpu, nil
}

// turn makes a client send requests, and returns its CPU time for them.
func turn(child *process.Child, requests int) (time.Duration, error) {
	before, err := child.TreeCPU()
	if err != nil {
		return 0, err
	}
	if err := child.Tell(strconv.Itoa(requests)); err != nil {
		return 0, err
	}
	done := 0
	if err := child.Result(&done); err != nil {
		return 0, err
	}
	after, err := child.TreeCPU()
	if done != requests {
		err = errors.Join(err, fmt.Errorf("%d requests instead of %d", done, requests))
	}
	return after - before, err
}
