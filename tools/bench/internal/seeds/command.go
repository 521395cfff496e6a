// Package seeds repeats the measurements that fasthttp's README and the prefork
// packages published, with Sluice beside fasthttp and net/http, and sets the
// published figures next to them: the last sections of the report of wire, on
// their own. Run it in the bench module:
//
//	go -C tools/bench run . seeds [--part REGEXP] [--cpu 1,2,4] [--out DIR]
//
// The parts are: server, the in-memory table of servers (it runs ratios);
// client, that of clients (it runs client); prefork, 512 connections
// on 4 threads against one process and against a process per CPU, which needs
// Linux.
package seeds

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// Command returns the subcommand.
func Command() *cobra.Command {
	return command.New("seeds", "Repeat what fasthttp's README and the prefork packages published", flags, run)
}

func flags(flags *pflag.FlagSet) func() (Options, error) {
	o := Full()
	part := flags.String("part", ".", "regular `expression` of the parts, or of the cases in them: server, client, prefork; --list names them")
	servers := flags.String("servers", strings.Join(Kinds(), ","), "servers of prefork")
	flags.StringVar(&o.CPUs, "cpu", o.CPUs, "values of GOMAXPROCS, in memory")
	flags.IntVar(&o.Count, "count", o.Count, "rounds of the benchmarks of servers in memory")
	flags.DurationVar(&o.BenchTime, "benchtime", o.BenchTime, "time of one of them in one round")
	flags.IntVar(&o.Rounds, "rounds", o.Rounds, "rounds of prefork")
	flags.DurationVar(&o.Duration, "duration", o.Duration, "time of one server in one of them")
	flags.BoolVar(&o.list, "list", false, "list the cases and do nothing else")
	return func() (_ Options, err error) {
		if o.Cases, err = command.Choose("part", *part, Cases(), func(c Case) string { return c.Name }); err != nil {
			return o, err
		}
		if o.Kinds, err = peers.ParseKinds(*servers, Kinds()); err != nil {
			return o, err
		}
		return o, o.Check()
	}
}

func run(ctx context.Context, o Options) (d report.Document, err error) {
	if o.list {
		for _, c := range Cases() {
			fmt.Println(c.Name)
		}
		return d, nil
	}
	d.Title = "The published benchmarks, repeated"
	d.Sections, err = Measure(ctx, o)
	return d, err
}
