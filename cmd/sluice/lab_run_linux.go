package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/sluicehttp/sluice/cmd/sluice/internal/lab/report"
	"github.com/sluicehttp/sluice/cmd/sluice/internal/lab/run"
	"github.com/sluicehttp/sluice/cmd/sluice/internal/lab/scenario"
	"github.com/sluicehttp/sluice/cmd/sluice/internal/lab/system"
)

const (
	labExamples = `  sluice lab run 7-prefork --conns 100000
  sluice lab run http-epoll --conns 10000 --active 64 --duration 30s
  sluice lab run custom --server epoll --client goroutine --workload io=10ms
  sluice lab run 6 --conns 1000000 --out results/6
  sluice lab run seeds --duration 5s --out results`
	defaultLabDuration = 10 * time.Second
	// customScenario is the name under which everything is set by flags.
	customScenario = "custom"
)

// newLabSystemCommands returns those that need Linux.
func newLabSystemCommands() []*cobra.Command {
	return []*cobra.Command{newLabRunCommand(), newLabPreflightCommand(), newLabProcessCommand()}
}

// labFlags are the flags that change a scenario.
type labFlags struct {
	conns, workers, loops, clientLoops int
	workload, server, client           string
	isShared                           bool
	options                            run.Options
	out                                string
}

// addScenario adds the flags that preflight has, too.
func (f *labFlags) addScenario(flags *pflag.FlagSet) {
	flags.IntVar(&f.conns, "conns", 0, "number of connections (default: the scenario's)")
	flags.IntVar(&f.workers, "workers", 0, "worker processes of prefork; goroutines that run handlers, all loops together, otherwise (0: prefork as many as needed, workerpool 64 per loop, epoll no bound)")
	flags.IntVar(&f.loops, "loops", 0, "event loops of all servers together (0: one for each core; at least one in each process)")
	flags.IntVar(&f.clientLoops, "client-loops", 0, "event loops of all clients together (0: one for each core; at least one in each process)")
	flags.StringVar(&f.workload, "workload", "", "what handlers do: echo, discard, io=10ms (sleep), pow=12 (a hash with so many zero bits)")
	flags.StringVar(&f.server, "server", "", "kind of server: goroutine, epoll, workerpool, prefork; http-epoll, https-epoll (TLS), ws-epoll (WebSocket) and so on for other protocols")
	flags.StringVar(&f.client, "client", "", "kind of client: epoll, goroutine (https: goroutine only)")
	flags.BoolVar(&f.isShared, "shared-socket", false, "prefork: one inherited socket for all workers, instead of one for each (SO_REUSEPORT)")
}

// scenario returns the scenario of a name with what flags change.
func (f *labFlags) scenario(name string) (s scenario.Scenario, err error) {
	if name == customScenario {
		s = scenario.Scenario{Name: customScenario, Summary: "what the flags say", Protocol: scenario.TCP,
			Server: scenario.Epoll, Client: scenario.EpollClient, Workload: scenario.Workload{Kind: scenario.Echo}, Conns: 1000}
	} else if s, err = scenario.Find(name); err != nil {
		return s, err
	}
	return s, f.change(&s)
}

// scenarios is scenario where name may stand for several.
func (f *labFlags) scenarios(name string) ([]scenario.Scenario, error) {
	all, isGroup := scenario.Group(name)
	if !isGroup {
		s, err := f.scenario(name)
		return []scenario.Scenario{s}, err
	}
	for i := range all {
		if err := f.change(&all[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", all[i].Name, err)
		}
	}
	return all, nil
}

// change sets in s what flags say.
func (f *labFlags) change(s *scenario.Scenario) (err error) {
	for _, number := range []struct{ value, to *int }{
		{&f.conns, &s.Conns}, {&f.workers, &s.Workers}, {&f.loops, &s.Loops}, {&f.clientLoops, &s.ClientLoops},
	} {
		if *number.value != 0 {
			*number.to = *number.value
		}
	}
	s.Shared = f.isShared
	if f.workload != "" {
		if s.Workload, err = scenario.ParseWorkload(f.workload); err != nil {
			return err
		}
	}
	if f.server != "" {
		if err := s.SetServer(f.server); err != nil {
			return err
		}
	}
	if f.client != "" {
		if err := s.SetClient(f.client); err != nil {
			return err
		}
	}
	return s.Check()
}

// newLabRunCommand returns "sluice lab run".
func newLabRunCommand() *cobra.Command {
	var f labFlags
	cmd := &cobra.Command{
		Use:   "run SCENARIO",
		Short: "Run a scenario",
		Long: `run runs a scenario of "sluice lab list", with what flags change. "custom" is one
that is all flags, "seeds" are the thirteen of the seed, one after the other,
"all" is the whole list; then --out gets a folder for each, and a report.`,
		Example: labExamples,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := f.scenarios(args[0])
			if err != nil {
				return err
			}
			return f.runAll(all, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	f.addScenario(flags)
	flags.DurationVar(&f.options.Duration, "duration", defaultLabDuration, "how long requests are sent; a sweep that has begun is carried to its end")
	flags.IntVar(&f.options.Active, "active", 0, "connections that send, each the next request when the answer has come (0: sweep over all)")
	flags.Float64Var(&f.options.Rate, "rate", 0, "requests per second (open loop): latency counts from when a request should have been sent")
	flags.IntVar(&f.options.InFlight, "in-flight", 0, "requests of a sweep that are on their way at the same time (0: 256 for each client process that sends)")
	flags.IntVar(&f.options.AtOnce, "at-once", 0, "client processes that send at the same time in a sweep; they take turns (0: two for each core)")
	flags.IntVar(&f.options.Dialers, "dialers", 0, "connections that a client process makes at the same time (0: 4)")
	flags.StringVar(&f.out, "out", "", "folder for result.json, result.md and plots")
	return cmd
}

// runAll runs scenarios one after the other.
func (f *labFlags) runAll(all []scenario.Scenario, out, progress io.Writer) error {
	if len(all) == 1 {
		f.options.Scenario = all[0]
		_, err := runLab(f.options, f.out, out, progress)
		return err
	}
	var results []*report.Result
	for _, s := range all {
		f.options.Scenario = s
		folder := f.out
		if folder != "" {
			folder = filepath.Join(folder, s.Name)
		}
		fmt.Fprintf(progress, "== %s\n", s.Name)
		result, err := runLab(f.options, folder, io.Discard, progress)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		results = append(results, result)
	}
	fmt.Fprint(out, report.Compare(results))
	if f.out == "" {
		return nil
	}
	return report.SaveComparison(f.out, results)
}

// runLab runs a scenario and shows the result.
func runLab(o run.Options, folder string, out, progress io.Writer) (*report.Result, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	o.Program, o.ProcessArgs = program, []string{"lab", processCommand}
	o.Header = header(o.System)
	isTerminal := false
	if file, ok := progress.(*os.File); ok {
		isTerminal = term.IsTerminal(int(file.Fd()))
	}
	o.Progress = run.NewProgress(progress, isTerminal)
	result, err := run.Run(ctx, o)
	o.Progress.Close()
	switch {
	case errors.Is(err, context.Canceled):
		return nil, errors.New("interrupted; all processes have ended")
	case err != nil:
		return nil, err
	}
	fmt.Fprint(out, result.Markdown())
	if folder != "" {
		if err := result.Save(folder); err != nil {
			return nil, err
		}
		fmt.Fprintf(progress, "written to %s\n", folder)
	}
	if n := result.Errors(); n > 0 {
		return nil, fmt.Errorf("%d errors, the first: %s", n, result.Load.FirstError)
	}
	return result, nil
}

// header says where figures come from.
func header(files system.Files) report.Header {
	return report.Header{
		Date:       time.Now().UTC().Format(time.DateOnly),
		Machine:    files.Machine(),
		Commit:     commit(),
		Command:    "sluice " + strings.Join(os.Args[1:], " "),
		Congestion: files.CongestionControl(),
	}
}

// commit returns the commit that this program was built from, or else the one of
// the folder that it runs in.
func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value[:min(len(s.Value), 12)]
			}
		}
	}
	text, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}
