package h2

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/latency"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// What slow streams do, and how often small requests come on each connection.
const (
	sleepTime   = 20 * time.Millisecond
	computeTime = 1 * time.Millisecond
	smallPeriod = 2 * time.Millisecond
)

// A company is what a connection's other streams ask for, while small requests come.
type company struct {
	name    string
	path    string
	streams int           // of each connection
	period  time.Duration // of each of them; 0: the next request when the last was answered
	isFile  bool          // programs can serve it, too
}

var allCompany = []company{
	{name: "alone", isFile: true},
	{name: "32 streams sleep 20 ms", path: peers.SleepPath, streams: 32},
	{name: "1 stream computes 1 ms, each 10 ms", path: peers.CPUPath, streams: 1, period: 10 * time.Millisecond},
	{name: "1 download of 100 KB after the other", path: peers.LargePath, streams: 1, isFile: true},
	{name: "1 download of 100 MiB", path: peers.HugePath, streams: 1, isFile: true},
	{name: "8 downloads", path: peers.LargePath, streams: 8, isFile: true},
}

// streamsOptions are the flags of the subcommand streams.
type streamsOptions struct {
	rounds, conns int
	duration      time.Duration
	kinds         []string
	company       []company
}

// StreamsCommand returns the subcommand streams. Servers are pinned to CPU 0, their client,
// a process with Go's own transport, to CPU 1. In each round they take turns.
func StreamsCommand() *cobra.Command {
	return command.New("streams", "Measure how long small requests over HTTP/2 wait beside slow and large ones", streamsFlags, runStreams)
}

func streamsFlags(flags *pflag.FlagSet) func() (streamsOptions, error) {
	var o streamsOptions
	kinds := []string{peers.Epoll, peers.PerConn, peers.NetHTTP, nginxKind, h2o, nghttpd}
	flags.IntVar(&o.rounds, "rounds", 3, "rounds, after one to warm up")
	flags.IntVar(&o.conns, "conns", 4, "connections")
	flags.DurationVar(&o.duration, "duration", 2*time.Second, "time of one server in one round")
	pattern := flags.String("case", ".", "regular `expression` of the cases to run")
	servers := flags.String("servers", strings.Join(kinds, ","), "servers to compare; "+baseline+" always is")
	return func() (_ streamsOptions, err error) {
		if o.rounds < 1 || o.conns < 1 || o.duration < 100*time.Millisecond {
			return o, fmt.Errorf("--rounds %d --conns %d --duration %v: want at least one of each, and 100ms", o.rounds, o.conns, o.duration)
		}
		if o.company, err = command.Choose("case", *pattern, allCompany, func(c company) string { return c.name }); err != nil {
			return o, err
		}
		o.kinds, err = peers.ParseKinds(baseline+","+*servers, kinds)
		return o, err
	}
}

func runStreams(ctx context.Context, o streamsOptions) (d report.Document, err error) {
	if err := command.Require("taskset"); err != nil {
		return d, err
	}
	spins, err := peers.Calibrate(computeTime)
	if err != nil {
		return d, err
	}
	folder, err := os.MkdirTemp("", "streams")
	if err != nil {
		return d, err
	}
	var alive []*contender
	client, err := process.Start(ctx, process.Options{CPU: clientCPU, Urgent: true}, streamsRole, nil)
	defer func() {
		for _, server := range alive {
			err = errors.Join(err, server.stop())
		}
		if client != nil {
			err = errors.Join(err, client.Stop())
		}
		err = errors.Join(err, os.RemoveAll(folder))
	}()
	if err != nil {
		return d, err
	}
	c := loadCase{peer: peers.Options{HTTP2: true, Handler: peers.Handler{Mixed: true, Sleep: sleepTime, Spins: spins}}}
	for _, kind := range o.kinds {
		server, err := start(ctx, kind, "", c, folder)
		if errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			return d, fmt.Errorf("%s: %w", kind, err)
		}
		alive = append(alive, server)
	}
	s := report.Section{
		Title: "Small requests beside others",
		Head:  []string{"other streams of the connection", "server", "p50 ms", "p99 ms", "max ms", "p99 ÷ " + baseline, "small/s", "others/s", "failures"},
		Notes: []string{fmt.Sprintf("%d connections; a small request on each every %v, whose latency counts from when it was due; %d rounds of %v. "+
			"Servers have one CPU, the client, Go's own, the other one: it is a part of all latencies. nginx, h2o and nghttpd serve files.", o.conns, smallPeriod, o.rounds, o.duration)},
	}
	for _, company := range o.company {
		rows, err := company.measure(o, client, alive)
		if err != nil {
			return d, fmt.Errorf("%s: %w", company.name, err)
		}
		s.Rows = append(s.Rows, rows...)
	}
	return report.Document{Title: "Streams beside each other", Sections: []report.Section{s}}, nil
}

// measure runs the rounds of one case, and returns its rows.
func (c company) measure(o streamsOptions, client *process.Child, alive []*contender) (rows [][]string, err error) {
	var able []*contender
	var names []string
	for _, server := range alive {
		if c.isFile || !isProgram(server.kind) {
			able, names = append(able, server), append(names, server.kind)
		}
	}
	samples, err := command.Rounds(c.name, o.rounds, names, func(i int, _ bool) (*streamsResult, error) {
		return c.put(o, client, able[i].addr)
	})
	if err != nil {
		return nil, err
	}
	p99 := make(map[string][]float64)
	for _, name := range names { // the baseline is the first one
		sum := new(streamsResult)
		for _, one := range samples[name] {
			sum.add(one)
			p99[name] = append(p99[name], float64(one.Latency.Percentile(99)))
		}
		row := []string{c.name, name}
		for _, percent := range []float64{50, 99, 100} {
			row = append(row, latency.Milliseconds(sum.Latency.Percentile(percent)))
		}
		rate := func(n int) string { return fmt.Sprintf("%.0f", float64(n)/sum.Elapsed.Seconds()) }
		rows = append(rows, append(row, report.Ratio(report.Ratios(p99[name], p99[baseline])), rate(sum.Small), rate(sum.Others), fmt.Sprint(sum.Failures)))
	}
	return rows, nil
}
