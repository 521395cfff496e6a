package lab

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// aLab is a running "sluice lab run" whose processes can be told from others.
type aLab struct {
	*exec.Cmd
	mark     string
	progress *bufio.Scanner
	folder   string // for temporary files
}

func startLab(t *testing.T, args ...string) *aLab {
	t.Helper()
	l := &aLab{folder: t.TempDir()}
	l.mark = "SLUICE_LAB_TEST=" + l.folder
	l.Cmd = exec.Command(binary, append([]string{"lab", "run"}, args...)...)
	l.Env = append(os.Environ(), l.mark, "TMPDIR="+l.folder)
	stderr, err := l.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	l.progress = bufio.NewScanner(stderr)
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, p := range l.processes() {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	})
	return l
}

// reach waits for a line of progress.
func (l *aLab) reach(t *testing.T, phase string) {
	t.Helper()
	for l.progress.Scan() {
		if strings.HasPrefix(l.progress.Text(), phase) {
			return
		}
	}
	t.Fatalf("it does not come to %q", phase)
}

// aProcess is one of a lab's.
type aProcess struct {
	pid, parent int
	args        string
}

// processes returns those that have the mark in their environment.
func (l *aLab) processes() (all []aProcess) {
	environments, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environments {
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains("\x00"+string(text), "\x00"+l.mark+"\x00") {
			continue
		}
		dir := filepath.Dir(path)
		p := aProcess{}
		p.pid, _ = strconv.Atoi(filepath.Base(dir))
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		p.args = strings.ReplaceAll(string(args), "\x00", " ")
		stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
		if _, rest, ok := strings.Cut(string(stat), ") "); ok {
			_, _ = fmt.Sscanf(rest[2:], "%d", &p.parent)
		}
		all = append(all, p)
	}
	return all
}

// find waits for a process of a role. "worker" is one below a master.
func (l *aLab) find(t *testing.T, role string) (pid int) {
	t.Helper()
	eventually(t, "process: "+role, func() bool {
		all := l.processes()
		isMaster := make(map[int]bool)
		for _, p := range all {
			isMaster[p.pid] = strings.Contains(p.args, "process master") && p.parent == l.Process.Pid
		}
		for _, p := range all {
			switch {
			case role == "worker" && isMaster[p.parent],
				role == "master" && isMaster[p.pid],
				role != "worker" && role != "master" && strings.Contains(p.args, "process "+role):
				pid = p.pid
				return true
			}
		}
		return false
	})
	return pid
}

// checkGone checks that nothing is left.
func (l *aLab) checkGone(t *testing.T) {
	t.Helper()
	eventually(t, "end of all processes", func() bool { return len(l.processes()) == 0 })
	sockets, err := os.ReadFile("/proc/net/unix")
	if err != nil || strings.Contains(string(sockets), fmt.Sprintf("@sluice-lab-%d-", l.Process.Pid)) {
		t.Errorf("the coordinator's socket is there: %v", err)
	}
	checkEmpty(t, l.folder)
}

// TestLabKilled ends each kind of process at several points.
func TestLabKilled(t *testing.T) {
	for _, c := range []struct {
		phase, victim, scenario string
	}{
		{"servers", "coordinator", "7"},
		{"clients", "coordinator", "6"},
		{"connections", "coordinator", "7"},
		{"load", "coordinator", "7"},
		{"load", "coordinator", "6"},
		{"clients", "server", "6"},
		{"connections", "server", "6"},
		{"load", "server", "6"},
		{"servers", "master", "7"},
		{"load", "master", "7"},
		{"connections", "worker", "7"},
		{"load", "worker", "http-prefork"},
		{"connections", "client", "7"},
		{"load", "client", "6"},
		{"connections", "server", "https-epoll"},
		{"load", "server", "ws-epoll"},
		{"connections", "coordinator", "ws-goroutine"},
	} {
		t.Run(c.phase+"/"+c.victim+"/"+c.scenario, func(t *testing.T) {
			t.Parallel()
			l := startLab(t, c.scenario, "--conns", "500", "--duration", "1m")
			l.reach(t, c.phase)
			pid := l.Process.Pid
			if c.victim != "coordinator" {
				pid = l.find(t, c.victim)
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			for l.progress.Scan() { // to its end, so that Wait may close it
			}
			if l.Wait() == nil {
				t.Error("it ends as if nothing had happened")
			}
			l.checkGone(t)
		})
	}
}

// TestLabInterruptedBetween: a signal that comes while one of several scenarios ends
// is not lost on the next, nor is what was measured.
func TestLabInterruptedBetween(t *testing.T) {
	out := t.TempDir()
	l := startLab(t, "seeds", "--conns", "100", "--duration", "100ms", "--out", out)
	l.reach(t, "ending")
	if err := l.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	last, begun := "", 1
	for l.progress.Scan() {
		last = l.progress.Text()
		if strings.HasPrefix(last, "== ") {
			begun++
		}
	}
	if l.Wait() == nil || begun > 2 || !strings.Contains(last, "interrupted; all processes have ended") {
		t.Errorf("%d scenarios have begun, the last line is %q", begun, last)
	}
	l.checkGone(t)
	for _, name := range []string{"1_simple_tcp_server/result.json", "report.md"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestLabInterruptedTwice: the second signal kills what does not end, such as
// processes that are stopped.
func TestLabInterruptedTwice(t *testing.T) {
	for _, phase := range []string{"connections", "load"} {
		t.Run(phase, func(t *testing.T) {
			l := startLab(t, "7", "--conns", "300", "--duration", "1m")
			l.reach(t, phase)
			for _, role := range []string{"client", "worker", "master"} {
				if err := syscall.Kill(l.find(t, role), syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			for _, answer := range []string{"interrupted: ", "sluice: interrupted; all processes have been killed"} {
				if err := l.Process.Signal(syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
				l.reach(t, answer)
			}
			if l.Wait() == nil {
				t.Error("it ends as if nothing had happened")
			}
			if left := l.processes(); len(left) > 0 {
				t.Errorf("processes are left when it has ended: %+v", left)
			}
			l.checkGone(t)
		})
	}
}

// TestLabInterrupted ends a run in order.
func TestLabInterrupted(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		for _, phase := range []string{"servers", "load"} {
			t.Run(sig.String()+"/"+phase, func(t *testing.T) {
				t.Parallel()
				if signal.Ignored(sig) { // as under nohup: the run would leave it alone, too
					t.Skip("the signal is ignored here")
				}
				l := startLab(t, "7", "--conns", "300", "--duration", "1m")
				l.reach(t, phase)
				if err := l.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				l.reach(t, "sluice: interrupted")
				if l.Wait() == nil {
					t.Error("it ends as if nothing had happened")
				}
				if left := l.processes(); len(left) > 0 {
					t.Errorf("processes are left when it has ended: %+v", left)
				}
				l.checkGone(t)
			})
		}
	}
}
