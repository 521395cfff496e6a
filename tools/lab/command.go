// Package lab starts servers and clients on this machine, has them hold
// connections, and measures throughput, latency, processor time and memory. It is
// "sluice lab". What it shares with other tools is below it: the load generator in
// package load.
package lab

import "github.com/spf13/cobra"

// Command returns "sluice lab". The lab's processes are the running program, which must call
// RunProcess first.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Hold many connections on this machine, and measure",
		Long: `lab starts servers and clients on this machine, has them hold connections, and
measures throughput, latency, processor time and memory. All are processes of
this program, and end with it. Linux only.

docs/one-million-connections.md goes through it.`,
	}
	cmd.AddCommand(newLabListCommand(), newLabReportCommand())
	cmd.AddCommand(newLabSystemCommands()...)
	return cmd
}
