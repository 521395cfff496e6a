package lab

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluicehttp/sluice/tools/lab/cli"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
)

// newLabListCommand returns "sluice lab list".
func newLabListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the scenarios",
		Args:  cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listScenarios(cmd.OutOrStdout())
		},
	}
}

func listScenarios(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tOR\tSERVER\tCLIENT\tWORKLOAD\tCONNS\tWHAT IT IS")
	for _, s := range scenario.All() {
		server := s.ServerName()
		if s.Loops > 0 {
			server += fmt.Sprintf(" --loops %d", s.Loops)
		}
		client := string(s.Client)
		if s.ClientLoops > 0 {
			client += fmt.Sprintf(" --client-loops %d", s.ClientLoops)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", s.Name, s.Short, server, client, s.Workload, s.Conns, s.Summary)
	}
	return table.Flush()
}
