// Package late looks for requests that a server forgets for a while: it sends small
// requests, uploads, downloads, and requests whose handlers sleep or compute, over
// HTTP/1.1 and HTTP/2, while other processes take the CPUs. A request that takes much
// longer than its handler is reported, with the state of the server at that time. Run it
// in the bench module, on Linux:
//
//	go -C tools/bench run . late [--duration 1m] [--late 100ms] [--engines epoll,perconn] [--procs 1,2,4]
//	go -C tools/bench run . late --uploads ROUNDS --duration 4s [--before PROGRAM]
//
// Processes that take the CPUs make requests late, too. The report therefore says how
// late the clients' own timer was. A server that has lost a wake-up shows a request that
// does not end: it is stuck.
//
// With --uploads it measures instead how long uploads take beside handlers that compute, and
// how long small requests take beside both.
package late

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// options are the command's flags.
type options struct {
	duration, late, stuck time.Duration
	engines               []string
	procs                 []int
	clients, hogs         int
	uploads               int    // rounds; 0: no uploads beside busy handlers
	before                string // another build of this program; "": none
}

// Command returns the subcommand.
func Command() *cobra.Command {
	return command.New("late", "Look for requests that a server forgets for a while", flags, run)
}

func flags(flags *pflag.FlagSet) func() (options, error) {
	var o options
	flags.DurationVar(&o.duration, "duration", time.Minute, "time of one engine with one GOMAXPROCS")
	flags.DurationVar(&o.late, "late", 100*time.Millisecond, "how much longer than its handler a late request takes; one with a large body is not late")
	flags.DurationVar(&o.stuck, "stuck", 10*time.Second, "how much longer a stuck one takes; it fails the command")
	flags.IntVar(&o.clients, "clients", 64, "clients, each with one request at a time")
	flags.IntVar(&o.hogs, "hogs", 2, "processes that take the CPUs half of the time")
	flags.IntVar(&o.uploads, "uploads", 0, "instead measure uploads beside busy handlers, in so many `rounds`, after one to warm up, of --duration for each server")
	flags.StringVar(&o.before, "before", "", "with --uploads: a `program` bench of another commit, in which epoll takes part, too")
	engines := flags.String("engines", peers.Epoll+","+peers.PerConn, "engines to try")
	procs := flags.String("procs", "1,2,4", "values of GOMAXPROCS")
	return func() (_ options, err error) {
		if o.duration <= 0 || o.late <= 0 || o.stuck <= o.late || o.clients < 1 || o.hogs < 0 || o.uploads < 0 {
			return o, fmt.Errorf("--duration %v --late %v --stuck %v --clients %d --hogs %d --uploads %d: want positive times, --stuck the longer one, and a client", o.duration, o.late, o.stuck, o.clients, o.hogs, o.uploads)
		}
		if o.procs, err = command.ParseProcs(*procs); err != nil {
			return o, err
		}
		o.engines, err = peers.ParseKinds(*engines, []string{peers.Epoll, peers.PerConn})
		return o, err
	}
}

func run(ctx context.Context, o options) (d report.Document, err error) {
	if o.uploads > 0 {
		return runUploads(ctx, o)
	}
	table := report.Section{
		Title: "Requests that took longer than their handlers",
		Head:  []string{"engine", "GOMAXPROCS", "requests", "late", "latest", "stuck", "failed", "clients' timer late"},
		Notes: []string{fmt.Sprintf("%v each, %d clients, %d processes that take the CPUs; late: %v longer than the handler, stuck: %v", o.duration, o.clients, o.hogs, o.late, o.stuck)},
	}
	var hogs []*process.Child
	defer func() {
		for _, hog := range hogs {
			_ = hog.Stop()
		}
	}()
	for range o.hogs {
		hog, err := process.Start(ctx, process.Options{CPU: process.AnyCPU, Procs: 1}, hogRole, nil)
		if err != nil {
			return d, err
		}
		hogs = append(hogs, hog)
	}
	isStuck := false
	for _, engine := range o.engines {
		for _, procs := range o.procs {
			command.Progress("%s, GOMAXPROCS %d", engine, procs)
			t, err := o.try(ctx, engine, procs)
			if err != nil {
				return d, err
			}
			table.Rows = append(table.Rows, []string{
				engine, strconv.Itoa(procs), strconv.Itoa(t.requests), strconv.Itoa(t.late), t.latest.Round(time.Millisecond).String(),
				strconv.Itoa(t.stuck), strconv.Itoa(t.failed), t.timerLate.Round(time.Millisecond).String(),
			})
			for _, note := range slices.Concat(t.stuckNotes, t.notes) {
				table.Notes = append(table.Notes, fmt.Sprintf("%s, GOMAXPROCS %d: %s", engine, procs, note))
			}
			isStuck = isStuck || t.stuck > 0 || t.failed > 0
		}
	}
	d.Sections = []report.Section{table}
	if isStuck {
		err = errors.New("requests were stuck or failed")
	}
	return d, err
}
