// Command sluice serves HTTP with package sluice.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{
		Use:           "sluice",
		Short:         "HTTP that holds a million connections",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newServeCommand(), newGetCommand(), newBenchCommand(), newLabCommand())
	root.SetArgs(withWorkers(os.Args[1:]))
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "sluice:", err)
		os.Exit(1)
	}
}
