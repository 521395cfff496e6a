// Command sluice serves HTTP with package sluice.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/sluicehttp/sluice/tools/lab"
	"github.com/sluicehttp/sluice/tools/lab/cli"
)

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "sluice",
		Short:         "HTTP that holds a million connections",
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newServeCommand(), newProxyCommand(), newGetCommand(), newWSCommand(), newBenchCommand(), newCtlCommand(), newManCommand(), lab.Command())
	completeNames(root)
	return root
}

func main() {
	lab.RunProcess()
	root := newRootCommand()
	root.SetArgs(withWorkers(os.Args[1:]))
	if status := cli.Execute(root); status != 0 {
		os.Exit(status)
	}
}
