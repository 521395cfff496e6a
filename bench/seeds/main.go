// Command seeds repeats the measurements that fasthttp's README and the prefork
// packages published, with Sluice beside fasthttp and net/http, and sets the
// published figures next to them: the last sections of the report of wire, on
// their own. Run it in the bench module:
//
//	go -C bench run ./seeds [-part REGEXP] [-cpu 1,2,4] [-out DIR]
//
// The parts are: server, the in-memory table of servers (it runs ratios);
// client, that of clients (it runs client); prefork, wrk with 512 connections
// and 4 threads against one process and against a process per CPU, which needs
// Linux and wrk.
package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/sluicehttp/sluice/bench/internal/command"
	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/process"
	"github.com/sluicehttp/sluice/bench/internal/report"
	"github.com/sluicehttp/sluice/bench/internal/seeds"
	"github.com/sluicehttp/sluice/bench/internal/workers"
)

func main() {
	process.Main(workers.Roles())
	command.Main("seeds", parseFlags, run)
}

// options are the command's flags.
type options struct {
	seeds.Options
	out string

	markdown, commandLine string
}

func parseFlags(args []string) (o options, err error) {
	flags := command.NewFlagSet("seeds", "Command seeds repeats what fasthttp's README and the prefork packages published.")
	o.Options = seeds.Full()
	part := flags.String("part", ".", "regular `expression` of the parts, or of the cases in them: server, client, prefork; -list names them")
	servers := flags.String("servers", strings.Join(seeds.Kinds(), ","), "servers of prefork")
	flags.StringVar(&o.CPUs, "cpu", o.CPUs, "values of GOMAXPROCS, in memory")
	flags.IntVar(&o.Count, "count", o.Count, "rounds of the benchmarks of servers in memory")
	flags.DurationVar(&o.BenchTime, "benchtime", o.BenchTime, "time of one of them in one round")
	flags.IntVar(&o.Rounds, "rounds", o.Rounds, "rounds of prefork")
	flags.DurationVar(&o.Duration, "duration", o.Duration, "time of one server in one of them; whole seconds")
	flags.StringVar(&o.out, "out", "", "`folder` for the report as seeds.md, with its plots; relative to the module bench")
	list := flags.Bool("list", false, "list the cases and do nothing else")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.markdown, o.commandLine = flags.Markdown, flags.CommandLine()
	wanted, err := regexp.Compile(*part)
	if err != nil {
		return o, err
	}
	for _, c := range seeds.Cases() {
		if *list {
			fmt.Println(c.Name)
		}
		if wanted.MatchString(c.Name) {
			o.Cases = append(o.Cases, c)
		}
	}
	if *list {
		return o, command.ErrDone
	}
	if o.Cases == nil {
		return o, fmt.Errorf("-part %q matches no case", *part)
	}
	if o.Kinds, err = peers.ParseKinds(*servers, seeds.Kinds()); err != nil {
		return o, err
	}
	return o, o.Check()
}

func run(ctx context.Context, o options) error {
	sections, err := seeds.Measure(ctx, o.Options)
	if err != nil {
		return err
	}
	command.Progress("")
	d := report.Document{Title: "The published benchmarks, repeated", Command: o.commandLine, Sections: sections}
	if err := d.Publish(os.Stdout, o.markdown); err != nil || o.out == "" {
		return err
	}
	return d.PublishFolder(o.out, "seeds")
}
