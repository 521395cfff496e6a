package hold

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/process/supervise"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

const patience = 20 * time.Second

// lines is a Logger that keeps its lines.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, fmt.Sprintf(format, args...))
}

// count returns how many lines contain text.
func (l *lines) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// until waits for a condition.
func until(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	if !nettest.Poll(patience, isSo) {
		t.Fatalf("not in %v: %s", patience, what)
	}
}

// A service is a holder in this process.
type service struct {
	t      *testing.T
	log    *lines
	done   chan struct{}
	result string
	err    error

	mu     sync.Mutex
	reaped []int
}

// hold starts a holder whose managers have a role.
func hold(t *testing.T, role string, change func(*Config)) *service {
	t.Helper()
	s := &service{t: t, log: &lines{}, done: make(chan struct{})}
	c := Config{
		Process:     supervise.Process{Args: os.Args, Env: append(os.Environ(), roleVariable+"="+role)},
		Logger:      s.log,
		BootTimeout: patience,
		Grace:       100 * time.Millisecond,
		OnReaped: func(pid int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.reaped = append(s.reaped, pid)
		},
	}
	if change != nil {
		change(&c)
	}
	go func() {
		defer close(s.done)
		result, err := Run(c)
		s.result, s.err = string(result), err
	}()
	return s
}

// wait waits for the end.
func (s *service) wait() (string, error) {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(patience):
		s.t.Fatal("the holder does not end")
	}
	return s.result, s.err
}

// children returns the children of this process that play a role.
func children(role string) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		text, _ := os.ReadFile(stat)
		_, after, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(after)
		if len(fields) < 2 || fields[0] == "Z" || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		environment, _ := os.ReadFile(filepath.Dir(stat) + "/environ")
		last := ""
		for _, entry := range strings.Split(string(environment), "\x00") {
			if value, found := strings.CutPrefix(entry, roleVariable+"="); found {
				last = value
			}
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat))); err == nil && last == role {
			pids = append(pids, pid)
		}
	}
	return pids
}

// signal sends a signal to this process, which is the holder.
func (s *service) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := syscall.Kill(os.Getpid(), sig); err != nil {
		s.t.Fatal(err)
	}
}

// The worker outlives managers that die and that are replaced, and the last manager knows all
// that the ones before have put.
func TestWorkerOutlivesManagers(t *testing.T) {
	segment, err := os.Open("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	s := hold(t, "manages", func(c *Config) {
		c.Entries = map[string]supervise.Entry{"segment": {Files: []*os.File{segment}}}
	})
	until(t, "the worker", func() bool { return len(children("worker")) == 1 })
	worker := children("worker")[0]
	for i := range 3 {
		before := children("manages")
		until(t, "a manager", func() bool { before = children("manages"); return len(before) == 1 })
		if i == 0 {
			s.signal(syscall.SIGHUP)
		} else {
			s.signal(syscall.SIGUSR2)
		}
		until(t, "another manager", func() bool {
			now := children("manages")
			return len(now) == 1 && now[0] != before[0]
		})
	}
	s.signal(syscall.SIGUSR1)
	s.signal(syscall.SIGWINCH)
	until(t, "another manager has come and gone", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.reaped) >= 6 // killed, replaced twice, probed twice, dismissed
	})
	if now := children("worker"); !slices.Equal(now, []int{worker}) {
		t.Errorf("workers %v, want %d", now, worker)
	}
	s.signal(syscall.SIGTERM)
	result, err := s.wait()
	want := "manages  [] manages first [0.1] manages good [0.1] manages good [0.1] " +
		"probed: <nil>, the new binary cannot manage the service: exit status 1 " +
		"replace: <nil> probe: another upgrade is under way probe: the new binary cannot be started: binary/bad is not held ended: exit status 7 "
	if result != want || err != nil {
		t.Errorf("%v\n%q, want\n%q", err, result, want)
	}
	if s.log.count("another one follows, workers go on") != 1 {
		t.Errorf("log: %q", s.log.all)
	}
}

// A signal that comes while there is no manager reaches the next one. A worker that ends
// meanwhile is reported to it.
func TestNoManager(t *testing.T) {
	s := hold(t, "manages", func(c *Config) { c.Grace = patience })
	until(t, "the worker", func() bool { return len(children("worker")) == 1 })
	var manager []int
	until(t, "the manager", func() bool { manager = children("manages"); return len(manager) == 1 })
	nettest.Freeze(t, manager[0]) // it gets nothing
	syscall.Kill(children("worker")[0], syscall.SIGKILL)
	syscall.Kill(manager[0], syscall.SIGKILL)
	s.signal(syscall.SIGTERM)
	result, err := s.wait()
	if want := "manages  [] manages first [0.1] ended: signal: killed "; result != want || err != nil {
		t.Errorf("%v, %q, want %q", err, result, want)
	}
}

// A service whose first manager fails ends, with the manager's reason.
func TestFirstManagerFails(t *testing.T) {
	s := hold(t, "refuses", nil)
	result, err := s.wait()
	if reason := supervise.ParseResult([]byte(result)); err != nil || !errors.Is(reason, syscall.EADDRINUSE) || reason.Error() != "refused: address already in use" {
		t.Errorf("%v, %v", reason, err)
	}
	for role, want := range map[string]string{
		"dies":   "ended before it was ready: exit status 9",
		"silent": "ended before it was ready: not ready after 50ms",
	} {
		s := hold(t, role, func(c *Config) {
			c.BootTimeout = map[string]time.Duration{"dies": patience, "silent": 50 * time.Millisecond}[role]
		})
		if _, err := s.wait(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", role, err, want)
		}
	}
	s = hold(t, "stateless", nil)
	until(t, "the worker", func() bool { return len(children("worker")) == 1 })
	syscall.Kill(children("stateless")[0], syscall.SIGKILL)
	if _, err := s.wait(); err == nil || !strings.Contains(err.Error(), "before it had started a worker: signal: killed") {
		t.Errorf("%v", err)
	}
}

// If no manager can be started any more, workers go on, and the binary from before is tried
// again. An order to end is carried out without a manager.
func TestManagersCannotStart(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	s := hold(t, gate, func(c *Config) { c.Grace = time.Second })
	until(t, "the worker", func() bool { return len(children("worker")) == 1 })
	first := children(gate)
	s.signal(syscall.SIGUSR2)
	var second []int
	until(t, "another manager", func() bool {
		second = children(gate)
		return len(second) == 1 && second[0] != first[0]
	})
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(second[0], syscall.SIGKILL)
	until(t, "some attempts", func() bool { return s.log.count("ended before it was ready: exit status 9") > failuresBefore })
	if len(children("worker")) != 1 {
		t.Error("the worker has ended")
	}
	s.signal(syscall.SIGTERM)
	if _, err := s.wait(); !errors.Is(err, errEnded) || len(children("worker")) != 0 {
		t.Errorf("%v, workers %v", err, children("worker"))
	}
}

// A manager that does nothing after a signal to end is killed, and the next one gets the signal.
func TestManagerHangs(t *testing.T) {
	s := hold(t, "manages", func(c *Config) { c.Grace = patience })
	until(t, "the worker", func() bool { return len(children("worker")) == 1 })
	nettest.Freeze(t, children("manages")[0])
	s.signal(syscall.SIGTERM)
	result, err := s.wait()
	if want := "manages  [] manages first [0.1] ended: exit status 7 "; result != want || err != nil {
		t.Errorf("%v, %q, want %q", err, result, want)
	}
}

// Frames that a manager sent before it hangs do not answer the signal, even if they arrive later.
func TestManagerHangsWithFramesOnTheWay(t *testing.T) {
	ours, _ := somePair(t)
	m := &manager{conn: ours, command: exec.Command("sleep", "60")}
	if err := m.command.Start(); err != nil {
		t.Fatal(err)
	}
	h := &holder{config: Config{Logger: &lines{}, Grace: time.Hour}, manager: m, events: make(chan event), over: make(chan struct{})}
	defer close(h.over)
	h.signalled(syscall.SIGTERM)
	h.receive(m, frame{Kind: kindDrop, Name: "something"})
	(<-h.events)()
	if err := m.command.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("%v", err)
	}
	h.entries = map[string]supervise.Entry{supervise.EntryFleet: {Data: []byte("x")}}
	m.hasLeft, m.timer, h.isEnding = true, time.NewTimer(time.Hour), false
	h.candidate = &manager{} // one boots already
	h.ended(m, "signal: killed")
	if !slices.Equal(h.signals, []os.Signal{syscall.SIGTERM}) {
		t.Errorf("%v waits for the next manager", h.signals)
	}
}

// A signal that comes while a manager hands over reaches the next one.
func TestSignalWhileYielding(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file+".slow", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := hold(t, file, func(c *Config) { c.Grace = patience })
	until(t, "the worker", func() bool { return len(children("worker")) == 1 })
	s.signal(syscall.SIGUSR2)
	until(t, "the other manager is ready", func() bool { return exists(file + ".yield") })
	s.signal(syscall.SIGTERM)
	time.Sleep(50 * time.Millisecond) // the holder has it; if not, the test shows nothing
	os.Remove(file + ".yield")
	result, err := s.wait()
	if want := "manages  [] manages good [0.1] ended: exit status 7 "; result != want || err != nil {
		t.Errorf("%v, %q, want %q", err, result, want)
	}
}

// A manager that ends before it has left a state is not restarted immediately. After several such
// ends the previous binary is used.
func TestManagersEndEarly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	s := hold(t, file, func(c *Config) { c.Grace = patience })
	until(t, "the worker", func() bool { return len(children("worker")) == 1 })
	first := children(file)
	s.signal(syscall.SIGUSR2)
	var second []int
	until(t, "another manager", func() bool {
		second = children(file)
		return len(second) == 1 && second[0] != first[0]
	})
	if err := os.WriteFile(file+".late", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(second[0], syscall.SIGKILL)
	until(t, "some attempts", func() bool { return s.log.count("ended before it was ready: exit status 9") >= failuresBefore })
	os.Remove(file + ".late")
	s.signal(syscall.SIGTERM)
	result, err := s.wait()
	if want := "manages  [] manages good [0.1] manages first [0.1] ended: exit status 7 "; result != want || err != nil {
		t.Errorf("%v, %q, want %q", err, result, want)
	}
	if n := s.log.count("another one follows"); n != 1 {
		t.Errorf("%d managers were replaced at once", n)
	}
}

// A holder that has no room for more descriptors refuses what needs some, and tells the manager why.
// The manager and the worker go on.
func TestHolderWithoutRoom(t *testing.T) {
	s := hold(t, "manages", nil)
	until(t, "the worker", func() bool { return len(children("worker")) == 1 })
	first := children("manages")
	nettest.WithFree(t, 512, 0, func() {
		s.signal(syscall.SIGTTIN)
		until(t, "the entry is refused", func() bool { return s.log.count("cannot keep null: 0 of 1 descriptors") == 1 })
		until(t, "the worker is refused", func() bool { return s.log.count("cannot take what 1.1 needs: 0 of 1 descriptors") == 1 })
	})
	s.signal(syscall.SIGUSR2)
	until(t, "another manager", func() bool {
		now := children("manages")
		return len(now) == 1 && now[0] != first[0]
	})
	s.signal(syscall.SIGTERM)
	result, err := s.wait()
	if want := "manages  [] put: true start: true manages good [0.1] ended: exit status 7 "; result != want || err != nil {
		t.Errorf("%v, %q, want %q", err, result, want)
	}
	if n := s.log.count("another one follows"); n != 0 {
		t.Errorf("%d managers have died", n)
	}
}
