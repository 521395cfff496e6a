package h2

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
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
		wanted, err := regexp.Compile(*pattern)
		if err != nil {
			return o, err
		}
		for _, c := range allCompany {
			if wanted.MatchString(c.name) {
				o.company = append(o.company, c)
			}
		}
		if o.company == nil {
			return o, errors.New("no case matches --case")
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
		server, err := start(ctx, kind, c, folder)
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
	sums, p99 := make(map[string]*streamsResult), make(map[string][]float64)
	for round := range o.rounds + 1 { // round 0 warms up
		command.Progress("%s: round %d/%d", c.name, round, o.rounds)
		for _, i := range rand.Perm(len(alive)) {
			server := alive[i]
			if isProgram(server.kind) && !c.isFile {
				continue
			}
			result, err := c.put(o, client, server.addr)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", server.kind, err)
			}
			if round == 0 {
				continue
			}
			if sums[server.kind] == nil {
				sums[server.kind] = new(streamsResult)
			}
			sums[server.kind].add(result)
			p99[server.kind] = append(p99[server.kind], float64(result.Latency.Percentile(99)))
		}
	}
	for _, server := range alive {
		sum := sums[server.kind]
		if sum == nil {
			continue
		}
		row := []string{c.name, server.kind}
		for _, percent := range []float64{50, 99, 100} {
			row = append(row, latency.Milliseconds(sum.Latency.Percentile(percent)))
		}
		rate := func(n int) string { return fmt.Sprintf("%.0f", float64(n)/sum.Elapsed.Seconds()) }
		rows = append(rows, append(row, report.Ratio(report.Ratios(p99[server.kind], p99[baseline])), rate(sum.Small), rate(sum.Others), fmt.Sprint(sum.Failures)))
	}
	return rows, nil
}
