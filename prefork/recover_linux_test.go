package prefork

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/test/nettest"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Workers that die within the threshold are replaced, with the hooks in the
// documented order. A burst of deaths ends the fleet (I10).
func TestCrashes(t *testing.T) {
	f := start(t, setup{Workers: 2, Threshold: 2, Interval: 10 * time.Millisecond, Window: time.Minute}, true)
	for crash := 1; crash <= 2; crash++ {
		if _, err := f.get("/crash"); err == nil {
			t.Fatal("the worker answered")
		}
		until(t, "it is replaced", func() bool { return len(f.printed("recover ")) == crash && f.count("ready after") == 2+crash })
	}
	if _, err := f.get("/"); err != nil {
		t.Error(err)
	}
	recovered := f.printed("recover ")[0]
	pids := f.pids()
	if want := fmt.Sprint("recover ", pids[0], " ", pids[2]); recovered != want && recovered != fmt.Sprint("recover ", pids[1], " ", pids[2]) {
		t.Errorf("%q, want %q or that of the other worker", recovered, want)
	}
	if all := f.said(""); index(all, "spawn "+itoa(pids[2])) > index(all, recovered) {
		t.Error("OnChildRecover came before OnChildSpawn")
	}
	f.get("/crash")
	if status := f.wait(); status != 1 || f.count("master returned "+ErrOverRecovery.Error()) != 1 {
		t.Errorf("exit status %d", status)
	}
}

func index(lines []string, text string) int {
	for i, line := range lines {
		if line == text {
			return i
		}
	}
	return -1
}

// A crash loop ends the fleet, unless OverRecoveryDegrade is set. New workers then follow.
func TestOverRecovery(t *testing.T) {
	f := start(t, setup{Workers: 1, Threshold: 3, Failing: "crash"}, false)
	if status := f.wait(); status != 1 || f.count(ErrOverRecovery.Error()) == 0 {
		t.Errorf("exit status %d", status)
	}
	if n := len(f.pids()); n != 4 {
		t.Errorf("%d workers were started, want 4", n)
	}
	degraded := start(t, setup{Workers: 2, Degrade: true}, true)
	for crashes := 1; crashes <= 4; crashes++ {
		degraded.get("/crash")
		for range 20 {
			if _, err := degraded.get("/"); err != nil {
				t.Error(err)
			}
		}
		until(t, "it is replaced, after a pause", func() bool { return degraded.count("ready after") == 2+crashes })
	}
}

// The error of the first start is what the worker reported. The master alone says it: once for each
// worker, and at the end.
func TestBootError(t *testing.T) {
	f := start(t, setup{Workers: 2, Threshold: 9, Failing: "no such database"}, false)
	if status := f.wait(); status != 1 || f.count("master returned sluice: worker") != 1 || f.count("cannot start: config: no such database") == 0 {
		t.Errorf("exit status %d", status)
	}
	if n := f.count("cannot serve: config: no such database") + 1; f.count("no such database") != n {
		t.Errorf("%d lines have the error, want %d", f.count("no such database"), n)
	}
}

// A worker that cannot use the shared memory does not serve.
func TestBadMemory(t *testing.T) {
	f := start(t, setup{Workers: 1, Threshold: 9, BadMemory: true}, false)
	if status := f.wait(); status != 1 || f.count("cannot start: memory: ") == 0 || f.count("ready after") != 0 {
		t.Errorf("exit status %d", status)
	}
}

// The socket of a worker that died is served by another worker until there is a
// successor, and no longer.
func TestSocketIsReturned(t *testing.T) {
	eachServing(t, func(t *testing.T, s setup) {
		gate := filepath.Join(t.TempDir(), "gate")
		s.Workers, s.Threshold, s.Window, s.BootGate = 2, 9, time.Minute, gate
		f := start(t, s, true)
		sibling := f.pids()[1]
		if n := listeners(t, sibling); n != 1 {
			t.Fatalf("a worker has %d listeners", n)
		}
		nettest.Signal(t, f.pids()[0], syscall.SIGKILL)
		until(t, "the sibling has the socket", func() bool { return listeners(t, sibling) == 2 })
		for range 20 {
			if _, err := f.get("/"); err != nil {
				t.Fatal(err)
			}
		}
		open(t, gate)
		until(t, "the socket is returned", func() bool { return f.count("ready after") == 3 && listeners(t, sibling) == 1 })
		served := make(map[string]bool)
		until(t, "both answer", func() bool {
			body, err := f.get("/")
			if err != nil {
				t.Fatal(err)
			}
			served[body] = true
			return len(served) == 2
		})
	})
}

// A socket that all workers share needs no other worker when one has died.
func TestSharedSocketIsNotAdopted(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	f := start(t, setup{Workers: 2, Shared: true, Threshold: 9, Window: time.Minute, BootGate: gate}, true)
	nettest.Signal(t, f.pids()[0], syscall.SIGKILL)
	until(t, "the sibling has the inbox alone", func() bool { return f.count("reads the inbox of slot 0 meanwhile") == 1 })
	if n := listeners(t, f.pids()[1]); n != 1 {
		t.Errorf("the sibling has %d listeners", n)
	}
	for range 10 {
		if _, err := f.get("/"); err != nil {
			t.Fatal(err)
		}
	}
	open(t, gate)
}

// TTIN and TTOU change the number of workers; WINCH ends them until HUP.
func TestScaling(t *testing.T) {
	f := start(t, setup{Workers: 1}, true)
	alive := func() (n int) {
		for _, pid := range f.pids() {
			if isAlive(pid) {
				n++
			}
		}
		return n
	}
	f.signal(syscall.SIGTTIN)
	until(t, "there are two", func() bool { return f.count("ready after") == 2 })
	f.signal(syscall.SIGTTOU)
	until(t, "there is one", func() bool { return alive() == 1 })
	for range 20 { // also on the socket of the other slot
		if _, err := f.get("/"); err != nil {
			t.Fatal(err)
		}
	}
	f.signal(syscall.SIGWINCH)
	until(t, "there is none", func() bool { return alive() == 0 })
	answer := make(chan error, 1)
	go func() {
		_, err := f.get("/") // it waits
		answer <- err
	}()
	f.signal(syscall.SIGHUP)
	if err := <-answer; err != nil {
		t.Error(err)
	}
}

// A binary that was removed or replaced runs on as it was (I12).
func TestBinaryReplaced(t *testing.T) {
	for name, replace := range map[string]func(path string) error{
		"removed": os.Remove,
		"replaced": func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.WriteFile(path, []byte("#!/bin/sh\nexit 7\n"), 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "binary")
			// Not a copy: a process that another test forks meanwhile would hold it
			// open for writing.
			if err := os.Link(os.Args[0], path); err != nil {
				t.Fatal(err)
			}
			f := startBinary(t, path, setup{Workers: 1, Threshold: 5, Window: time.Minute}, true)
			if err := replace(path); err != nil {
				t.Fatal(err)
			}
			f.get("/crash")
			until(t, "the worker is replaced", func() bool { return f.count("ready after") == 2 })
			if _, err := f.get("/"); err != nil {
				t.Error(err)
			}
		})
	}
}

// withoutProc returns a program that runs this test's binary without /proc.
func withoutProc(t *testing.T) string {
	t.Helper()
	if out, err := exec.Command("unshare", "-m", "mount", "-t", "tmpfs", "none", "/proc").CombinedOutput(); err != nil {
		t.Skipf("/proc cannot be hidden: %v, %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "hidden")
	text := "#!/bin/sh\nexec unshare -m sh -c 'mount -t tmpfs none /proc && exec \"$0\"' '" + self + "'\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return script
}

// A fleet starts, replaces its workers and ends without /proc.
func TestWithoutProc(t *testing.T) {
	f := startBinary(t, withoutProc(t), setup{Workers: 2, Threshold: 9, Linger: time.Millisecond}, true)
	f.get("/crash")
	until(t, "the worker is replaced", func() bool { return len(f.printed("recover ")) == 1 })
	f.restart()
	if body, err := f.get("/"); err != nil || !strings.HasSuffix(body, " true") {
		t.Errorf("%q, %v", body, err)
	}
	f.signal(syscall.SIGTERM)
	if status := f.wait(); status != 0 || f.count("cannot be started") > 0 {
		t.Errorf("exit status %d", status)
	}
}

// If a CommandProducer's new binary is broken, a restart keeps the running workers. A
// later restart with a working binary replaces them.
func TestProducersBrokenBinary(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "binary")
	replace := func(with string, link bool) {
		t.Helper()
		next := binary + ".next"
		var err error
		if link {
			err = os.Symlink(with, next)
		} else {
			err = os.WriteFile(next, []byte(with), 0o700)
		}
		if err == nil {
			err = os.Rename(next, binary)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	replace(self, true)
	f := start(t, setup{Workers: 2, Producer: binary, Drain: time.Second}, true)
	first, err := f.get("/")
	if err != nil {
		t.Fatal(err)
	}
	for i, broken := range []string{"#!/bin/sh\nexit 1\n", "not a program"} {
		replace(broken, false)
		f.signal(syscall.SIGHUP)
		until(t, "the restart fails", func() bool { return f.count("rolling restart failed in slot") == i+1 })
		if again, err := f.get("/"); err != nil || strings.HasSuffix(again, " 2 true") {
			t.Errorf("%q, %v, before the restart %q", again, err, first)
		}
	}
	replace(self, true)
	f.restart()
	for _, pid := range f.pids()[:2] {
		until(t, "the old worker is gone", func() bool { return !isAlive(pid) })
	}
	if again, err := f.get("/"); err != nil || strings.HasSuffix(again, " 1 true") {
		t.Errorf("%q, %v, before the restart %q", again, err, first)
	}
	f.signal(syscall.SIGTERM)
	if status := f.wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}
