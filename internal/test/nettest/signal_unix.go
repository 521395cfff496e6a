//go:build unix

package nettest

import (
	"syscall"
	"testing"
)

// Signal sends a signal to a process that the test has started. A process id of 0 or
// below ends the test: kill(2) would send the signal to the test's own process group,
// and with it to the shell that runs the tests. A process that has ended is no error.
func Signal(t testing.TB, pid int, signal syscall.Signal) {
	t.Helper()
	if pid <= 1 {
		t.Fatalf("no process to signal: its id is %d", pid)
	}
	if err := syscall.Kill(pid, signal); err != nil && err != syscall.ESRCH {
		t.Errorf("kill %d: %v", pid, err)
	}
}
