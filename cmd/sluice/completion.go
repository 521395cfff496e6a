package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// folders offers a shell folders for an argument or a flag.
func folders(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// completeNames has shells offer files for the flags of a command, and of those below it,
// whose value is a FILE, folders where it is a DIR or a FOLDER, and nothing for others
// that have no list of values.
func completeNames(cmd *cobra.Command) {
	offer := func(f *pflag.Flag) {
		if _, has := cmd.GetFlagCompletionFunc(f.Name); has {
			return
		}
		complete := cobra.NoFileCompletions
		switch value, _ := pflag.UnquoteUsage(f); value {
		case "DIR", "FOLDER":
			complete = folders
		case "FILE":
			complete = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return nil, cobra.ShellCompDirectiveDefault
			}
		}
		if err := cmd.RegisterFlagCompletionFunc(f.Name, complete); err != nil {
			panic(err) // the flag is there, and it has no values
		}
	}
	cmd.Flags().VisitAll(offer)
	cmd.PersistentFlags().VisitAll(offer)
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range cmd.Commands() {
		completeNames(sub)
	}
}
