package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/sluicehttp/sluice/tools/lab/cli"
	"github.com/sluicehttp/sluice/tools/lab/internal/result"
	"github.com/sluicehttp/sluice/tools/lab/internal/run"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
	"github.com/sluicehttp/sluice/tools/lab/internal/system"
	"github.com/sluicehttp/sluice/tools/lab/report"
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
	return []*cobra.Command{newLabRunCommand(), newLabReferenceCommand(), newLabPreflightCommand()}
}

// labFlags are the flags that change a scenario.
type labFlags struct {
	set                                *pflag.FlagSet // which tells what was set
	conns, workers, loops, clientLoops int
	workload, server, client           string
	isShared, isCompact                bool
	pings                              time.Duration
	options                            run.Options
	out                                string
}

// addScenario adds the flags that preflight has, too.
func (f *labFlags) addScenario(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.set = flags
	flags.IntVar(&f.conns, "conns", 0, "number of connections (default: the scenario's)")
	flags.IntVar(&f.workers, "workers", 0, "worker processes of prefork; goroutines that run handlers, all loops together, otherwise (0: prefork as many as needed, workerpool 64 per loop, epoll no bound)")
	flags.IntVar(&f.loops, "loops", 0, "event loops of all servers together (0: one for each core; at least one in each process)")
	flags.IntVar(&f.clientLoops, "client-loops", 0, "event loops of all clients together (0: one for each core; at least one in each process)")
	flags.StringVar(&f.workload, "workload", "", "what handlers do: echo, discard, io=10ms (sleep), pow=12 (a hash with so many zero bits)")
	flags.StringVar(&f.server, "server", "", "kind of server: goroutine, epoll, workerpool, prefork; http-epoll, https-epoll (TLS), h2-epoll (HTTP/2), ws-epoll (WebSocket), sse-epoll (server-sent events) and so on for other protocols")
	flags.StringVar(&f.client, "client", "", "kind of client: epoll, goroutine")
	flags.BoolVar(&f.isCompact, "compact-tls", false, "https: idle connections of the server keep no state of crypto/tls (Server.CompactTLS)")
	flags.BoolVar(&f.isShared, "shared-socket", false, "prefork: one inherited socket for all workers, instead of one for each (SO_REUSEPORT)")
	completeFlags(cmd)
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
	for _, number := range []struct {
		flag  string
		value int
		to    *int
	}{
		{"conns", f.conns, &s.Conns}, {"workers", f.workers, &s.Workers},
		{"loops", f.loops, &s.Loops}, {"client-loops", f.clientLoops, &s.ClientLoops},
	} {
		if f.set.Changed(number.flag) { // to 0, too
			*number.to = number.value
		}
	}
	s.Shared, s.Pings = f.isShared, f.pings
	if f.set.Changed("compact-tls") {
		s.CompactTLS = f.isCompact
	}
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
		Args:    cli.OneArgument("SCENARIO"),

		ValidArgsFunction: completeScenario,
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := f.scenarios(args[0])
			if err != nil {
				return cli.Misuse(err)
			}
			if err := enterNetwork(f.options.System); err != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), err)
			}
			return f.runAll(all, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	f.addScenario(cmd)
	flags.Var(cli.SecondsOf(&f.options.Duration, defaultLabDuration), "duration", "how long requests are sent; a sweep that has begun is carried to its end (0: one sweep)")
	flags.IntVar(&f.options.Active, "active", 0, "connections that send, each the next request when the answer has come (0: sweep over all; at most as many as there are)")
	flags.Float64Var(&f.options.Rate, "rate", 0, "requests per second (open loop): latency counts from when a request should have been sent")
	flags.IntVar(&f.options.InFlight, "in-flight", 0, "requests of a sweep that are on their way at the same time (0: 256 for each client process that sends, or each worker of prefork, as far as socket buffers go); not with --active or --rate")
	flags.IntVar(&f.options.AtOnce, "at-once", 0, "client processes that send at the same time in a sweep, of as many as there are; they take turns (0: two for each core); not with --active or --rate")
	flags.IntVar(&f.options.Dialers, "dialers", 0, "connections that a client process makes at the same time (0: 4)")
	flags.IntVar(&f.options.Broadcasts, "broadcasts", 0, "ws-: messages that all connections get after the load, one after the other")
	flags.Var(cli.SecondsOf(&f.pings, 0), "pings", "ws-: the server pings a connection after so much silence, ± 20 %, and what that costs is measured after the load (0: no pings)")
	flags.StringVar(&f.out, "out", "", "`FOLDER` for result.json, result.md and plots; what an earlier run has left there is overwritten")
	return cmd
}

// runAll runs scenarios one after the other, until one fails or a signal comes.
func (f *labFlags) runAll(all []scenario.Scenario, out, progress io.Writer) error {
	signals := watchSignals(progress)
	defer signals.stop()
	if err := f.checkAll(all); err != nil {
		return err
	}
	if len(all) == 1 {
		f.options.Scenario = all[0]
		_, err := runLab(signals, f.options, f.out, out, progress)
		return err
	}
	var results []*result.Result
	var err error
	for _, s := range all {
		if err = signals.reason(); err != nil {
			break
		}
		f.options.Scenario = s
		fmt.Fprintf(progress, "== %s\n", s.Name)
		var one *result.Result
		one, err = runLab(signals, f.options, f.folderOf(s), io.Discard, progress)
		if one != nil {
			results = append(results, one)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", s.Name, err)
			break
		}
	}
	return errors.Join(err, f.compare(results, out, progress))
}

// compare shows what was measured, if anything was, of several scenarios.
func (f *labFlags) compare(results []*result.Result, out, progress io.Writer) error {
	if len(results) == 0 {
		return nil
	}
	fmt.Fprint(out, result.Compare(results))
	if f.out == "" {
		return nil
	}
	if err := result.SaveComparison(f.out, results); err != nil {
		return err
	}
	fmt.Fprintf(progress, "the report is %s\n", result.ComparisonFile(f.out))
	return nil
}

// folderOf returns the folder for one of several scenarios; "": none.
func (f *labFlags) folderOf(s scenario.Scenario) string {
	if f.out == "" {
		return ""
	}
	return filepath.Join(f.out, s.Name)
}

// checkAll finds out before anything starts what would fail later, when much has
// been measured.
func (f *labFlags) checkAll(all []scenario.Scenario) error {
	for _, s := range all {
		o := f.options
		o.Scenario = s
		if err := o.Check(); err != nil {
			if len(all) > 1 {
				err = fmt.Errorf("%s: %w", s.Name, err)
			}
			return err
		}
	}
	if f.out == "" {
		return nil
	}
	folders := []string{f.out}
	if len(all) > 1 {
		for _, s := range all {
			folders = append(folders, f.folderOf(s))
		}
	}
	for _, folder := range folders {
		if err := result.CheckFolder(folder); err != nil {
			return fmt.Errorf("cannot write the report: %w", err)
		}
	}
	return nil
}

// runLab runs a scenario and shows the result, which there may be beside an error.
func runLab(signals *interruption, o run.Options, folder string, out, progress io.Writer) (*result.Result, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	o.Program, o.ProcessArgs = program, []string{"lab", processCommand}
	o.Header = header(o.System)
	o.Hurry = signals.hurry
	o.Progress = run.NewProgress(progress, isTerminal(progress))
	measured, err := run.Run(signals, o)
	o.Progress.Close()
	if err != nil {
		if signals.Err() != nil { // whatever else has come of it
			err = signals.reason()
		}
		return nil, err
	}
	fmt.Fprint(out, measured.Markdown())
	if folder != "" {
		if err := measured.Save(folder); err != nil {
			return measured, err
		}
		fmt.Fprintf(progress, "the report is %s\n", result.ResultFile(folder))
	}
	if n := measured.Errors(); n > 0 {
		return measured, fmt.Errorf("%d errors, the first: %s", n, measured.Load.FirstError)
	}
	return measured, signals.reason()
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// header says where figures come from.
func header(files system.Files) result.Header {
	return result.Header{
		Date:       time.Now().UTC().Format(time.DateOnly),
		Machine:    files.Machine(),
		Commit:     report.Commit(),
		Command:    "sluice " + strings.Join(os.Args[1:], " "),
		Congestion: files.CongestionControl(),
		Buckets:    files.Limits().Buckets,
	}
}
