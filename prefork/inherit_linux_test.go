package prefork

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// startEarlyChild starts a process, as main may do before ListenAndServe.
func startEarlyChild() {
	c := exec.Command("sleep", "600")
	if err := c.Start(); err != nil {
		fmt.Println("early child:", err)
		return
	}
	fmt.Println("early", c.Process.Pid)
}

// descriptorsOf returns what a process's descriptors refer to, except the standard
// ones.
func descriptorsOf(t *testing.T, pid int) (targets []string) {
	t.Helper()
	folder := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		fd, _ := strconv.Atoi(e.Name())
		target, err := os.Readlink(filepath.Join(folder, e.Name()))
		if err == nil && fd > 2 {
			targets = append(targets, target)
		}
	}
	return targets
}

// A process that a worker starts before ListenAndServe inherits none of the worker's
// descriptors, and the port is free once the fleet has ended.
func TestEarlyChildInheritsNothing(t *testing.T) {
	for name, s := range map[string]setup{
		"own sockets": {},
		"shared":      {Shared: true},
		"several":     {Listen: []string{"127.0.0.1:0", "127.0.0.1:0"}},
		"packets":     {Packets: true},
		"bare":        {BareProducer: true},
		"producer":    {BareProducer: true, AllFiles: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.Workers, s.EarlyChild = 2, true
			f := start(t, s, true)
			until(t, "each worker has started a process", func() bool { return len(f.printed("early ")) == s.Workers })
			inherited := append(descriptorsOf(t, os.Getpid()), os.DevNull) // perhaps from a shell; and the producer's
			for _, line := range f.printed("early ") {
				pid, err := strconv.Atoi(strings.TrimPrefix(line, "early "))
				if err != nil {
					t.Fatal(line)
				}
				defer nettest.Signal(t, pid, syscall.SIGKILL)
				// The program's loader opens and closes some files.
				until(t, "the process has the standard descriptors only", func() bool {
					return !slices.ContainsFunc(descriptorsOf(t, pid), func(target string) bool { return !slices.Contains(inherited, target) })
				})
			}
			if _, err := f.get("/"); err != nil {
				t.Error(err)
			}
			f.signal(syscall.SIGTERM)
			if status := f.wait(); status != 0 {
				t.Errorf("exit status %d", status)
			}
			ln, err := net.Listen("tcp4", f.addr(0))
			if err != nil {
				t.Fatal(err)
			}
			ln.Close()
		})
	}
}
