package nettest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Freeze stops a process that the test has started, and returns when all its threads have stopped: kill(2)
// returns before that, so a thread that runs might still take what the test sends next. It returns as well if the
// process has ended meanwhile. At the end of the test the process goes on, so that it can end.
func Freeze(t testing.TB, pid int) {
	t.Helper()
	Signal(t, pid, syscall.SIGSTOP)
	t.Cleanup(func() { Signal(t, pid, syscall.SIGCONT) })
	isStopped := func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, thread := range threads {
			if text, err := os.ReadFile(thread); err == nil && !strings.Contains(string(text), ") T ") && !strings.Contains(string(text), ") Z ") {
				return false
			}
		}
		return true
	}
	if !Poll(20*time.Second, isStopped) {
		t.Fatalf("process %d does not stop", pid)
	}
}
