package lab

import (
	"fmt"
	"os"
	"strconv"

	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/tools/lab/internal/control"
	"github.com/sluicehttp/sluice/tools/lab/internal/member"
)

// processCommand is what the lab's processes are started with.
const processCommand = "process"

// RunProcess is one of the lab's processes, and does not return, if the coordinator has started
// the program as one: with the arguments "lab process ROLE NUMBER COORDINATOR". Call it before
// the program makes its commands, which would take memory in each of many processes.
func RunProcess() {
	if len(os.Args) != 6 || os.Args[1] != "lab" || os.Args[2] != processCommand {
		return
	}
	index, err := strconv.Atoi(os.Args[4])
	if err == nil {
		hello := control.Hello{Role: control.Role(os.Args[3]), Index: index}
		if prefork.IsChild() { // a worker has its master's arguments
			hello.Role = control.Server
		}
		err = member.Main(os.Args[5], hello)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sluice:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
