//go:build unix

package process

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	pid, parent, err := parseStat("12 (a ) S 9 name) R 7 1 1 0")
	if err != nil || pid != 12 || parent != 7 {
		t.Errorf("process %d of %d, %v", pid, parent, err)
	}
	for _, bad := range []string{"", "12 (name)", "x (name) S 1 2", "12 (name) S y"} {
		if _, _, err := parseStat(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestParseModes(t *testing.T) {
	const good = "12 (a ) S) S 7 12 12 0 -1 4194560 100 0 0 0 250 31 0 0 20 0"
	user, system, err := parseModes(good)
	if err != nil || user != 2500*time.Millisecond || system != 310*time.Millisecond {
		t.Errorf("%v and %v, %v", user, system, err)
	}
	for _, bad := range []string{"", "12 (name) S 7", "12 (name) S 7 12 12 0 -1 4194560 100 0 0 0 x 31", "12 (name) S 7 12 12 0 -1 4194560 100 0 0 0 250 x"} {
		if _, _, err := parseModes(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestUsage(t *testing.T) {
	var u Usage
	if u.UserShare() != 0 {
		t.Errorf("of nothing, %v was in user mode", u.UserShare())
	}
	u.Add(Usage{5, 1, 2}, Usage{9, 2, 5})
	u.Add(Usage{}, Usage{1, 0, 0})
	if want := (Usage{5, 1, 3}); u != want || u.UserShare() != .25 {
		t.Errorf("%+v, want %+v; %v in user mode", u, want, u.UserShare())
	}
}

// A child that ends while the tree is read does not count; another error does.
func TestChildEnds(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		t.Skip(err)
	}
	broken := errors.New("broken")
	failing := func(end bool) func(pid int) error {
		return func(pid int) error {
			if pid != child.Process.Pid {
				return nil
			}
			if end {
				child.Process.Kill()
				child.Wait()
			}
			return broken
		}
	}
	if err := each(os.Getpid(), failing(false)); !errors.Is(err, broken) {
		t.Errorf("%v about a child that is there", err)
	}
	if err := each(os.Getpid(), failing(true)); err != nil {
		t.Errorf("%v about a child that has ended", err)
	}
	if _, err := treeCPU(child.Process.Pid); err == nil {
		t.Error("no error about a program that has ended")
	}
}

// A program is among this process's children, its CPU time is counted, and it
// ends when it is told to.
func TestProgram(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	name, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	program, err := StartProgram(t.Context(), AnyCPU, name, "600")
	if err != nil {
		t.Fatal(err)
	}
	pid := program.cmd.Process.Pid
	if found, err := tree(os.Getpid()); err != nil || !slices.Contains(found, pid) || found[0] != os.Getpid() {
		t.Errorf("the tree is %v, %v, want %d in it", found, err, pid)
	}
	alone, err := program.CPU()
	if err != nil || alone <= 0 {
		t.Errorf("CPU time %v, %v", alone, err)
	}
	own, err := processCPU(os.Getpid())
	if err != nil {
		t.Error(err)
	}
	if both, err := treeCPU(os.Getpid()); err != nil || both < own+alone {
		t.Errorf("CPU time of the tree %v, %v, want at least %v and %v", both, err, own, alone)
	}
	if used, err := treeUsage(os.Getpid()); err != nil || used.User+used.System <= 0 || used.CPU < own+alone {
		t.Errorf("CPU time of the tree %+v, %v", used, err)
	}
	if err := program.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := program.CPU(); err == nil {
		t.Error("CPU time of a program that has ended")
	}
}

func TestFreeAddress(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	if addr, err := FreeAddress(t.Context()); err != nil || addr == "" {
		t.Errorf("address %q, %v", addr, err)
	}
}

func TestCheckConnections(t *testing.T) {
	if err := CheckConnections(1); err != nil {
		t.Error(err)
	}
	for _, bad := range []int{0, 1 << 30} {
		if CheckConnections(bad) == nil {
			t.Errorf("%d connections: no error", bad)
		}
	}
}
