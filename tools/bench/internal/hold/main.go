// Package hold measures many connections in one server process over time. Run
// it in the bench module, on Linux:
//
//	go -C tools/bench run . hold [--conns 19000] [--duration 60s]
//	go -C tools/bench run . hold --churn 200000
//
// The first form holds connections that each send a request a second, on a
// schedule that does not wait for answers: latencies run from when a request
// was due. The second opens and closes connections, with a request on each, and
// compares what the server has before and afterwards: descriptors, goroutines
// and memory. The servers run one after the other, each alone.
package hold

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// allKinds are the servers that can be measured.
var allKinds = [...]string{peers.PerConn, peers.Epoll, peers.FastHTTP, peers.NetHTTP}

// options are the command's flags.
type options struct {
	conns            int
	period, duration time.Duration
	churn, width     int
	patience         time.Duration
	kinds            []string
}

// Command returns the subcommand.
func Command() *cobra.Command {
	return command.New("hold", "Measure many connections in one server process: held (the default), or opened and closed (--churn)", flags, run)
}

func flags(flags *pflag.FlagSet) func() (options, error) {
	var o options
	flags.IntVar(&o.conns, "conns", 19_000, "connections to hold")
	flags.DurationVar(&o.period, "period", time.Second, "time between two requests of a connection")
	flags.DurationVar(&o.duration, "duration", time.Minute, "time for which requests are sent")
	flags.IntVar(&o.churn, "churn", 0, "connections to open and close, instead of holding any")
	flags.IntVar(&o.width, "width", 64, "connections that are open at a time with --churn")
	flags.DurationVar(&o.patience, "patience", 30*time.Second, "how long a server may take to give back what it used with --churn")
	servers := flags.String("servers", strings.Join(allKinds[:2], ","), "servers to measure; "+strings.Join(allKinds[2:], " and ")+" can be, too")
	return func() (_ options, err error) {
		if o.period < time.Millisecond || o.duration < o.period || o.churn < 0 || o.patience < 0 {
			return o, fmt.Errorf("--period %v --duration %v --churn %d --patience %v: want a period of a millisecond, a duration that is no shorter, and nothing negative", o.period, o.duration, o.churn, o.patience)
		}
		if err := process.CheckConnections(o.conns); err != nil {
			return o, err
		}
		if err := process.CheckConnections(o.width); err != nil {
			return o, fmt.Errorf("--width: %w", err)
		}
		o.kinds, err = peers.ParseKinds(*servers, allKinds[:])
		return o, err
	}
}

func run(ctx context.Context, o options) (d report.Document, err error) {
	measure := holdAll
	if o.churn > 0 {
		measure = churnAll
	}
	section, failure := measure(ctx, o)
	if section.Rows != nil { // what was measured before a failure is shown, too
		d.Sections = []report.Section{section}
	}
	return d, failure
}

// startServer starts a server that may run on every CPU.
func startServer(ctx context.Context, kind string) (*servers.Server, error) {
	return servers.Start(ctx, servers.Options{Options: process.Options{CPU: process.AnyCPU}, Kind: kind})
}
