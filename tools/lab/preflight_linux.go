package lab

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluicehttp/sluice/tools/lab/cli"
	"github.com/sluicehttp/sluice/tools/lab/internal/plan"
	"github.com/sluicehttp/sluice/tools/lab/internal/result"
	"github.com/sluicehttp/sluice/tools/lab/internal/run"
	"github.com/sluicehttp/sluice/tools/lab/internal/system"
)

// newLabPreflightCommand returns "sluice lab preflight".
func newLabPreflightCommand() *cobra.Command {
	var f labFlags
	var apply bool
	cmd := &cobra.Command{
		Use:   "preflight [SCENARIO]",
		Short: "Say what a run would take, and what stops it",
		Long: `preflight reads the limits of this machine, plans the run of a scenario
(6_multiple_server by default), and says what stands in its way and what would
lift it. It changes nothing without --apply, which makes those settings of the
kernel that it names (as root; until the next boot).`,
		Args:              cli.AtMostOneArgument("SCENARIO"),
		ValidArgsFunction: completeScenario,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			name := "6"
			if len(args) == 1 {
				name = args[0]
			}
			if !f.set.Changed("conns") {
				if err := f.set.Set("conns", "1000000"); err != nil {
					return err
				}
			}
			if f.options.Scenario, err = f.scenario(name); err != nil {
				return cli.Misuse(err)
			}
			return preflight(f.options, apply, cmd.OutOrStdout())
		},
	}
	f.addScenario(cmd)
	cmd.Flags().BoolVar(&apply, "apply", false, "make the settings")
	return cmd
}

// preflight shows the plan of o. With apply, it is one of the system as it is after
// the settings, that decides.
func preflight(o run.Options, apply bool, out io.Writer) error {
	p, err := o.Plan()
	if err != nil {
		return err
	}
	showLimits(out, o.System.Limits())
	showPlan(out, &p)
	if err := showObstacles(out, &p, apply, o.System); err != nil {
		return err
	}
	if apply {
		if p, err = o.Plan(); err != nil {
			return err
		}
	}
	if !p.IsBlocked() {
		return nil
	}
	var left []string
	for _, o := range p.Obstacles {
		if o.IsFatal {
			left = append(left, o.What)
		}
	}
	still := ""
	if apply {
		still = "still "
	}
	return fmt.Errorf("it does %snot fit: %s of %s; what is in the way: %s", still, result.Plural(p.Scenario.Conns, "connection", "connections"),
		p.Scenario.Name, strings.Join(left, "; "))
}

func showLimits(out io.Writer, l plan.Limits) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer table.Flush()
	line := func(name, value string) { fmt.Fprintf(table, "%s\t%s\n", name, value) }
	fmt.Fprintln(table, "This machine")
	line("  descriptors of a process", fmt.Sprintf("%s (limit that it may raise it to %s, fs.nr_open %s)", result.Count(l.FilesSoft), result.Count(l.FilesHard), result.Count(l.FilesPerProc)))
	line("  of the system", fmt.Sprintf("%s, %s in use", result.Count(l.FilesMax), result.Count(l.FilesOpen)))
	line("  ports of one pair of addresses", fmt.Sprintf("%s (%d to %d)", result.Count(l.PortLast-l.PortFirst+1), l.PortFirst, l.PortLast))
	line("  memory of socket buffers", result.Bytes(float64(l.TCPPages)*4096))
	line("  connections that wait", result.Count(l.Backlog))
	line("  memory", result.Bytes(float64(l.Memory)))
	line("  cores", result.Count(l.Cores))
}

func showPlan(out io.Writer, p *plan.Plan) {
	servers, clients := p.Processes()
	addresses := make(map[string]bool)
	for _, c := range p.Clients {
		for _, t := range c.Targets {
			addresses[t.Source] = true
		}
	}
	many := result.Plural
	fmt.Fprintf(out, "\nPlan for %s of %s\n", many(p.Scenario.Conns, "connection", "connections"), p.Scenario.Name)
	if len(p.Servers) == 0 || len(p.Clients) == 0 {
		fmt.Fprintln(out, "  none: there are too many")
		return
	}
	fmt.Fprintf(out, "  %s on %s, from %s\n", many(servers, "server process", "server processes"), many(len(p.Servers), "address", "addresses"), p.Servers[0].Addr)
	fmt.Fprintf(out, "  %s with up to %s each, from %s\n", many(clients, "client process", "client processes"),
		many(p.Clients[0].Conns, "connection", "connections"), many(len(addresses), "address", "addresses"))
	fmt.Fprintf(out, "  %s of memory, by estimate\n", result.Bytes(float64(p.Memory)))
	fmt.Fprintf(out, "  %s of a sweep on the way at most, of %s at a time\n", many(p.InFlight, "request", "requests"), many(p.AtOnce, "client", "clients"))
}

// showObstacles says what is in the way and, with apply, lifts what settings
// lift.
func showObstacles(out io.Writer, p *plan.Plan, apply bool, files system.Files) error {
	if len(p.Obstacles) == 0 {
		fmt.Fprintln(out, "\nNothing is in the way.")
		return nil
	}
	fmt.Fprintln(out, "\nIn the way")
	for _, o := range p.Obstacles {
		kind := "better"
		if o.IsFatal {
			kind = "needed"
		}
		fmt.Fprintf(out, "  %s: %s %s, there are %s\n", o.What, result.Count(o.Need), kind, result.Count(o.Have))
		if o.Lift != "" {
			fmt.Fprintf(out, "    %s\n", o.Lift)
		}
		if o.Setting == nil {
			continue
		}
		fmt.Fprintf(out, "    %s\n", o.Setting)
		if apply {
			if err := files.Apply(*o.Setting); err != nil {
				return err
			}
			fmt.Fprintln(out, "    done")
		}
	}
	return nil
}
