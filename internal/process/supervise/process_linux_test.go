package supervise

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// patience bounds waits that normally take milliseconds.
const patience = 15 * time.Second

// until waits for a condition.
func until(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	if !nettest.Poll(patience, isSo) {
		t.Fatalf("not in %v: %s", patience, what)
	}
}

// slotSockets makes sockets on one loopback port, one for each slot.
type slotSockets struct {
	mu   sync.Mutex
	addr string
}

func (s *slotSockets) address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

func (s *slotSockets) open(int) ([]*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.addr == "" {
		s.addr = "127.0.0.1:0"
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	}}
	config.SetMultipathTCP(false)
	ln, err := config.Listen(context.Background(), "tcp4", s.addr)
	if err != nil {
		return nil, err
	}
	defer ln.Close()
	s.addr = ln.Addr().String()
	f, err := ln.(*net.TCPListener).File()
	return []*os.File{f}, err
}

// logLines is a Logger that keeps its lines.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) Printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

// has reports whether a line contains text.
func (l *logLines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(strings.Join(l.lines, "\n"), text)
}

// testFleet is a master in the test's process, with real workers.
type testFleet struct {
	*Master
	t       *testing.T
	sockets *slotSockets
	log     *logLines
	records *os.File
	cancel  context.CancelFunc // of Run's context
	result  chan error
}

// startFleet starts a fleet of echo workers. change may change its configuration.
func startFleet(t *testing.T, change func(*Config)) *testFleet {
	t.Helper()
	f := &testFleet{t: t, sockets: &slotSockets{}, log: &logLines{}, result: make(chan error, 1)}
	var err error
	if f.records, err = os.Create(filepath.Join(t.TempDir(), "records")); err != nil {
		t.Fatal(err)
	}
	c := Config{
		Workers: 2, Sockets: f.sockets.open, SharedFiles: []*os.File{f.records}, Inboxes: true,
		Env:         []string{roleVariable + "=echo"},
		GracePeriod: 10 * time.Second, OrphanGrace: time.Second,
		RecoverThreshold: 1000, RecoverInterval: 20 * time.Millisecond,
		Logger: f.log, NoSignals: true,
	}
	if change != nil {
		change(&c)
	}
	if f.Master, err = New(c); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(context.Background())
	go func() { f.result <- f.Run(ctx) }()
	t.Cleanup(func() {
		f.Kill()
		f.end()
		f.cancel()
		f.records.Close()
		if f.log.has("exit status 66") {
			t.Error("a worker's race detector complains")
		}
		if t.Failed() {
			t.Log("master's log:\n" + strings.Join(f.log.lines, "\n"))
		}
	})
	return f
}

// ready waits until all workers are ready.
func (f *testFleet) ready() *testFleet {
	f.t.Helper()
	until(f.t, "the fleet is ready", func() bool { return f.Status().Ready })
	return f
}

// end waits for Run and returns its result.
func (f *testFleet) end() error {
	f.t.Helper()
	select {
	case err := <-f.result:
		f.result <- err
		return err
	case <-time.After(patience):
		f.t.Error("Run does not return")
		return errors.New("Run does not return")
	}
}

// serving returns the process that serves a slot.
func (f *testFleet) serving(slot int) WorkerStatus {
	st := f.Status()
	if slot >= len(st.Slots) || len(st.Slots[slot].Workers) == 0 {
		return WorkerStatus{}
	}
	return st.Slots[slot].Workers[0]
}

// ask sends one line on a new connection and returns the first line of the answer.
func (f *testFleet) ask(line string) (string, error) { return ask(f.sockets.address(), line) }

func ask(address, line string) (string, error) {
	conn, err := net.DialTimeout("tcp4", address, patience)
	if err != nil {
		return "", fmt.Errorf("dial: %w", err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintln(conn, line); err != nil {
		return "", err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(answer), err
}

// isGone reports whether a process has ended, even if its parent has not waited for it.
func isGone(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, state, _, ok := parseStat(text)
	return ok && state == 'Z'
}

// descriptors counts the open files of a process.
func descriptors(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// testMaster is a master in a process of its own.
type testMaster struct {
	t       *testing.T
	command *exec.Cmd
	stdin   io.WriteCloser
	mu      sync.Mutex
	output  bytes.Buffer
	waited  chan struct{}
	// hasOwnNumbers: it runs in a pid namespace, so its log has other pids.
	hasOwnNumbers bool
}

// Write collects the output of the master and its workers.
func (m *testMaster) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.output.Write(p)
}

// text returns the output so far.
func (m *testMaster) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.output.String()
}

// startMaster runs a program with the role "master". It ends with the test.
func startMaster(t *testing.T, spec masterSpec, program ...string) *testMaster {
	t.Helper()
	if len(program) == 0 {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		program = []string{self}
	}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	m := &testMaster{t: t, command: exec.Command(program[0], program[1:]...), waited: make(chan struct{})}
	m.command.Env = append(os.Environ(), roleVariable+"=master", masterVariable+"="+string(text))
	m.command.Stdout, m.command.Stderr = m, m
	m.command.WaitDelay = patience // for what workers print
	if m.stdin, err = m.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := m.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		m.command.Wait()
		close(m.waited)
	}()
	t.Cleanup(func() {
		m.stdin.Close()
		m.wait()
		m.leaveNothing()
		if t.Failed() {
			t.Log("output:\n" + m.text())
		}
	})
	return m
}

// leaveNothing checks that all workers end soon after the master, and kills those
// that do not.
func (m *testMaster) leaveNothing() {
	if m.hasOwnNumbers {
		return
	}
	deadline := time.Now().Add(patience)
	for _, pid := range m.workers() {
		for !isGone(pid) && time.Now().Before(deadline) {
			time.Sleep(2 * time.Millisecond)
		}
		environment, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if !isGone(pid) && bytes.Contains(environment, []byte(roleVariable)) {
			m.t.Errorf("worker %d outlived its master", pid)
			nettest.Signal(m.t, pid, syscall.SIGKILL)
		}
	}
}

// wait waits for the master's end and returns its exit status.
func (m *testMaster) wait() int {
	m.t.Helper()
	select {
	case <-m.waited:
	case <-time.After(patience):
		m.t.Error("the master does not end")
		m.command.Process.Kill()
		<-m.waited
	}
	return m.command.ProcessState.ExitCode()
}

// says waits for text in the output.
func (m *testMaster) says(text string) {
	m.t.Helper()
	until(m.t, "output: "+text, func() bool { return strings.Contains(m.text(), text) })
}

// address waits until the fleet is ready and returns its address.
func (m *testMaster) address() string {
	m.t.Helper()
	m.says("address ")
	_, after, _ := strings.Cut(m.text(), "address ")
	m.says(after[:1])
	return strings.Fields(after)[0]
}

// workers returns the pids of all processes that were ever started.
func (m *testMaster) workers() []int {
	var pids []int
	for _, match := range regexp.MustCompile(`\(pid (\d+)\): started`).FindAllStringSubmatch(m.text(), -1) {
		pid, _ := strconv.Atoi(match[1])
		pids = append(pids, pid)
	}
	return pids
}

// signal sends a signal to the master.
func (m *testMaster) signal(s syscall.Signal) {
	m.t.Helper()
	if err := m.command.Process.Signal(s); err != nil {
		m.t.Fatal(err)
	}
}
