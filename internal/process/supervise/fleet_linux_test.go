package supervise

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice/internal/test/nettest"
)

func TestFleetServes(t *testing.T) {
	f := startFleet(t, nil).ready()
	for range 20 {
		answer, err := f.ask("who")
		if err != nil {
			t.Fatal(err)
		}
		var k key
		var pid int
		fmt.Sscanf(answer, "%d.%d %d", &k.slot, &k.generation, &pid)
		if w := f.serving(k.slot); w.PID != pid || w.Generation != k.generation {
			t.Errorf("%q answered, %+v serves", answer, w)
		}
	}
	f.Stop()
	if err := f.end(); err != nil {
		t.Error(err)
	}
	if _, err := f.ask("who"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the end: %v", err)
	}
}

// load runs clients that connect for each request until stop is called. stop returns
// the number of successful requests and the errors of the others.
func (f *testFleet) load(clients int, line string) (stop func() (int64, []error)) {
	var group sync.WaitGroup
	var good atomic.Int64
	var mu sync.Mutex
	var failures []error
	done := make(chan struct{})
	for range clients {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := f.ask(line); err == nil {
					good.Add(1)
				} else {
					mu.Lock()
					failures = append(failures, err)
					mu.Unlock()
				}
			}
		})
	}
	return func() (int64, []error) {
		close(done)
		group.Wait()
		return good.Load(), failures
	}
}

// In rolling restarts under load no connection is refused and no request fails.
func TestRollingRestartLosesNothing(t *testing.T) {
	f := startFleet(t, nil).ready()
	stop := f.load(4, "who")
	for i := range 5 {
		f.restart(0, CauseRestart)
		until(t, "the rolling restart is done", func() bool { return f.Status().Restarts > i })
	}
	good, failures := stop()
	if len(failures) > 0 || good == 0 {
		t.Fatalf("%d requests, %d failed: %v", good, len(failures), failures[0])
	}
	for slot := range 2 {
		if g := f.serving(slot).Generation; g != 6 {
			t.Errorf("slot %d is at generation %d", slot, g)
		}
	}
	t.Logf("%d requests", good)
}

// I2: when workers are killed under load, at most the requests fail that they had
// accepted and not finished.
func TestKilledWorkersLoseOnlyWhatTheyAccepted(t *testing.T) {
	f := startFleet(t, func(c *Config) { c.RecoverInterval = 0 }).ready()
	stop := f.load(8, "who")
	allowed := 0
	for i := range 40 {
		slot := i % 2
		w := f.serving(slot)
		// The queue fills while the process is frozen, and its numbers do not change.
		nettest.Freeze(t, w.PID)
		time.Sleep(15 * time.Millisecond)
		nettest.Signal(t, w.PID, syscall.SIGKILL)
		until(t, "the worker is replaced", func() bool {
			now := f.serving(slot)
			return now.Generation > w.Generation && now.Phase == PhaseReady
		})
		var record [recordSize]byte
		f.records.ReadAt(record[:], recordOffset(key{slot, w.Generation}))
		accepted, done := binary.LittleEndian.Uint64(record[:]), binary.LittleEndian.Uint64(record[8:])
		// One more may have been accepted and not recorded.
		allowed += int(accepted-done) + 1
	}
	good, failures := stop()
	if len(failures) > allowed || good == 0 {
		t.Fatalf("%d requests, %d failed where %d may: %v", good, len(failures), allowed, failures[0])
	}
	t.Logf("%d requests, %d failed, %d might have", good, len(failures), allowed)
}

// I3: connections in a killed worker's queue are answered by another slot's worker
// while there is no successor.
func TestQueueIsRescued(t *testing.T) {
	var isBlocked atomic.Bool
	unblock := make(chan struct{})
	f := startFleet(t, func(c *Config) {
		c.Affinity = func(int) []int {
			if isBlocked.Load() {
				<-unblock
			}
			return nil
		}
	}).ready()
	defer close(unblock)
	w := f.serving(0)
	isBlocked.Store(true)
	nettest.Freeze(t, w.PID)
	var conns []net.Conn
	for range 200 {
		conn, err := net.Dial("tcp4", f.sockets.address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintln(conn, "who")
		conns = append(conns, conn)
	}
	killed := time.Now()
	nettest.Signal(t, w.PID, syscall.SIGKILL)
	rescued := 0
	for _, conn := range conns {
		conn.SetDeadline(time.Now().Add(patience))
		answer, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil {
			t.Fatalf("after %d answers: %v", rescued, err)
		}
		if !strings.HasPrefix(answer, "1.1 ") {
			t.Errorf("answered by %s", answer)
		}
		rescued++
	}
	t.Logf("all answered %v after the kill", time.Since(killed))
	until(t, "the status says so", func() bool {
		st := f.Status().Slots[0]
		return st.Adopter == 1 && (len(st.Workers) == 0 || st.Workers[0].PID == 0)
	})
	unblock <- struct{}{}
	isBlocked.Store(false)
	f.ready()
	if a := f.Status().Slots[0].Adopter; a != -1 {
		t.Errorf("slot 0 is still served by %d", a)
	}
}

// I11: when threads of the master end that started nothing, no worker is harmed,
// because one dedicated thread starts them all.
func TestThreadsOfTheMasterMayEnd(t *testing.T) {
	var mu sync.Mutex
	spawners := make(map[int]int)
	f := startFleet(t, func(c *Config) {
		c.Affinity = func(int) []int {
			mu.Lock()
			defer mu.Unlock()
			spawners[unix.Gettid()]++
			return nil
		}
	}).ready()
	const rounds = 5
	for i := range rounds {
		var group sync.WaitGroup
		for range 40 {
			group.Go(func() {
				runtime.LockOSThread() // without unlocking: the thread ends with the goroutine
				time.Sleep(time.Millisecond)
			})
		}
		group.Wait()
		for range 10 {
			if _, err := f.ask("who"); err != nil {
				t.Fatal(err)
			}
		}
		for slot := range 2 {
			if w := f.serving(slot); w.Generation != i+1 || w.Phase != PhaseReady || f.log.has("wants to be replaced") {
				t.Fatalf("slot %d: %+v", slot, w)
			}
		}
		f.restart(0, CauseRestart)
		until(t, "the rolling restart is done", func() bool { return f.Status().Restarts > i })
	}
	mu.Lock()
	defer mu.Unlock()
	for thread, n := range spawners {
		if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", thread)); err != nil || n != 2*(rounds+1) {
			t.Errorf("thread %d started %d of %d workers; %v", thread, n, 2*(rounds+1), err)
		}
	}
}

// I13: fifty restarts leave no descriptors and goroutines behind.
func TestRestartsLeakNothing(t *testing.T) {
	// A garbage collection would close leaked files.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	f := startFleet(t, nil).ready()
	f.restart(0, CauseRestart) // once, so that lazily opened descriptors exist
	until(t, "the rolling restart is done", func() bool { return f.Status().Restarts == 1 })
	ours, theirs, goroutines := descriptors(t, os.Getpid()), descriptors(t, f.serving(0).PID), runtime.NumGoroutine()
	for i := range 25 {
		f.restart(0, CauseRestart)
		until(t, "the rolling restart is done", func() bool { return f.Status().Restarts > i+1 })
	}
	until(t, "descriptors are back", func() bool { return descriptors(t, os.Getpid()) <= ours })
	until(t, "goroutines are back", func() bool { return runtime.NumGoroutine() <= goroutines })
	until(t, "a worker has no more descriptors than the first", func() bool { return descriptors(t, f.serving(0).PID) <= theirs })
	until(t, "no zombies", func() bool { return len(deadChildren()) == 0 })
}

// I15: processes that workers start inherit neither the marker nor the worker's
// files.
func TestGrandchildrenSeeNothing(t *testing.T) {
	t.Setenv("LISTEN_FDS", "3")
	t.Setenv("NOTIFY_SOCKET", "/nowhere")
	f := startFleet(t, nil).ready()
	answer, err := f.ask("report")
	if err != nil {
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	for _, entry := range got.Env {
		for _, name := range []string{roleVariable, "LISTEN_", "NOTIFY_", "WATCHDOG_"} {
			if strings.HasPrefix(entry, name) {
				t.Errorf("grandchild sees %s", entry)
			}
		}
	}
	for _, d := range got.Descriptors {
		if strings.Contains(d, "socket:") || strings.Contains(d, "records") {
			t.Errorf("grandchild has %s", d)
		}
	}
}

// I10: a crash loop ends the fleet, and a worker's own report of its failure is the
// result.
func TestCrashLoopEndsTheFleet(t *testing.T) {
	f := startFleet(t, func(c *Config) {
		c.Env = []string{roleVariable + "=crash"}
		c.RecoverThreshold, c.RecoverInterval = 3, time.Millisecond
	})
	if err := f.end(); !errors.Is(err, ErrOverRecovery) {
		t.Errorf("crash loop: %v", err)
	}
	f = startFleet(t, func(c *Config) { c.Env = []string{roleVariable + "=fatal"} })
	var boot *BootError
	if err := f.end(); !errors.As(err, &boot) || boot.Class != "config" || boot.Text != "no such certificate" {
		t.Errorf("fatal: %v", err)
	}
}

func TestScaleAndPauseKeepConnections(t *testing.T) {
	f := startFleet(t, func(c *Config) { c.MaxWorkers = 4 }).ready()
	stop := f.load(4, "who")
	for _, n := range []int{4, 1, 3} {
		f.Scale(n)
		until(t, fmt.Sprintf("%d workers", n), func() bool {
			st, alive := f.Status(), 0
			for _, s := range st.Slots {
				alive += len(s.Workers)
			}
			return st.Ready && alive == n
		})
	}
	good, failures := stop()
	if len(failures) > 0 || good == 0 {
		t.Fatalf("%d requests, %d failed: %v", good, len(failures), failures[0])
	}
	f.events.put(event{kind: evPause})
	until(t, "no workers", func() bool {
		st, alive := f.Status(), 0
		for _, s := range st.Slots {
			alive += len(s.Workers)
		}
		return st.Paused && alive == 0
	})
	answered := make(chan error, 1)
	go func() {
		_, err := f.ask("who")
		answered <- err
	}()
	f.restart(0, CauseRestart)
	if err := <-answered; err != nil {
		t.Errorf("a connection that waited for the workers: %v", err)
	}
}

// A hook's error ends the fleet, and no worker is left.
func TestHooks(t *testing.T) {
	refused := errors.New("not this one")
	f := startFleet(t, func(c *Config) { c.Hooks.OnSpawn = func(int, int) error { return refused } })
	if err := f.end(); err != refused {
		t.Errorf("OnSpawn: %v", err)
	}
	f = startFleet(t, func(c *Config) { c.Hooks.OnStarted = func([]int) error { return refused } })
	if err := f.end(); err != refused {
		t.Errorf("OnStarted: %v", err)
	}
	recovered := make(chan [3]int, 8)
	f = startFleet(t, func(c *Config) {
		c.Hooks.OnRecover = func(slot, oldPID, newPID int) { recovered <- [3]int{slot, oldPID, newPID} }
	}).ready()
	old := f.serving(1).PID
	nettest.Signal(t, old, syscall.SIGKILL)
	if got := <-recovered; got[0] != 1 || got[1] != old || got[2] == old || got[2] == 0 {
		t.Errorf("OnRecover: %v", got)
	}
	invalid := errors.New("invalid")
	f = startFleet(t, func(c *Config) { c.Hooks.OnReload = func() ([]byte, error) { return nil, invalid } }).ready()
	if err := f.Restart(context.Background()); err != invalid {
		t.Errorf("OnReload: %v", err)
	}
	until(t, "the log says so", func() bool { return f.log.has("reload failed") })
	if f.Status().Rolling || f.serving(0).Generation != 1 {
		t.Error("an invalid configuration was rolled out")
	}
	size := MaxConfiguration + 1
	f = startFleet(t, func(c *Config) {
		c.Workers, c.Hooks.OnReload = 1, func() ([]byte, error) { return make([]byte, size), nil }
	}).ready()
	if err := f.Restart(context.Background()); err != ErrConfigurationSize || f.serving(0).Generation != 1 {
		t.Errorf("a configuration of %d bytes: %v", size, err)
	}
	size--
	if err := f.Restart(context.Background()); err != nil || f.serving(0).Generation != 2 {
		t.Errorf("a configuration of %d bytes: %v", size, err)
	}
}

// Start functions that pass on all files, only the listener, or none.
func TestCustomStart(t *testing.T) {
	t.Parallel() // it mostly waits
	table := []struct {
		role     string
		files    func([]*os.File) []*os.File
		attaches bool
	}{
		{"echo", func(f []*os.File) []*os.File { return f }, true},
		{"echo", func(f []*os.File) []*os.File { return append([]*os.File{os.Stderr}, f...) }, true},
		{"echo", func(f []*os.File) []*os.File { return f[:1] }, false},
		{"idle", func([]*os.File) []*os.File { return nil }, false},
	}
	for i, c := range table {
		t.Run(fmt.Sprint(i, c.role), func(t *testing.T) {
			t.Parallel()
			f := startFleet(t, func(config *Config) {
				config.Start = func(l Launch) (*exec.Cmd, error) {
					command := exec.Command("/proc/self/exe")
					command.Env = append(l.Env, roleVariable+"="+c.role)
					command.ExtraFiles = c.files(l.Files)
					return command, command.Start()
				}
				config.Env = nil
			}).ready()
			if c.role == "echo" {
				if _, err := f.ask("who"); err != nil {
					t.Error(err)
				}
			}
			if c.attaches {
				until(t, "it attaches", func() bool { return f.serving(0).Attached && f.serving(1).Attached })
			} else if f.serving(0).Attached {
				t.Error("it attached")
			}
			if c.role == "echo" {
				f.Stop() // the role "idle" may not have installed its handler yet
			} else {
				f.Kill()
			}
			if err := f.end(); err != nil {
				t.Error(err)
			}
		})
	}
	f := startFleet(t, func(c *Config) {
		c.Start = func(Launch) (*exec.Cmd, error) { return exec.Command("/proc/self/exe"), nil }
	})
	if err := f.end(); !errors.Is(err, ErrNotStarted) {
		t.Errorf("a command that was not started: %v", err)
	}
}

// A worker that gets SIGTERM is replaced, and serves until then.
func TestWorkerIsRecycledBySIGTERM(t *testing.T) {
	f := startFleet(t, nil).ready()
	stop := f.load(2, "who")
	nettest.Signal(t, f.serving(0).PID, syscall.SIGTERM)
	until(t, "it is replaced", func() bool {
		s := f.Status().Slots[0]
		return len(s.Workers) == 1 && s.Workers[0].Generation == 2 && s.Workers[0].Phase == PhaseReady
	})
	if good, failures := stop(); len(failures) > 0 {
		t.Errorf("%d requests, %d failed: %v", good, len(failures), failures[0])
	}
	if n := f.Status().Crashes; n != 0 {
		t.Errorf("%d crashes", n)
	}
}

// The master's poller does not know the sockets, and starting workers does not make
// them blocking.
func TestHeldSocketsAreLeftAlone(t *testing.T) {
	f := startFleet(t, nil).ready()
	files, err := f.spawner.open(0)
	if err != nil {
		t.Fatal(err)
	}
	fd := files[0].Fd()
	if flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
		t.Errorf("flags %#x, %v", flags, err)
	}
	polled, _ := filepath.Glob("/proc/self/fdinfo/*")
	for _, name := range polled {
		info, _ := os.ReadFile(name)
		for line := range strings.Lines(string(info)) {
			var target uintptr
			if n, _ := fmt.Sscanf(line, "tfd: %d", &target); n == 1 && target == fd {
				t.Errorf("socket %d is polled: %s", fd, line)
			}
		}
	}
}

// A worker has the program's name in the list of processes, not the descriptor's that
// was executed.
func TestWorkersHaveTheProgramsName(t *testing.T) {
	f := startFleet(t, nil).ready()
	const longest = 15 // of the kernel
	want := filepath.Base(os.Args[0])
	got, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", f.serving(0).PID))
	if name := strings.TrimSpace(string(got)); err != nil || name != want[:min(len(want), longest)] {
		t.Errorf("the name is %q, %v, want %q", name, err, want)
	}
}

// Workers are pinned before they run; the thread that starts them is not.
func TestAffinity(t *testing.T) {
	var before, after unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !before.IsSet(cpu) {
		cpu++
	}
	f := startFleet(t, func(c *Config) {
		c.Affinity = func(slot int) []int {
			if unix.SchedGetaffinity(0, &after); after != before {
				t.Errorf("slot %d: the thread is still bound to %v", slot, after)
			}
			return []int{cpu}
		}
	}).ready()
	for slot := range 2 {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", f.serving(slot).PID))
		for _, thread := range threads {
			text, err := os.ReadFile(thread)
			if err == nil && !strings.Contains(string(text), fmt.Sprintf("Cpus_allowed_list:\t%d\n", cpu)) {
				t.Errorf("slot %d: %s is not bound", slot, thread)
			}
		}
	}
}

// Restart waits for its end and returns the result. Concurrent callers get the same
// result (I32).
func TestRestartTellsItsEnd(t *testing.T) {
	var isBroken atomic.Bool
	f := startFleet(t, func(c *Config) {
		c.Start = func(l Launch) (*exec.Cmd, error) {
			command := exec.Command("/proc/self/exe")
			command.Env = append(l.Env, roleVariable+"=echo")
			if isBroken.Load() {
				command.Env = append(l.Env, roleVariable+"=fatal")
			}
			command.ExtraFiles = l.Files
			return command, command.Start()
		}
		c.Env = nil
	}).ready()
	ctx := context.Background()
	if err := f.Restart(ctx); err != nil || f.serving(0).Generation != 2 || f.serving(1).Generation != 2 {
		t.Errorf("%v; %+v", err, f.Status())
	}
	isBroken.Store(true)
	errs := make(chan error, 3)
	for range cap(errs) {
		go func() { errs <- f.Restart(ctx) }()
	}
	for range cap(errs) {
		err := <-errs
		var failed *RestartError
		var boot *BootError
		if !errors.As(err, &failed) || !errors.As(err, &boot) || boot.Text != "no such certificate" {
			t.Errorf("%v", err)
		}
	}
	if f.serving(0).Generation != 2 || f.serving(1).Generation != 2 {
		t.Errorf("%+v", f.Status())
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := f.Restart(cancelled); err != context.Canceled {
		t.Errorf("%v", err)
	}
	f.Stop()
	if err := f.end(); err != nil {
		t.Error(err)
	}
	if err := f.Restart(ctx); err != ErrStopping {
		t.Errorf("after the end: %v", err)
	}
	if len(f.tickets.answers) > 0 {
		t.Errorf("%d tickets are kept", len(f.tickets.answers))
	}
}
