package prefork

import (
	"bufio"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var (
	upgradesInPlace = flag.Int("inplace.upgrades", 6, "how many upgrades TestUpgradeInPlace makes")
	managerKills    = flag.Int("inplace.kills", 20, "how many managers TestManagerIsKilled kills")
)

// servingPIDs returns the pids of the workers that serve.
func (f *fleet) servingPIDs() (pids []int) {
	f.t.Helper()
	for _, w := range statusAt(f.t, "tcp", f.admin()).Workers {
		pids = append(pids, w.PID)
	}
	return pids
}

// manager returns the pid of the manager.
func (f *fleet) manager() int {
	f.t.Helper()
	return statusAt(f.t, "tcp", f.admin()).Master.PID
}

// isNamed fails if ps does not name the manager after the program at a path.
func (f *fleet) isNamed(path string) {
	f.t.Helper()
	const longest = 15
	want := filepath.Base(path)
	want = want[:min(len(want), longest)] + "\n"
	if got, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", f.manager())); err != nil || string(got) != want {
		f.t.Errorf("the manager is named %q, want %q: %v", got, want, err)
	}
}

// killManager kills the manager and waits until another one answers.
func (f *fleet) killManager() {
	f.t.Helper()
	old := f.manager()
	syscall.Kill(old, syscall.SIGKILL)
	until(f.t, "another manager", func() bool { return f.tryManager() != old && f.tryManager() != 0 })
}

// tryManager returns the pid of the manager; 0 if it does not answer now.
func (f *fleet) tryManager() int {
	s, err := tryStatus("tcp", f.admin())
	if err != nil {
		return 0
	}
	return s.Master.PID
}

// I25: when managers are killed under load, no request fails and no worker is replaced.
func TestManagerIsKilled(t *testing.T) {
	t.Parallel()
	kills := *managerKills
	if testing.Short() {
		kills = min(kills, 5)
	}
	f := start(t, setup{Workers: 2, Admin: "127.0.0.1:0", Upgrade: true, Threshold: 99, Hang: patience}, true)
	workers, children := f.servingPIDs(), len(childrenOf(t, f.cmd.Process.Pid))
	if children != 3 {
		t.Errorf("%d children of the holder", children)
	}
	var l load
	for range 2 {
		l.done.Add(2)
		go l.connectEach(f)
		go l.keepAlive(f)
	}
	for range kills {
		f.killManager()
	}
	l.stop.Store(true)
	l.done.Wait()
	if len(l.failed) > 0 || l.answered.Load() == 0 {
		t.Errorf("%d requests, %d failed: %v", l.answered.Load(), len(l.failed), l.failed)
	}
	if now := f.servingPIDs(); !slices.Equal(now, workers) {
		t.Errorf("workers %v, were %v", now, workers)
	}
	s := statusAt(t, "tcp", f.admin())
	if s.Crashes != 0 || s.Restarts != 0 || !s.Ready || !s.Started || len(s.Slots) != 2 {
		t.Errorf("%+v", s)
	}
	// The new manager manages: it replaces a worker that dies, restarts and ends.
	syscall.Kill(workers[0], syscall.SIGKILL)
	until(t, "the worker is replaced", func() bool {
		s := statusAt(t, "tcp", f.admin())
		return s.Crashes == 1 && s.Ready
	})
	f.signal(syscall.SIGHUP)
	until(t, "the restart is done", func() bool { return statusAt(t, "tcp", f.admin()).Restarts == 1 })
	f.killManager()
	until(t, "the workers before have ended", func() bool { return len(childrenOf(t, f.cmd.Process.Pid)) == children })
	f.signal(syscall.SIGTERM)
	if status := f.wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// An upgrade replaces the workers and then the manager. The pid stays, connections are handed
// over, and neither processes nor descriptors are left (I5, I28).
func TestUpgradeInPlace(t *testing.T) {
	t.Parallel()
	upgrades := *upgradesInPlace
	if testing.Short() {
		upgrades = min(upgrades, 4)
	}
	program := newProgramFile(t)
	u := &upgrading{startBinary(t, program.path, setup{Workers: 2, Admin: "127.0.0.1:0", Versions: true, Upgrade: true, Linger: 300 * time.Millisecond, Threshold: 99, Window: time.Minute}, true), program, "first", 0, false}
	u.isNamed(program.path)
	kept := u.dial()
	descriptors := 0
	for i := range upgrades {
		name := fmt.Sprint("version ", i)
		old := u.manager()
		if status, why := u.upgrade(name, 0); status != 200 {
			t.Fatalf("%s: %d, %q", name, status, why)
		}
		until(t, "another manager", func() bool { now := u.tryManager(); return now != old && now != 0 })
		want := name + " " + program.path
		if got := u.versions(); !slices.Equal(got, []string{want}) {
			t.Errorf("%q answer, want %q", got, want)
		}
		until(t, "the connection is handed over", func() bool { return kept.get("/version") == want })
		if got := behaviourOf(u.manager()); got != name {
			t.Errorf("the manager is %q, want %q", got, name)
		}
		u.isNamed(program.path)
		until(t, "only three processes", func() bool { return len(childrenOf(t, u.cmd.Process.Pid)) == 3 })
		if i == 1 { // the binary from before is kept, too
			descriptors = openFiles(t, u.cmd.Process.Pid)
		}
	}
	until(t, "no descriptors are left", func() bool { return openFiles(t, u.cmd.Process.Pid) <= descriptors })
	if s := statusAt(t, "tcp", u.admin()); s.Restarts != upgrades || s.RestartsFailed != 0 || s.Crashes != 0 || s.Version != upgrades+1 {
		t.Errorf("%+v", s)
	}
	u.good = fmt.Sprint("version ", upgrades-1)
	u.serves()
	u.signal(syscall.SIGTERM)
	if status := u.wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// A binary that cannot manage, or whose workers fail, changes nothing (I26).
func TestBrokenUpgradeInPlace(t *testing.T) {
	t.Parallel()
	program := newProgramFile(t)
	u := &upgrading{startBinary(t, program.path, setup{
		Workers: 2, Admin: "127.0.0.1:0", Versions: true, Upgrade: true, Boot: 4 * time.Second, Soak: time.Second,
		Linger: 300 * time.Millisecond, Threshold: 99, Window: time.Minute,
	}, true), program, "first", 0, false}
	manager := u.manager()
	descriptors := openFiles(t, u.cmd.Process.Pid)
	for _, c := range brokenBinaries {
		if testing.Short() && !c.isOfShort {
			continue
		}
		status, why := u.upgrade(c.name, c.mayFail)
		if status != 500 || strings.Count(why, "\n") != 1 {
			t.Errorf("%s: %d, %q", c.name, status, why)
		}
		t.Logf("%s: %s", c.name, why)
		until(t, "all are ready again", func() bool {
			s := statusAt(t, "tcp", u.admin())
			return s.Ready && !s.Rolling && len(s.Workers) == 2
		})
		u.serves()
		if now := u.manager(); now != manager {
			t.Errorf("%s: the manager was replaced", c.name)
		}
	}
	until(t, "no descriptors are left in the holder", func() bool { return openFiles(t, u.cmd.Process.Pid) <= descriptors })
}

// If the manager is killed in the middle of an upgrade, another one ends it. No request fails.
func TestManagerIsKilledDuringUpgrade(t *testing.T) {
	t.Parallel()
	kills := 20
	if testing.Short() {
		kills = 4
	}
	program := newProgramFile(t)
	u := &upgrading{startBinary(t, program.path, setup{
		Workers: 2, Admin: "127.0.0.1:0", Versions: true, Upgrade: true, Soak: 300 * time.Millisecond, Linger: 300 * time.Millisecond,
	}, true), program, "first", 0, false}
	kept := u.dial()
	var l load
	l.done.Add(2)
	go l.connectEach(u.fleet)
	go l.keepAlive(u.fleet)
	late := 0 // orders; the next one is refused if it comes during the upgrade
	for i := range kills {
		name := fmt.Sprint("version ", i)
		old := 0
		until(t, "a manager", func() bool { old = u.tryManager(); return old != 0 })
		program.install(name)
		u.signal(syscall.SIGUSR2)
		time.Sleep(time.Duration(i) * 60 * time.Millisecond) // each phase in its turn
		syscall.Kill(old, syscall.SIGKILL)
		until(t, "a manager, and no restart", func() bool {
			s, err := tryStatus("tcp", u.admin())
			return err == nil && s.Master.PID != old && s.Ready && !s.Rolling && len(s.Workers) == 2
		})
		var got string
		until(t, "manager, workers and the connection have one binary", func() bool {
			s, err := tryStatus("tcp", u.admin())
			if err != nil || !s.Ready || s.Rolling || len(s.Workers) != 2 {
				return false
			}
			got = behaviourOf(s.Workers[0].PID)
			return behaviourOf(s.Master.PID) == got && kept.get("/version") == got+" "+program.path
		})
		if got != name {
			late++
			t.Logf("%v after the order: it is lost, or comes later", time.Duration(i)*60*time.Millisecond)
		}
	}
	l.stop.Store(true)
	l.done.Wait()
	if len(l.failed) > 0 || l.answered.Load() == 0 {
		t.Errorf("%d requests, %d failed: %v", l.answered.Load(), len(l.failed), l.failed)
	}
	if s := statusAt(t, "tcp", u.admin()); s.Crashes != 0 || s.RestartsFailed > late {
		t.Errorf("%d late, %+v", late, s)
	}
}

// If the manager is killed in the middle of a restart, whose versions have the same binary, another one
// ends it.
func TestManagerIsKilledDuringRestart(t *testing.T) {
	t.Parallel()
	f := start(t, setup{Workers: 2, Admin: "127.0.0.1:0", Upgrade: true, Soak: time.Second, Linger: 300 * time.Millisecond}, true)
	f.signal(syscall.SIGHUP)
	until(t, "the restart", func() bool { return statusAt(t, "tcp", f.admin()).Rolling || statusAt(t, "tcp", f.admin()).Soaking })
	f.signal(syscall.SIGHUP) // one more follows
	f.killManager()
	until(t, "the restarts are done", func() bool {
		s, err := tryStatus("tcp", f.admin())
		return err == nil && s.Restarts >= 1 && s.Ready && !s.Rolling && !s.Soaking
	})
	if s := statusAt(t, "tcp", f.admin()); s.Crashes != 0 || s.RestartsFailed != 0 {
		t.Errorf("%+v", s)
	}
}

// A binary that is refused leaves the files of the sockets on which the service listens.
func TestRefusedUpgradeLeavesFiles(t *testing.T) {
	t.Parallel()
	program, path := newProgramFile(t), filepath.Join(t.TempDir(), "socket")
	u := &upgrading{startBinary(t, program.path, setup{Workers: 1, Admin: "127.0.0.1:0", Listen: []string{"unix:" + path}, Versions: true, Upgrade: true}, true), program, "first", 0, false}
	if status, why := u.upgrade("listens on more addresses", 0); status != 500 || !strings.Contains(why, "other addresses") {
		t.Errorf("%d, %q", status, why)
	}
	if got, err := get("unix", path, "/version"); err != nil || got != "first "+program.path {
		t.Errorf("%q, %v", got, err)
	}
	u.signal(syscall.SIGTERM)
	if status := u.wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket was not removed")
	}
}

// If the manager is killed while the workers end, another one waits for them.
func TestManagerIsKilledAtTheEnd(t *testing.T) {
	t.Parallel()
	f := start(t, setup{Workers: 1, Admin: "127.0.0.1:0", Upgrade: true, Grace: patience}, true)
	manager, gate := f.manager(), filepath.Join(t.TempDir(), "gate")
	c, err := net.Dial("tcp", f.addr(0))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /gate?file=%s HTTP/1.1\r\nHost: x\r\n\r\n", gate)
	f.signal(syscall.SIGTERM)
	until(t, "no process listens", func() bool {
		other, err := net.Dial("tcp", f.addr(0))
		if err == nil {
			other.Close()
		}
		return err != nil
	})
	syscall.Kill(manager, syscall.SIGKILL)
	until(t, "another manager", func() bool { return f.count("another one follows") == 1 })
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := answer(bufio.NewReader(c)); err != nil {
		t.Error(err)
	}
	if status := f.wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// I27: of two upgrades at once, the second waits for the first, or is refused with a reason.
func TestTwoUpgradesInPlace(t *testing.T) {
	t.Parallel()
	program := newProgramFile(t)
	u := &upgrading{startBinary(t, program.path, setup{Workers: 2, Admin: "127.0.0.1:0", Versions: true, Upgrade: true, Linger: 300 * time.Millisecond}, true), program, "first", 0, false}
	program.install("second")
	answers := make(chan string, 2)
	for range 2 {
		go func() {
			status, why := request(t, "tcp", u.admin(), "POST", "/control/upgrade", "")
			answers <- fmt.Sprint(status, " ", why)
		}()
	}
	for range 2 {
		if a := <-answers; a != "200 upgraded\n" && a != "500 another upgrade is under way\n" && a != "500 sluice: another master has taken over: give the order again\n" {
			t.Errorf("%q", a)
		}
	}
	u.replaced()
	if got, want := u.versions(), "second "+program.path; !slices.Equal(got, []string{want}) {
		t.Errorf("%q answer, want %q", got, want)
	}
}

// I29: SIGTERM in the middle of an upgrade ends everything within the grace time.
func TestStopDuringUpgrade(t *testing.T) {
	t.Parallel()
	program := newProgramFile(t)
	u := &upgrading{startBinary(t, program.path, setup{Workers: 2, Admin: "127.0.0.1:0", Versions: true, Upgrade: true}, true), program, "first", 0, false}
	program.install("hangs")
	u.signal(syscall.SIGUSR2)
	until(t, "the candidate", func() bool { return len(childrenOf(t, u.cmd.Process.Pid)) > 3 })
	u.signal(syscall.SIGTERM)
	if status := u.wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// If the holder is killed, everything ends.
func TestHolderIsKilled(t *testing.T) {
	t.Parallel()
	f := start(t, setup{Workers: 2, Admin: "127.0.0.1:0", Upgrade: true, Grace: time.Second}, true)
	all := childrenOf(t, f.cmd.Process.Pid)
	f.cmd.Process.Kill()
	for _, pid := range all {
		until(t, "the process ends", func() bool { return !isAlive(pid) })
	}
}

// The first start's error is that of the service.
func TestUpgradeCannotStart(t *testing.T) {
	t.Parallel()
	f := start(t, setup{Workers: 2, Upgrade: true, Failing: "no such certificate"}, false)
	if status := f.wait(); status == 0 || f.count("no such certificate") == 0 {
		t.Errorf("exit status %d", status)
	}
	taken := start(t, setup{Workers: 1}, true)
	f = start(t, setup{Workers: 2, Upgrade: true, Addr: taken.addr(0)}, false)
	if status := f.wait(); status == 0 || f.count("address already in use") == 0 {
		t.Errorf("exit status %d", status)
	}
}

// childrenOf returns the living children of a process.
func childrenOf(t *testing.T, pid int) (children []int) {
	t.Helper()
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list) // the thread may have ended
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil && isAlive(child) {
				children = append(children, child)
			}
		}
	}
	return children
}

// limitDescriptors gives a process room for no more descriptors, until it is fed.
func limitDescriptors(t *testing.T, pid int) (feed func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		t.Fatal(err)
	}
	free := 0
	for ; ; free++ {
		if _, err := os.Lstat(fmt.Sprintf("/proc/%d/fd/%d", pid, free)); err != nil {
			break
		}
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(free), Max: before.Max}, nil); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &before, nil); err != nil {
			t.Error(err)
		}
	}
}

// A holder without room for descriptors refuses an upgrade, with the reason, and the service goes
// on unchanged. With room, a worker and a manager that died meanwhile are replaced, and an upgrade
// succeeds.
func TestUpgradeWithoutDescriptors(t *testing.T) {
	t.Parallel()
	program := newProgramFile(t)
	u := &upgrading{startBinary(t, program.path, setup{
		Workers: 2, Admin: "127.0.0.1:0", Versions: true, Upgrade: true, Linger: 300 * time.Millisecond, Threshold: 99, Window: time.Minute,
	}, true), program, "first", 0, false}
	holder, manager, descriptors := u.cmd.Process.Pid, u.manager(), openFiles(t, u.cmd.Process.Pid)
	feed := limitDescriptors(t, holder)
	status, why := u.upgrade("second", 0)
	if want := fmt.Sprintf("the process that holds the service (pid %d) cannot keep binary/", holder); status != 500 || !strings.Contains(why, want) || !strings.Contains(why, "too many open files") || strings.Count(why, "\n") != 1 {
		t.Errorf("%d, %q, want %q", status, why, want)
	}
	if now := u.manager(); now != manager {
		t.Error("the manager was replaced")
	}
	if got, want := u.versions(), "first "+program.path; !slices.Equal(got, []string{want}) {
		t.Errorf("%q answer, want %q", got, want)
	}
	syscall.Kill(u.servingPIDs()[0], syscall.SIGKILL)
	until(t, "the worker cannot be replaced", func() bool { return u.count("cannot take what 0.2 needs")+u.count("cannot take what 1.2 needs") > 0 })
	if now := u.manager(); now != manager {
		t.Error("the manager was replaced")
	}
	syscall.Kill(manager, syscall.SIGKILL)
	until(t, "the manager cannot be replaced", func() bool { return u.count("a manager cannot be started: ") > 0 })
	if got, want := u.versions(), "first "+program.path; !slices.Equal(got, []string{want}) {
		t.Errorf("%q answer, want %q", got, want)
	}
	feed()
	until(t, "all are there again", func() bool {
		s, err := tryStatus("tcp", u.admin())
		return err == nil && s.Ready && len(s.Workers) == 2
	})
	until(t, "the holder has no more descriptors than before", func() bool { return openFiles(t, holder) <= descriptors })
	if status, why := u.upgrade("second", 0); status != 200 {
		t.Errorf("%d, %q", status, why)
	}
	u.replaced()
	if got, want := u.versions(), "second "+program.path; !slices.Equal(got, []string{want}) {
		t.Errorf("%q answer, want %q", got, want)
	}
}
