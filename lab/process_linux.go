package lab

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluicehttp/sluice/lab/internal/control"
	"github.com/sluicehttp/sluice/lab/internal/member"
	"github.com/sluicehttp/sluice/prefork"
)

// processCommand is what the lab's processes are started with.
const processCommand = "process"

// newLabProcessCommand returns "sluice lab process", which only the coordinator
// calls.
func newLabProcessCommand() *cobra.Command {
	return &cobra.Command{
		Use:    processCommand + " ROLE NUMBER COORDINATOR",
		Hidden: true,
		Args:   cobra.ExactArgs(3),
		RunE: func(_ *cobra.Command, args []string) error {
			index, err := strconv.Atoi(args[1])
			if err != nil {
				return fmt.Errorf("%q is no number of a process", args[1])
			}
			hello := control.Hello{Role: control.Role(args[0]), Index: index}
			if prefork.IsChild() { // a worker has its master's arguments
				hello.Role = control.Server
			}
			return member.Main(args[2], hello)
		},
	}
}
