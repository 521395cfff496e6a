package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mainVariable makes the test binary run main.
const mainVariable = "CHAT_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// startProcesses starts the program with workers.
func startProcesses(t *testing.T, workers int) (master *os.Process, addr string) {
	t.Helper()
	c := exec.Command("/proc/self/exe", "-addr", "127.0.0.1:0", "--prefork", fmt.Sprint(workers))
	// Otherwise the race detector delays each exit by a second.
	c.Env = append(os.Environ(), mainVariable+"=1", "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	out, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines, found := bufio.NewScanner(out), make(chan string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines.Scan() {
			if _, after, isIt := strings.Cut(lines.Text(), "listening on http://"); isIt {
				found <- after
			}
		}
	}()
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		<-read
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
	select {
	case addr = <-found:
	case <-time.After(patience):
		t.Fatal("the program does not listen")
	}
	return c.Process, addr
}

// workersOf returns the processes that the master has started.
func workersOf(t *testing.T, master *os.Process) []string {
	t.Helper()
	all, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", master.Pid, master.Pid))
	if err != nil {
		t.Skip(err)
	}
	more, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", master.Pid)) // any thread may have started them
	for _, task := range more {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", master.Pid, task.Name()))
		all = append(append(all, ' '), children...)
	}
	return strings.Fields(string(all))
}

// await reads events until one says that.
func (g *guest) await(kind, name, text string) (e event) {
	g.t.Helper()
	_ = g.conn.SetDeadline(time.Now().Add(patience))
	for {
		first, payload := g.frame()
		e = event{}
		if err := json.Unmarshal(payload, &e); err != nil || first != 0x81 {
			g.t.Fatalf("%x %q: %v", first, payload, err)
		}
		if e.Kind == kind && e.Name == name && e.Text == text {
			return e
		}
	}
}

// TestProcesses: members of a room in several processes talk, and go on after a restart.
func TestProcesses(t *testing.T) {
	master, addr := startProcesses(t, 3)
	var all []*guest
	processes := 0
	for len(all) < 100 && processes < 2 {
		name := fmt.Sprint("guest", len(all))
		g := enter(t, addr, "tea", name)
		all = append(all, g)
		if e := g.await("came", name, ""); len(e.Present) == 1 { // the first one in its process
			processes++
		}
	}
	if processes < 2 {
		t.Fatalf("%d members are in one process", len(all))
	}
	hearsAll := func(text string) {
		t.Helper()
		for i, from := range all {
			from.say(fmt.Sprint(text, i))
			for _, g := range all {
				g.await("said", fmt.Sprint("guest", i), fmt.Sprint(text, i))
			}
		}
	}
	hearsAll("before")
	old := workersOf(t, master)
	if err := master.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	isOld := func(pid string) bool { return slices.Contains(old, pid) }
	for end := time.Now().Add(patience); slices.ContainsFunc(workersOf(t, master), isOld); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the workers are not replaced")
		}
	}
	hearsAll("after")
}
