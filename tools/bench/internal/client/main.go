// Package client compares clients over TCP by their CPU time per request. Run it in the
// bench module, on Linux with taskset and two CPUs:
//
//	go -C tools/bench run . client [--rounds N] [--requests N] [--case REGEXP]
//
// Every client is a process pinned to CPU 0 with one P; the server, which is the same for
// all, is pinned to CPU 1. The clients take turns in random order in every round; ratios
// are medians of the rounds' ratios.
package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
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
	fields     int           // of the request's head, set anew for each
	contenders []string
}

var (
	http1 = []string{fasthttpName, sluiceName, netHTTPName, bytesName}
	http2 = []string{netHTTP2Name, sluice2Name, sluiceName}
)

var allCases = []loadCase{
	{"HTTP/1.1, 1 caller", 1, 0, 0, http1},
	{"HTTP/1.1, 64 callers", 64, 0, 0, http1},
	{"HTTP/1.1, 64 callers, a time-out each", 64, time.Minute, 0, []string{fasthttpName, sluiceName, netHTTPName}},
	{"HTTP/1.1, 64 callers, URI and 5 fields set", 64, 0, len(headFields), []string{fasthttpName, sluiceName, netHTTPName}},
	{"HTTP/2, 1 caller", 1, 0, 0, http2},
	{"HTTP/2, 64 callers", 64, 0, 0, http2},
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
		o.cases, err = command.Choose("case", *pattern, allCases, func(c loadCase) string { return c.name })
		return o, err
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
		Head:  []string{"load", "client", "CPU µs/req", "user", "system", "CPU ratio", "user ratio"},
		Notes: []string{fmt.Sprintf("%d rounds of %d requests for each client, in random order, after one to warm up. The first client of a load is what the others are divided by. "+
			"In brackets the lowest and the highest round's ratio. bytes is no client: it writes and reads constant bytes. User time is that share of the median CPU time which the kernel's ticks have found in user mode, in all rounds together.", o.rounds, o.requests)},
	}
	for _, c := range o.cases {
		spent, err := measure(ctx, o, c, server.Addr)
		if err != nil {
			return d, fmt.Errorf("%s: %w", c.name, err)
		}
		for i, name := range c.contenders {
			all, user := report.Median(spent[i].cpu), spent[i].userTime()
			s.Rows = append(s.Rows, []string{
				c.name, name, fmt.Sprintf("%.2f", all), fmt.Sprintf("%.2f", user), fmt.Sprintf("%.2f", all-user),
				report.Ratio(report.Ratios(spent[i].cpu, spent[0].cpu)), fmt.Sprintf("%.2f", user/spent[0].userTime()),
			})
		}
	}
	return report.Document{Title: "Clients over the wire", Sections: []report.Section{s}}, nil
}

// times are what a client's rounds have taken.
type times struct {
	cpu   []float64     // µs per request
	usage process.Usage // of all rounds
}

// userTime returns the user time per request, in µs.
func (t *times) userTime() float64 {
	return report.Median(t.cpu) * t.usage.UserShare()
}

// measure returns the times of each contender.
func measure(ctx context.Context, o options, c loadCase, addr string) (spent []times, err error) {
	var children []*process.Child
	defer func() {
		for _, child := range children {
			err = errors.Join(err, child.Stop())
		}
	}()
	for _, name := range c.contenders {
		child, err := process.Start(ctx, process.Options{CPU: clientCPU, Procs: 1}, role, config{name, addr, c.callers, c.fields, c.timeout})
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	}
	samples, err := command.Rounds(c.name, o.rounds, c.contenders, func(i int, _ bool) (process.Usage, error) {
		return turn(children[i], o.requests)
	})
	spent = make([]times, len(children))
	for i, name := range c.contenders {
		for _, used := range samples[name] {
			spent[i].usage.Add(process.Usage{}, used)
			spent[i].cpu = append(spent[i].cpu, float64(used.CPU.Nanoseconds())/1000/float64(o.requests))
		}
	}
	return spent, err
}

// turn makes a client send requests, and returns what it used for them.
func turn(child *process.Child, requests int) (used process.Usage, err error) {
	before, err := child.TreeUsage()
	if err != nil {
		return used, err
	}
	if err := child.Tell(strconv.Itoa(requests)); err != nil {
		return used, err
	}
	done := 0
	if err := child.Result(&done); err != nil {
		return used, err
	}
	if done != requests {
		return used, fmt.Errorf("%d requests instead of %d", done, requests)
	}
	after, err := child.TreeUsage()
	used.Add(before, after)
	return used, err
}
