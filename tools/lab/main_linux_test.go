package lab

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"
)

// binary is the program whose command is tested: this one.
var binary string

func TestMain(m *testing.M) {
	RunProcess()
	if len(os.Args) > 1 && os.Args[1] == "lab" {
		command := Command()
		command.SilenceUsage, command.SilenceErrors = true, true
		command.SetArgs(os.Args[2:])
		if err := command.Execute(); err != nil {
			fmt.Fprintln(os.Stderr, "sluice:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	var err error
	if binary, err = os.Executable(); err != nil {
		panic(err)
	}
	// The parallel tests mostly wait, so more of them may run than there are processors.
	flag.Set("test.parallel", "4")
	os.Exit(m.Run())
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for range 2000 {
		if condition() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("there is no %s", what)
}

func checkEmpty(t *testing.T, folder string) {
	t.Helper()
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
