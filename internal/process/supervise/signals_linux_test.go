package supervise

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// I7: after SIGTERM requests finish, the master exits with 0, and the port is free.
func TestSIGTERMCutsNothing(t *testing.T) {
	t.Parallel() // it mostly waits
	m := startMaster(t, masterSpec{Workers: 2, Role: "echo", GraceMS: 10000, OrphanMS: 1000})
	address := m.address()
	var readers []*bufio.Reader
	for range 50 {
		conn, err := net.Dial("tcp4", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience))
		fmt.Fprintln(conn, "sleep 300ms")
		conn.(*net.TCPConn).CloseWrite()
		readers = append(readers, bufio.NewReader(conn))
	}
	for _, r := range readers {
		if line, err := r.ReadString('\n'); line != "sleeping\n" {
			t.Fatalf("%q, %v", line, err)
		}
	}
	m.signal(syscall.SIGTERM)
	for i, r := range readers {
		if rest, err := io.ReadAll(r); string(rest) != "slept\n" {
			t.Errorf("request %d was cut: %q, %v", i, rest, err)
		}
	}
	if status := m.wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	ln, err := net.Listen("tcp4", address)
	if err != nil {
		t.Fatalf("the port is not free: %v", err)
	}
	ln.Close()
}

// A worker that does not react is killed after the grace period.
func TestSIGTERMKillsTheStuck(t *testing.T) {
	t.Parallel() // it mostly waits
	m := startMaster(t, masterSpec{Workers: 1, Role: "stuck", GraceMS: 200, OrphanMS: 200})
	m.address()
	m.signal(syscall.SIGTERM)
	if status := m.wait(); status != 0 || !strings.Contains(m.text(), "did not end in time: killed") {
		t.Errorf("exit status %d", status)
	}
}

// I8: every worker ends soon after its master, even one that does nothing about it.
func TestOrphansEnd(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, role := range []string{"echo", "stuck"} {
		m := startMaster(t, masterSpec{Workers: 2, Role: role, GraceMS: 300, OrphanMS: 300})
		address := m.address()
		killed := time.Now()
		m.signal(syscall.SIGKILL)
		for _, pid := range m.workers() {
			until(t, role+": the worker is gone", func() bool { return isGone(pid) })
		}
		t.Logf("%s: gone %v after the master", role, time.Since(killed))
		// A dead process may hold its sockets a moment longer than its first thread.
		until(t, "the port is free", func() bool {
			ln, err := net.Listen("tcp4", address)
			if err == nil {
				ln.Close()
			}
			return err == nil
		})
	}
}

// A worker that never attached gets the parent-death signal.
func TestUnattachedOrphansEnd(t *testing.T) {
	m := startMaster(t, masterSpec{Workers: 2, Role: "idle"})
	until(t, "both are started", func() bool { return len(m.workers()) == 2 })
	m.signal(syscall.SIGKILL)
	for _, pid := range m.workers() {
		until(t, "the worker is gone", func() bool { return isGone(pid) })
	}
}

// I12: a worker that starts after the binary was replaced runs the old program.
func TestReplacedBinary(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, text, 0o755); err != nil {
		t.Fatal(err)
	}
	m := startMaster(t, masterSpec{Workers: 1, Role: "echo", GraceMS: 1000, OrphanMS: 1000, Threshold: 9}, program)
	address := m.address()
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	for i, replacement := range []string{"", "#!/bin/sh\nexit 1\n"} {
		if replacement != "" {
			if err := os.WriteFile(program, []byte(replacement), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		ask(address, "die")
		m.says(fmt.Sprintf("worker 0.%d (pid ", i+2))
		answer, err := ask(address, "who")
		if err != nil || !strings.HasPrefix(answer, fmt.Sprintf("0.%d ", i+2)) {
			t.Errorf("%q, %v", answer, err)
		}
	}
	m.signal(syscall.SIGTERM)
	m.wait()
}

func TestSignalTable(t *testing.T) {
	m := startMaster(t, masterSpec{Workers: 1, Role: "echo", GraceMS: 1000, OrphanMS: 1000})
	address := m.address()
	table := []struct {
		signal syscall.Signal
		says   []string
	}{
		{syscall.SIGTTIN, []string{"2 workers instead of 1", "worker 1.1 (pid"}},
		{syscall.SIGTTOU, []string{"1 workers instead of 2"}},
		{syscall.SIGTTOU, []string{"0 workers are out of bounds, so 1"}},
		{syscall.SIGHUP, []string{"rolling restart is done"}},
		{syscall.SIGUSR1, []string{"worker 0: reopened"}},
		{syscall.SIGUSR2, []string{"rolling restart begins: version 3", "worker 0.3 (pid", "worker 0.2 (pid", "drained: {"}},
		{syscall.SIGWINCH, []string{"paused: workers end, sockets stay open"}},
		{syscall.SIGHUP, []string{"resumed: workers start again", "worker 0.4 (pid"}},
	}
	for _, c := range table {
		m.signal(c.signal)
		for _, text := range c.says {
			m.says(text)
		}
		if c.signal == syscall.SIGWINCH {
			for _, pid := range m.workers() {
				until(t, "the workers are gone", func() bool { return isGone(pid) })
			}
		}
	}
	until(t, "the last worker is ready", func() bool {
		_, after, _ := strings.Cut(m.text(), "resumed: workers start again")
		return strings.Contains(after, "ready after")
	})
	checkGroupSignals(t, m.workers()[len(m.workers())-1], address)
	m.signal(syscall.SIGINT)
	if status := m.wait(); status != 0 || strings.Contains(m.text(), "died") {
		t.Errorf("exit status %d", status)
	}
}

// checkGroupSignals sends a worker the signals that a terminal or a user sends to the
// whole group. The worker must go on serving, and its children must not ignore the
// signals.
func checkGroupSignals(t *testing.T, pid int, address string) {
	t.Helper()
	for _, s := range []syscall.Signal{
		syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGWINCH,
	} {
		nettest.Signal(t, pid, s)
		for range 10 {
			if answer, err := ask(address, "who"); err != nil || !strings.HasSuffix(answer, fmt.Sprint(" ", pid)) {
				t.Fatalf("after %v: %q, %v", s, answer, err)
			}
		}
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "SigIgn:")
	var ignored uint64
	if n, err := fmt.Sscanf(strings.TrimSpace(after), "%x", &ignored); n != 1 || ignored != 0 {
		t.Errorf("ignored signals: %#x, %v", ignored, err)
	}
}

func TestSIGQUITPrintsStacks(t *testing.T) {
	m := startMaster(t, masterSpec{Workers: 2, Role: "echo", GraceMS: 1000, OrphanMS: 1000})
	m.address()
	m.signal(syscall.SIGQUIT)
	if status := m.wait(); status != 131 {
		t.Errorf("exit status %d", status)
	}
	if n := strings.Count(m.text(), "supervise.TestMain("); n != 3 {
		t.Errorf("%d stack dumps of 3 processes", n)
	}
}

// Process 1 reaps the processes that the kernel gives it, and gets its workers'
// statuses.
func TestProcessOneReaps(t *testing.T) {
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip("no unshare")
	}
	arguments := []string{"-Urpf", "--mount-proc", "--kill-child"}
	if out, err := exec.Command(unshare, append(arguments, "/bin/true")...).CombinedOutput(); err != nil {
		t.Skipf("no namespaces: %v: %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	spec := masterSpec{Workers: 1, Role: "echo", GraceMS: 1000, OrphanMS: 1000, Threshold: 9}
	m := startMaster(t, spec, append(append([]string{unshare}, arguments...), self)...)
	m.hasOwnNumbers = true
	address := m.address()
	if answer, err := ask(address, "who"); err != nil || !strings.HasPrefix(answer, "0.1 ") {
		t.Fatalf("%q, %v", answer, err)
	}
	for range 3 {
		if _, err := ask(address, "orphan"); err != nil {
			t.Fatal(err)
		}
	}
	one := childrenOf(m.command.Process.Pid)
	if len(one) != 1 {
		t.Fatalf("processes below unshare: %v", one)
	}
	until(t, "the orphans are reaped", func() bool { return len(childrenOf(one[0])) == 1 })
	ask(address, "die")
	m.says("died: exit status 3")
	m.says("worker 0.2 (pid ")
	nettest.Signal(t, one[0], syscall.SIGTERM)
	if status := m.wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// childrenOf returns the children of a process, including dead ones.
func childrenOf(parent int) []int {
	var children []int
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if pid, _, of, ok := parseStat(text); ok && of == parent {
			children = append(children, pid)
		}
	}
	return children
}

// The reaper reaps children for which no other code waits, and leaves the others
// their statuses.
func TestReaper(t *testing.T) {
	start := func() int {
		t.Helper()
		left, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
		if err != nil {
			t.Fatal(err)
		}
		return left.Pid
	}
	isReaped := func(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }
	first := start()
	until(t, "the process ends", func() bool { return isGone(first) })
	const method = "ReapOthers.func1"
	before := goroutinesOf(method)
	new(Master).reapAdopted()() // this is not process 1
	if n := goroutinesOf(method); n != before {
		t.Errorf("%d reapers, %d before", n, before)
	}
	stop := ReapOthers(func(int) bool { return false })
	defer func() {
		stop()
		until(t, "its goroutine ends", func() bool { return goroutinesOf(method) <= before })
	}()
	until(t, "a process that ended before is reaped", func() bool { return isReaped(first) })
	second := start()
	for range 5 {
		if err := exec.Command("/bin/sh", "-c", "exit 7").Run(); err == nil || err.Error() != "exit status 7" {
			t.Errorf("another's status: %v", err)
		}
	}
	until(t, "the process is reaped", func() bool { return isReaped(second) })
}

// It waits for a while before it reaps, and ignores workers.
func TestReaperIsPatient(t *testing.T) {
	left, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the process ends", func() bool { return isGone(left.Pid) })
	lives := exec.Command("/bin/sleep", "60")
	if err := lives.Start(); err != nil {
		t.Fatal(err)
	}
	defer lives.Wait()
	defer lives.Process.Kill()
	if dead := deadChildren(); !dead[left.Pid] || dead[lives.Process.Pid] {
		t.Errorf("dead are %v, not %d", dead, lives.Process.Pid)
	}
	isReaped := func() bool { return syscall.Kill(left.Pid, 0) == syscall.ESRCH }
	isWorker := true
	r := reaper{isWorker: func(int) bool { return isWorker }, seen: map[int]time.Time{}, mayHaveMore: true}
	now := time.Now()
	r.reap(now)
	if len(r.seen) > 0 {
		t.Error("a worker is noted")
	}
	if r.mayHaveMore {
		t.Error("it would look again, although no child has ended")
	}
	isWorker, r.mayHaveMore = false, true
	r.seen[os.Getpid()] = now // it lives
	r.reap(now)
	if len(r.seen) != 1 || r.seen[left.Pid] != now {
		t.Errorf("noted: %v", r.seen)
	}
	r.reap(now.Add(reapPatience - 1))
	if isReaped() {
		t.Fatal("too early")
	}
	r.reap(now.Add(reapPatience))
	if !isReaped() {
		t.Error("not at all")
	}
	if len(r.seen) > 0 {
		t.Error("it is kept in mind")
	}
}

// What the kernel says of a process, whatever its name is.
func TestParseStat(t *testing.T) {
	type stat struct {
		pid, parent int
		state       byte
		ok          bool
	}
	for text, want := range map[string]stat{
		"12 (name) S 34 56 78": {12, 34, 'S', true},
		"12 (a) Z 1) Z 34":     {12, 34, 'Z', true},
		"12 (b)( S 34":         {12, 0, '(', false},
		"12 () S 34":           {12, 34, 'S', true},
		"(name) S 34":          {0, 34, 'S', false},
		"12 (name) S x":        {12, 0, 'S', false},
		"12 (name) S":          {},
		"12 (name) SS 34":      {},
		"12 (name":             {},
		"12 name) S 34":        {},
		"12 )( S 34":           {},
		"":                     {},
	} {
		var got stat
		if got.pid, got.state, got.parent, got.ok = parseStat([]byte(text)); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

// Signals become events until stop is called.
func TestSignalled(t *testing.T) {
	log := &logLines{}
	binary, err := openExecutable(0)
	if err != nil {
		t.Fatal(err)
	}
	defer binary.close()
	m := &Master{config: Config{Logger: log, binary: binary}, events: newMailbox[event](), hooks: newMailbox[func()]()}
	for s, want := range map[syscall.Signal][]event{
		syscall.SIGTERM: {{kind: evStop}}, syscall.SIGINT: {{kind: evStop}}, syscall.SIGQUIT: {{kind: evQuit}},
		syscall.SIGHUP: {{kind: evRestart, version: &version{cause: CauseRestart}}}, syscall.SIGUSR1: {{kind: evReopen}},
		syscall.SIGUSR2: {{kind: evRestart, version: &version{cause: CauseUpgrade}}},
		syscall.SIGTTIN: {{kind: evScaleBy, number: 1}}, syscall.SIGTTOU: {{kind: evScaleBy, number: -1}},
		syscall.SIGWINCH: {{kind: evPause}}, syscall.SIGCONT: nil,
	} {
		log.lines = nil
		m.Signal(s)
		got := m.events.takeAll()
		for _, e := range got {
			if v := e.version; v != nil && v.binary != nil {
				if s != syscall.SIGUSR2 || v.binary.fd == binary.fd || v.binary.origin != binary.origin {
					t.Errorf("%v: binary %+v, the first one is %+v", s, v.binary, binary)
				}
				v.binary.close()
				v.binary = nil
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%v: %+v, want %+v", s, got, want)
		}
		if !log.has(fmt.Sprintf("master (pid %d): got %s", os.Getpid(), unix.SignalName(s))) {
			t.Errorf("%v: log %q", s, log.lines)
		}
	}
	const method = "(*Master).watchSignals.func1"
	before := goroutinesOf(method)
	stop := m.watchSignals()
	nettest.Signal(t, os.Getpid(), syscall.SIGUSR1)
	until(t, "the signal arrives", func() bool { return len(m.events.takeAll()) == 1 })
	stop()
	until(t, "its goroutine ends", func() bool { return goroutinesOf(method) <= before })
}

// A terminal is one if stdin is.
func TestHasTerminal(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer terminal.Close()
	for fd, want := range []bool{0: true, 1: false} {
		old, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		other, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Dup3(int(someFile(t).Fd()), 0, 0)
		unix.Dup3(int(terminal.Fd()), fd, 0)
		got := hasTerminal()
		unix.Dup3(old, fd, 0)
		unix.Dup3(other, 0, 0)
		closeAll([]int{old, other})
		if got != want {
			t.Errorf("with a terminal as descriptor %d: %v", fd, got)
		}
	}
}

// After Run, signals have the effect that they have without a master.
func TestSignalsAfterRun(t *testing.T) {
	m := startMaster(t, masterSpec{Workers: 1, Role: "echo", GraceMS: 1000, OrphanMS: 1000, Lingers: true})
	m.address()
	m.signal(syscall.SIGTERM)
	m.says("run has ended")
	m.signal(syscall.SIGTERM)
	m.wait()
	if status := m.command.ProcessState.String(); status != "signal: terminated" {
		t.Errorf("%s", status)
	}
}
