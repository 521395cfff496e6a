package supervise

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Sockets of a slot are made once, and not after they were closed.
func TestOpenSockets(t *testing.T) {
	made := 0
	c := Config{Workers: 1, Logger: &logLines{}}
	s := &spawner{master: &Master{config: c}, sockets: map[int][]*os.File{}, inboxes: map[int]*inboxPair{}}
	if s.isOpen(1) {
		t.Error("open before its sockets are made")
	}
	if files, err := s.openSockets(1); files != nil || err != nil || s.isOpen(1) {
		t.Errorf("without sockets: %v, %v, open %v", files, err, s.isOpen(1))
	}
	file := someFile(t)
	open := func(int) ([]*os.File, error) {
		made++
		f, err := os.Open(file.Name())
		return []*os.File{f}, err
	}
	s.master.config.Sockets = open
	first, err := s.openSockets(1)
	again, err2 := s.openSockets(1)
	if err != nil || err2 != nil || made != 1 || len(first) != 1 || again[0] != first[0] || !s.isOpen(1) || s.isOpen(2) {
		t.Errorf("%v, %v: made %d times, %v and %v", err, err2, made, first, again)
	}
	s.master.config.Sockets = func(slot int) ([]*os.File, error) {
		s.closeSockets()
		return open(slot)
	}
	if files, err := s.openSockets(2); files != nil || err != errStopping || s.isOpen(1) || s.isOpen(2) {
		t.Errorf("closed meanwhile: %v, %v", files, err)
	}
	if files, err := s.openSockets(3); files != nil || err != errStopping || made != 2 {
		t.Errorf("closed: %v, %v, made %d times", files, err, made)
	}
	if n := openFiles(t, file); n != 1 {
		t.Errorf("%d descriptors are open, want that of the test", n)
	}
	s.inboxes[4] = &inboxPair{}
	if !s.isOpen(4) {
		t.Error("a slot with an inbox is not open")
	}
	made, s.isClosed = 0, false
	s.master.config.SharedSockets = true
	s.master.config.Sockets = func(slot int) ([]*os.File, error) {
		made++
		return nil, nil
	}
	s.openSockets(3)
	if _, err := s.openSockets(7); err != nil || made != 1 || !s.isOpen(0) || s.isOpen(3) {
		t.Errorf("shared: made %d times, %v", made, err)
	}
}

// Close of a master that never ran closes what New opened. After Run it does nothing.
func TestCloseWithoutRun(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := New(Config{Workers: 2, Logger: &logLines{}, Inboxes: true, Sockets: func(int) ([]*os.File, error) {
		again, err := os.Open(f.Name())
		return []*os.File{again}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	if n := openFiles(t, f); n != 3 {
		t.Fatalf("%d descriptors, want one of ours and one for each slot", n)
	}
	lifelines := []*os.File{m.lifelineRead, m.lifelineWrite, m.spawner.inbox(1).rx, m.spawner.inbox(1).tx}
	m.Close()
	if n := openFiles(t, f); n != 1 {
		t.Errorf("%d descriptors after Close", n)
	}
	m.Close()
	for _, l := range lifelines {
		if err := l.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("a lifeline or an inbox is open: %v", err)
		}
	}
	if err := m.Run(context.Background()); err == nil {
		t.Error("Run after Close")
	}
}

// Workers do not inherit the variables of systemd.
func TestEnvironmentOfWorkers(t *testing.T) {
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"} {
		t.Setenv(name, "1")
	}
	t.Setenv("LISTEN_PID_", "of others")
	var want []string
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); name == "LISTEN_PID_" || !strings.HasPrefix(name, "LISTEN_") && name != "NOTIFY_SOCKET" && !strings.HasPrefix(name, "WATCHDOG_") {
			want = append(want, entry)
		}
	}
	if got := workerEnvironment([]string{"A=1", "B=2"}); !slices.Equal(got, append(want, "A=1", "B=2")) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Without /proc the binary is found by the name that it was started with, unless the
// system reports its path.
func TestFindExecutable(t *testing.T) {
	old := os.Args[0]
	defer func() { os.Args[0] = old }()
	dir := t.TempDir()
	t.Chdir(dir)
	os.Args[0] = "./program"
	noProc := errors.New("no /proc")
	if got, err := findExecutable("", noProc); err == nil {
		t.Errorf("a program that does not exist is %+v", got)
	}
	if err := os.WriteFile("program", nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file string
		err  error
		want string
	}{{"/of/the/system", nil, "/of/the/system"}, {"", noProc, filepath.Join(dir, "program")}} {
		got, err := findExecutable(c.file, c.err)
		if err != nil || got.path() != c.want || got.fd != -1 {
			t.Errorf("%+v, %v, want %s", got, err, c.want)
		}
		if _, err := got.reopen(0); !errors.Is(err, errNotKept) {
			t.Errorf("an upgrade that could not be rolled back: %v", err)
		}
	}
}

// An upgrade opens the file to which the path leads then by which the program was started, with
// symbolic links. A name that leads to another file is of no use.
func TestLinkToExecutable(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	old := os.Args[0]
	defer func() { os.Args[0] = old }()
	dir := t.TempDir()
	link, other := filepath.Join(dir, "current"), filepath.Join(dir, "new")
	if err := errors.Join(os.Symlink(self, link), os.WriteFile(other, []byte("new"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{link: link, other: self, "no such program": self} {
		os.Args[0] = name
		e, err := openExecutable(0)
		if err != nil || e.origin != want {
			t.Errorf("%s: %+v, %v, want %s", name, e, err, want)
		}
		e.close()
	}
	os.Args[0] = link
	e, err := openExecutable(0)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	if err := errors.Join(os.Remove(link), os.Symlink(other, link)); err != nil {
		t.Fatal(err)
	}
	next, err := e.reopen(0)
	if err != nil {
		t.Fatal(err)
	}
	defer next.close()
	if text, err := os.ReadFile(next.path()); err != nil || string(text) != "new" {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// Each hook is called for its own event.
func TestHooksOfActions(t *testing.T) {
	called := ""
	note := func(name string) func() { return func() { called = name } }
	m := &Master{hooks: newMailbox[func()]()}
	m.config.Hooks = Hooks{
		OnSpawn:      func(int, int) error { called = "spawn"; return nil },
		OnRecover:    func(int, int, int) { called = "recover" },
		OnStarted:    func([]int) error { called = "started"; return nil },
		OnFleetReady: note("ready"), OnReopen: note("reopen"), OnStopping: note("stopping"),
	}
	for kind, want := range map[actionKind]string{
		actSpawned: "spawn", actRecover: "recover", actStarted: "started", actAllReady: "ready", actReopened: "reopen", actStopping: "stopping",
	} {
		called = ""
		m.perform(action{kind: kind})
		for _, hook := range m.hooks.takeAll() {
			hook()
		}
		if called != want {
			t.Errorf("%q was called, want %q", called, want)
		}
	}
}

// Hooks that are nil are not called.
func TestNoHooks(t *testing.T) {
	m := &Master{hooks: newMailbox[func()]()}
	for kind := actionKind(0); kind < 64; kind++ {
		m.performHook(action{kind: kind})
	}
	if waiting := m.hooks.takeAll(); len(waiting) != 0 {
		t.Errorf("%d calls wait", len(waiting))
	}
}

// An error of exec names the binary that the user knows. One about another file does not.
func TestNameOfExecutable(t *testing.T) {
	e := &executable{fd: -1, file: "/proc/self/fd/9", origin: "/usr/bin/app"}
	for path, want := range map[string]string{"/proc/self/fd/9": "/usr/bin/app", "/dev/null": "/dev/null"} {
		err := e.name(&fs.PathError{Op: "fork/exec", Path: path, Err: fs.ErrNotExist})
		var failed *fs.PathError
		if !errors.As(err, &failed) || failed.Path != want || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
	other := errors.New("other")
	if e.name(other) != other {
		t.Error("another error is changed")
	}
}
