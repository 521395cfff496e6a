package shared

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// roles are the programs of processes that startProcess starts, which run this test
// binary. A role reads lines from the test and writes lines to it.
var roles = map[string]func(s *Segment, in *bufio.Scanner){
	"count":     countRole,
	"directory": directoryRole,
	"limit":     limitRole,
	"clock":     clockRole,
	"cache":     cacheRole,
	"lead":      leadRole,
	"hold":      holdRole,
	"once":      onceRole,
	"inherit":   inheritRole,
	"page":      pageRole,
	"hammer":    hammerRole,
}

const roleVariable = "SLUICE_SHARED_TEST_ROLE"

func TestMain(m *testing.M) {
	role, isChild := roles[os.Getenv(roleVariable)]
	if !isChild {
		os.Exit(m.Run())
	}
	go dieWithParent(os.Getppid())
	role(Default(), bufio.NewScanner(os.Stdin))
}

// dieWithParent ends the process with the test, even if the test panics.
func dieWithParent(parent int) {
	for os.Getppid() == parent {
		time.Sleep(50 * time.Millisecond)
	}
	os.Exit(1)
}

// A worker is a process that is attached to a test's segment.
type worker struct {
	t       testing.TB
	segment *Segment
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
	isDead  bool
}

// sharedSize is the size of a test's segment. What was mapped stays mapped, and a process of
// 32 bits has few addresses.
const sharedSize = 4 << 20 << (strconv.IntSize / 64 * 2)

// newShared returns a segment that can be passed to processes.
func newShared(t testing.TB, processes int) *Segment {
	t.Helper()
	s := Must(New(Options{Size: sharedSize, Processes: processes}))
	if !s.IsShared() {
		t.Skip("memory cannot be shared here")
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newLocal(t testing.TB) *Segment {
	t.Helper()
	return Must(New(Options{Size: 16 << 20, Processes: 8, Local: true}))
}

// attachAgain attaches this process again under another id, as if it were another
// process.
func attachAgain(t testing.TB, s *Segment, pid int) *Segment {
	t.Helper()
	again, err := attachWords(s.words)
	if err != nil {
		t.Fatal(err)
	}
	again.laneWord(again.lane, lanePID).Store(uint64(pid))
	return again
}

func startProcess(t testing.TB, s *Segment, role string) *worker {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.ExtraFiles = []*os.File{os.Stderr, s.File()} // the segment need not be the first file
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &worker{t: t, segment: s, cmd: cmd, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(w.kill)
	return w
}

func startProcesses(t testing.TB, s *Segment, role string, n int) []*worker {
	t.Helper()
	workers := make([]*worker, n)
	for i := range workers {
		workers[i] = startProcess(t, s, role)
	}
	for _, w := range workers {
		w.expect("ready")
	}
	return workers
}

func (w *worker) send(line string) { fmt.Fprintln(w.in, line) }

func (w *worker) receive() string {
	w.t.Helper()
	if !w.out.Scan() {
		w.t.Fatalf("process %d has nothing to say: %v", w.cmd.Process.Pid, w.out.Err())
	}
	return w.out.Text()
}

func (w *worker) expect(line string) {
	w.t.Helper()
	if got := w.receive(); got != line {
		w.t.Fatalf("process %d says %q, not %q", w.cmd.Process.Pid, got, line)
	}
}

func (w *worker) receiveInt() int {
	w.t.Helper()
	n, err := strconv.Atoi(w.receive())
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// kill sends SIGKILL and then does what a supervisor does.
func (w *worker) kill() {
	if w.isDead {
		return
	}
	w.isDead = true
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
	w.segment.Reap(w.cmd.Process.Pid)
}

// say writes a line from a role to its test.
func say(line any) { fmt.Println(line) }

// hear waits for the next line from the test.
func hear(in *bufio.Scanner) string {
	if !in.Scan() {
		os.Exit(0) // the test has ended
	}
	return strings.TrimSpace(in.Text())
}
