//go:build !linux

package lab

import (
	"errors"

	"github.com/spf13/cobra"
)

// RunProcess does nothing here.
func RunProcess() {}

// newLabSystemCommands returns commands that say what is missing.
func newLabSystemCommands() []*cobra.Command {
	var all []*cobra.Command
	for _, name := range []string{"run", "preflight"} {
		all = append(all, &cobra.Command{
			Use: name, Short: "Needs Linux",
			RunE: func(*cobra.Command, []string) error { return errors.New("the lab needs Linux") },
		})
	}
	return all
}
