package prefork

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice"
)

// behaviourMark stands before the name of a behaviour at the end of a binary.
const behaviourMark = "\nbehaviour of this version: "

// behaviour returns the behaviour of this process's binary; "" if it has no mark.
func behaviour() string { return behaviourIn("/proc/self/exe") }

// behaviourOf returns that of another process's binary.
func behaviourOf(pid int) string { return behaviourIn(fmt.Sprintf("/proc/%d/exe", pid)) }

func behaviourIn(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	f.Seek(-100, io.SeekEnd)
	tail, _ := io.ReadAll(f)
	_, name, _ := bytes.Cut(tail, []byte(behaviourMark))
	return string(name)
}

// behave makes this worker behave as its binary says.
// long: a case for each behaviour
func behave(p *Prefork) {
	name := behaviour()
	handler := p.server.Handler
	p.server.Handler = func(ctx *sluice.RequestCtx) {
		switch string(ctx.Path()) {
		case "/version":
			fmt.Fprintf(ctx, "%s %s", name, os.Args[0])
		case "/panic":
			if name == "panics in a handler" {
				go panic("in a goroutine of a handler") // one that the server cannot recover
				time.Sleep(patience)
			}
		default:
			handler(ctx)
		}
	}
	start := p.OnWorkerStart
	p.OnWorkerStart = func(w WorkerInfo) error {
		switch name {
		case "refuses the configuration":
			return errors.New("unknown setting")
		case "is never ready":
			select {}
		case "crashes soon":
			time.AfterFunc(200*time.Millisecond, func() { os.Exit(3) })
		}
		return start(w)
	}
	switch name {
	case "listens on more addresses":
		p.Listen = append(p.Listen, "127.0.0.1:0")
	case "exits at once":
		os.Exit(7)
	case "panics":
		panic("this version is broken")
	case "hangs":
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case "has another shared layout":
		if err := changeLayout(); err != nil {
			fmt.Println("the layout is not changed:", err)
		}
	case "has no memory":
		if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}); err != nil {
			fmt.Println("there is memory:", err)
		}
		for all := [][]byte{}; len(all) < 1<<12; {
			all = append(all, make([]byte, 1<<20))
		}
	}
}

// changeLayout gives this worker, which has one socket, a segment of another layout.
func changeLayout() error {
	const memory, version = 6, 8 // a descriptor, and the offset of a word
	var head [4096]byte
	if _, err := unix.Pread(memory, head[:], 0); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(memory, &st); err != nil {
		return err
	}
	fd, err := unix.MemfdCreate("other", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	head[version]++
	if err := errors.Join(unix.Ftruncate(fd, st.Size), func() error { _, err := unix.Pwrite(fd, head[:], 0); return err }()); err != nil {
		return err
	}
	return unix.Dup3(fd, memory, unix.O_CLOEXEC)
}

// A programFile is the file of a program whose versions are installed one after the
// other.
type programFile struct {
	t    *testing.T
	path string
	text []byte
}

func newProgramFile(t *testing.T) *programFile {
	t.Helper()
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	p := &programFile{t, filepath.Join(t.TempDir(), "program"), text}
	p.install("first")
	return p
}

// install replaces the file by a version with a behaviour.
func (p *programFile) install(name string) {
	p.t.Helper()
	text, mode := slices.Concat(p.text, []byte(behaviourMark+name)), os.FileMode(0o755)
	switch name {
	case "is truncated":
		text = text[:len(text)/3]
	case "is for another architecture":
		const machine, alpha = 18, 0x9026 // of the ELF header
		text[machine], text[machine+1] = alpha&0xff, alpha>>8
	case "is not executable":
		mode = 0o644
	}
	// A process that another test forks meanwhile would have the file open for writing until it
	// executes its own: this one could not be executed then.
	syscall.ForkLock.RLock()
	err := os.WriteFile(p.path+".new", text, mode)
	syscall.ForkLock.RUnlock()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(p.path+".new", p.path); err != nil {
		p.t.Fatal(err)
	}
}

// versions returns the versions of the workers that answer requests.
func (f *fleet) versions() []string {
	f.t.Helper()
	var all []string
	for range 20 {
		text, err := f.get("/version")
		if err != nil {
			f.t.Fatal(err)
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// brokenBinaries are the behaviours of binaries that do not serve, what the answer to an
// upgrade says of them, and how many requests of each client may fail: those in the hands
// of a worker that dies while it serves.
var brokenBinaries = []struct {
	name, why string
	mayFail   int
	isOfShort bool // one of each way to fail is enough for short tests
}{
	{"exits at once", "exit status 7", 0, true},
	{"panics", "exit status 2", 0, false},
	{"hangs", "not ready after 4s", 0, false},
	{"is never ready", "not ready after 4s", 0, false},
	{"crashes soon", "exit status 3", 2, true},
	{"has another shared layout", "cannot start: memory: ", 0, false},
	{"is not executable", "/program: permission denied", 0, true},
	{"is for another architecture", "/program: exec format error", 0, false},
	{"is truncated", "", 0, false},
	{"panics in a handler", "exit status 2", 1, false},
	{"has no memory", "exit status ", 0, false},
	{"refuses the configuration", "cannot start: config: unknown setting", 0, true},
}

// upgrading is a fleet whose program is replaced.
type upgrading struct {
	*fleet
	program *programFile
	good    string // the name of the good version
	kills   int
	isTLS   bool
}

// serves checks that all workers have the good version, and that so has the worker that
// replaces one that is killed.
func (u *upgrading) serves() {
	u.t.Helper()
	good := u.good + " " + u.program.path
	if got := u.versions(); !slices.Equal(got, []string{good}) {
		u.t.Errorf("%q answer, want %q", got, good)
	}
	syscall.Kill(statusAt(u.t, "tcp", u.admin()).Workers[0].PID, syscall.SIGKILL)
	u.kills++
	until(u.t, "the worker is replaced", func() bool {
		s := statusAt(u.t, "tcp", u.admin())
		return s.Ready && s.Crashes == u.kills && len(s.Workers) == 2
	})
	if got := u.versions(); !slices.Equal(got, []string{good}) {
		u.t.Errorf("after a kill %q answer, want %q", got, good)
	}
}

// upgrade installs a version and returns the answer to the upgrade. Meanwhile clients
// send requests, of which so many may fail.
func (u *upgrading) upgrade(name string, mayFail int) (status int, why string) {
	u.t.Helper()
	const clients = 4
	var l load
	for range clients / 2 {
		l.done.Add(2)
		go l.connectEach(u.fleet)
		go l.keepAlive(u.fleet)
	}
	status, why = u.order(name)
	l.stop.Store(true)
	l.done.Wait()
	if len(l.failed) > mayFail*clients || l.answered.Load() == 0 {
		u.t.Errorf("%s: %d requests failed, %d may: %v", name, len(l.failed), mayFail*clients, l.failed)
	}
	return status, why
}

// order installs a version and returns the answer to the upgrade.
func (u *upgrading) order(name string) (status int, why string) {
	u.t.Helper()
	u.program.install(name)
	if name == "panics in a handler" {
		go func() {
			until(u.t, "all workers have the new version", func() bool { return statusAt(u.t, "tcp", u.admin()).Soaking })
			u.source("", u.isTLS).client.Get(u.url(u.isTLS) + "/panic")
		}()
	}
	return request(u.t, "tcp", u.admin(), "POST", "/control/upgrade", "")
}

// I26: after an upgrade to a broken binary, all workers run the one from before, and so
// does the worker that replaces one that is killed later. No crash is counted.
func TestBrokenBinaries(t *testing.T) {
	t.Parallel()
	program := newProgramFile(t)
	// On a busy machine, and with the race detector, a good worker takes seconds to boot.
	u := &upgrading{startBinary(t, program.path, setup{
		Workers: 2, Admin: "127.0.0.1:0", Versions: true, Boot: 4 * time.Second, Soak: time.Second,
		Linger: 300 * time.Millisecond, Threshold: 99, Window: time.Minute,
	}, true), program, "first", 0, false}
	u.serves()
	descriptors := openFiles(t, u.cmd.Process.Pid)
	for i, c := range brokenBinaries {
		if testing.Short() && !c.isOfShort {
			continue
		}
		before := statusAt(t, "tcp", u.admin())
		status, why := u.upgrade(c.name, c.mayFail)
		if status != 500 || !strings.Contains(why, "rolling restart failed in slot ") || !strings.Contains(why, c.why) {
			t.Errorf("%s: %d, %q, want %q", c.name, status, why, c.why)
		}
		var s Status
		until(t, "all are ready again", func() bool {
			s = statusAt(t, "tcp", u.admin())
			return s.Ready && !s.Rolling && len(s.Workers) == 2
		})
		if s.RestartsFailed != i+1 && !testing.Short() || s.Restarts != before.Restarts || s.Version != before.Version || s.GoodVersion != s.Version || s.Crashes != u.kills {
			t.Errorf("%s: %+v", c.name, s)
		}
		if !strings.Contains(why, s.RestartError) || s.RestartError == "" || s.Slots[0].Version != s.Version || s.Slots[1].Version != s.Version {
			t.Errorf("%s: %q, slots %+v", c.name, s.RestartError, s.Slots)
		}
		u.serves()
		if i == len(brokenBinaries)/2 {
			u.upgradeToGood("second")
		}
	}
	if n := openFiles(t, u.cmd.Process.Pid); n != descriptors {
		t.Errorf("the master has %d descriptors, had %d", n, descriptors)
	}
}

// upgradeToGood makes a good version.
func (u *upgrading) upgradeToGood(name string) {
	u.t.Helper()
	if status, why := u.upgrade(name, 0); status != 200 {
		u.t.Errorf("a good binary: %d, %q", status, why)
	}
	if s := statusAt(u.t, "tcp", u.admin()); s.Slots[1].VersionCause != "upgrade" || s.RestartError != "" || s.Restarts != 1 {
		u.t.Errorf("%+v", s)
	}
	u.good = name
	u.serves()
}

// Upgrades to binaries that work lose no request, and no connection that is kept (I5).
func TestUpgrades(t *testing.T) {
	t.Parallel()
	upgrades := 20
	if testing.Short() {
		upgrades = 4
	}
	program := newProgramFile(t)
	u := &upgrading{startBinary(t, program.path, setup{Workers: 2, Admin: "127.0.0.1:0", Versions: true, Linger: 300 * time.Millisecond}, true), program, "first", 0, false}
	kept := u.dial()
	for i := range upgrades {
		name := fmt.Sprint("version ", i)
		if status, why := u.upgrade(name, 0); status != 200 {
			t.Fatalf("%s: %d, %q", name, status, why)
		}
		want := name + " " + program.path
		if got := u.versions(); !slices.Equal(got, []string{want}) {
			t.Errorf("%q answer, want %q", got, want)
		}
		until(t, "the connection is handed over", func() bool { return kept.get("/version") == want })
	}
	if s := statusAt(t, "tcp", u.admin()); s.Restarts != upgrades || s.RestartsFailed != 0 || s.Crashes != 0 || s.Version != upgrades+1 {
		t.Errorf("%+v", s)
	}
}

// openFiles counts the descriptors of a process.
func openFiles(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
