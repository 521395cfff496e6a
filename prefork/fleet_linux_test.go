package prefork

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// patience bounds waits that normally take milliseconds.
const patience = 20 * time.Second

// A fleet is a master, with its workers, that a test has started.
type fleet struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{}
	heard chan struct{} // closed when all output of the master and its workers was read

	mu    sync.Mutex
	lines []string // of stdout
}

// start starts a fleet from a binary. If isToBeReady, it waits until the fleet is
// ready.
func start(t *testing.T, s setup, isToBeReady bool) *fleet {
	t.Helper()
	return startBinary(t, os.Args[0], s, isToBeReady)
}

func startBinary(t *testing.T, binary string, s setup, isToBeReady bool) *fleet {
	t.Helper()
	if s.Addr == "" {
		s.Addr = "127.0.0.1:0"
	}
	role, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, cmd: exec.Command(binary), ended: make(chan struct{}), heard: make(chan struct{})}
	systemd := []string{"NOTIFY_SOCKET=@nobody", "LISTEN_PID=1", "LISTEN_FDS=1"}
	if s.systemd != nil {
		f.cmd = exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0"`, binary) // it has the pid of sh
		systemd = append(s.systemd, fmt.Sprintf("LISTEN_FDS=%d", len(s.passed)))
		f.cmd.ExtraFiles = s.passed
	}
	f.cmd.Env = append(append(os.Environ(), roleVariable+"="+string(role)), systemd...)
	if _, err := f.cmd.StdinPipe(); err != nil { // closing it ends the fleet
		t.Fatal(err)
	}
	read, write, err := os.Pipe() // no StdoutPipe, because Wait must not wait for workers
	if err != nil {
		t.Fatal(err)
	}
	f.cmd.Stdout, f.cmd.Stderr = write, write
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	go func() {
		lines := bufio.NewScanner(read)
		for lines.Scan() {
			f.mu.Lock()
			f.lines = append(f.lines, lines.Text())
			f.mu.Unlock()
		}
		read.Close()
		close(f.heard)
	}()
	go func() {
		f.cmd.Wait()
		close(f.ended)
	}()
	t.Cleanup(func() {
		f.cmd.Process.Kill()
		<-f.ended
		for _, pid := range f.pids() {
			until(t, "the worker ends", func() bool { return !isAlive(pid) })
		}
		if t.Failed() {
			t.Logf("output of the fleet:\n%s", strings.Join(f.said(""), "\n"))
		}
	})
	if isToBeReady {
		until(t, "the fleet is ready", func() bool { return len(f.printed("ready ")) == 1 })
	}
	return f
}

// said returns the lines that contain text.
func (f *fleet) said(text string) (found []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, line := range f.lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// printed returns the lines that begin with text.
func (f *fleet) printed(text string) (found []string) {
	for _, line := range f.said(text) {
		if strings.HasPrefix(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// count returns how many lines contain text.
func (f *fleet) count(text string) int { return len(f.said(text)) }

// pids returns the pids of all workers that were ever started.
func (f *fleet) pids() (pids []int) {
	for _, line := range f.printed("spawn ") {
		if pid, err := strconv.Atoi(strings.TrimPrefix(line, "spawn ")); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// addr returns address number i.
func (f *fleet) addr(i int) string {
	f.t.Helper()
	lines := f.printed("addr ")
	if len(lines) <= i {
		f.t.Fatalf("addresses: %q", lines)
	}
	return strings.TrimPrefix(lines[i], "addr ")
}

// signal sends a signal to the master.
func (f *fleet) signal(s os.Signal) {
	f.t.Helper()
	if err := f.cmd.Process.Signal(s); err != nil {
		f.t.Fatal(err)
	}
}

// wait returns the master's exit status.
func (f *fleet) wait() int {
	f.t.Helper()
	select {
	case <-f.ended:
	case <-time.After(patience):
		f.t.Fatal("the master does not end")
	}
	status := f.cmd.ProcessState.ExitCode()
	if status >= 0 { // it was not killed, so its workers have ended too
		<-f.heard
	}
	return status
}

// get sends a request on a new connection.
func (f *fleet) get(path string) (string, error) { return get("tcp", f.addr(0), path) }

func get(network, addr, path string) (string, error) {
	c, err := net.DialTimeout(network, addr, patience)
	if err != nil {
		return "", fmt.Errorf("dial: %w", err)
	}
	defer c.Close()
	body, _, err := ask(c, bufio.NewReader(c), path)
	return body, err
}

// ask sends a request and reads the response.
func ask(c net.Conn, r *bufio.Reader, path string) (body string, closes bool, err error) {
	c.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
		return "", false, err
	}
	return answer(r)
}

// answer reads a response.
func answer(r *bufio.Reader) (body string, closes bool, err error) {
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return "", false, err
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(all), resp.Close, err
}

// until waits for a condition.
func until(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	if !nettest.Poll(patience, isSo) {
		t.Fatalf("not in %v: %s", patience, what)
	}
}

// isAlive reports whether a process exists and is not a zombie.
func isAlive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(status, []byte(") Z "))
}
