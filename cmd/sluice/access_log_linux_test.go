package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// limitFiles bounds the size of files that p and its workers write.
func (p *process) limitFiles(t *testing.T, workers int, size uint64) {
	t.Helper()
	var pids []string
	eventually(t, "all workers", func() bool {
		pids = nil
		lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.Process.Pid)) // of its threads
		if err != nil || len(lists) == 0 {
			t.Skip("the kernel does not tell a process's children")
		}
		for _, list := range lists {
			children, _ := os.ReadFile(list) // a thread may have ended
			pids = append(pids, strings.Fields(string(children))...)
		}
		return len(pids) == workers
	})
	for _, text := range append(pids, strconv.Itoa(p.Process.Pid)) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAccessLogAfterAFullDisk: the disk is full in the middle of a line. When there is room again,
// lines begin on lines of their own, also those of the next process.
func TestAccessLogAfterAFullDisk(t *testing.T) {
	for workers, mode := range map[int][]string{0: {}, 2: {"--prefork=2"}} {
		name := filepath.Join(t.TempDir(), "access.log")
		if err := os.WriteFile(name, []byte("127.0.0.1 - - [torn"), 0o600); err != nil {
			t.Fatal(err)
		}
		p := start(t, append(mode, "--access-log", name)...)
		ask := func(n int) {
			t.Helper()
			for i := range n {
				p.ask(t, "GET", fmt.Sprintf("/plaintext?%d", i))
			}
		}
		const size = 1000
		p.limitFiles(t, workers, size)
		ask(30)
		p.logLine(t, "cannot write the access log")
		if info, err := os.Stat(name); err != nil || info.Size() != size {
			t.Fatalf("%v, %v", info, err)
		}
		p.limitFiles(t, workers, unix.RLIM_INFINITY)
		ask(10)
		if err := p.interrupt(t, os.Interrupt); err != nil {
			t.Error(err)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		whole, torn := 0, 0
		for line := range strings.Lines(string(text)) {
			switch begins := strings.Count(line, "127.0.0.1 - - ["); {
			case begins > 1:
				t.Errorf("%v: two lines in one: %q", mode, line)
			case strings.HasSuffix(line, "\"\n"):
				whole++
			case begins == 1:
				torn++
			}
		}
		if whole < 10 || torn != 2 {
			t.Errorf("%v: %d whole lines and %d torn ones:\n%s", mode, whole, torn, text)
		}
	}
}
