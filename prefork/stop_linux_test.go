package prefork

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// eachServing runs f with every way to serve.
func eachServing(t *testing.T, f func(t *testing.T, s setup)) {
	for name, s := range map[string]setup{
		"epoll":     {Engine: sluice.EngineEpoll},
		"perconn":   {Engine: sluice.EnginePerConn},
		"own serve": {OwnServe: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, s)
		})
	}
}

// After SIGTERM, slow requests in flight complete, and the port is free as soon as
// the master has ended (I7).
func TestStopCompletesRequests(t *testing.T) {
	eachServing(t, func(t *testing.T, s setup) {
		s.Workers, s.Grace = 2, 10*time.Second
		f := start(t, s, true)
		const requests = 50
		gate := filepath.Join(t.TempDir(), "gate")
		answers := make(chan error, requests)
		for range requests {
			go func() {
				_, err := f.get("/gate?file=" + gate)
				answers <- err
			}()
		}
		until(t, "all are in flight", func() bool { return connections(t, f.pids()) == requests })
		f.signal(syscall.SIGTERM)
		until(t, "it is stopping", func() bool { return f.count("stopping: ") == 1 })
		open(t, gate)
		for range requests {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		if status := f.wait(); status != 0 {
			t.Errorf("exit status %d", status)
		}
		ln, err := net.Listen("tcp4", f.addr(0))
		if err != nil {
			t.Fatal(err)
		}
		ln.Close()
		if n := f.count("worker returned <nil>"); n != 2 {
			t.Errorf("%d workers ended in good order, want 2", n)
		}
	})
}

// Requests of other servers complete, too, with Drain.
func TestDrainHook(t *testing.T) {
	f := start(t, setup{Workers: 1, NetHTTP: true, Grace: patience}, true)
	gate := filepath.Join(t.TempDir(), "gate")
	answer := make(chan string, 1)
	go func() {
		body, err := f.get("/gate?file=" + gate)
		answer <- fmt.Sprint(body, " ", err)
	}()
	until(t, "it is in flight", func() bool { return connections(t, f.pids()) == 1 })
	f.signal(syscall.SIGTERM)
	until(t, "OnDrain is called", func() bool { return len(f.printed("on drain")) == 1 })
	open(t, gate)
	if got := <-answer; got != "net/http <nil>" {
		t.Error(got)
	}
	if status := f.wait(); status != 0 || f.count("worker returned <nil>") != 1 {
		t.Errorf("exit status %d", status)
	}
}

// open lets requests for /gate be answered.
func open(t *testing.T, gate string) {
	t.Helper()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// connections counts the accepted TCP connections of processes.
func connections(t *testing.T, pids []int) (n int) {
	t.Helper()
	return socketsIn(t, "01", pids)
}

// listeners counts a process's listening sockets.
func listeners(t *testing.T, pid int) int {
	t.Helper()
	return socketsIn(t, "0A", []int{pid})
}

// socketsIn counts processes' TCP sockets over IPv4 in a state.
func socketsIn(t *testing.T, state string, pids []int) (n int) {
	t.Helper()
	found := make(map[string]bool)
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(table), "\n")[1:] {
		if fields := strings.Fields(line); len(fields) > 9 && fields[3] == state {
			found["socket:["+fields[9]+"]"] = true
		}
	}
	for _, pid := range pids {
		links, _ := filepath.Glob(filepath.Join("/proc", itoa(pid), "fd", "*"))
		for _, link := range links {
			if to, err := os.Readlink(link); err == nil && found[to] {
				n++
			}
		}
	}
	return n
}

// A request that takes longer than the grace period is cut.
func TestStopIsBounded(t *testing.T) {
	eachServing(t, func(t *testing.T, s setup) {
		s.Workers, s.Grace = 1, 100*time.Millisecond
		f := start(t, s, true)
		answer := make(chan error, 1)
		go func() {
			_, err := f.get("/slow?ms=30000")
			answer <- err
		}()
		until(t, "it is in flight", func() bool { return connections(t, f.pids()) == 1 })
		f.signal(syscall.SIGTERM)
		if status := f.wait(); status != 0 {
			t.Errorf("exit status %d", status)
		}
		if err := <-answer; err == nil {
			t.Error("it was answered")
		}
	})
}

// A killed master leaves no orphans, and the next master gets the port (I8).
func TestMasterKilled(t *testing.T) {
	eachServing(t, func(t *testing.T, s setup) {
		death := filepath.Join(t.TempDir(), "death")
		s.Workers, s.Grace, s.Death = 2, patience, death
		f := start(t, s, true)
		gate := filepath.Join(t.TempDir(), "gate")
		answer := make(chan error, 1)
		go func() {
			_, err := f.get("/gate?file=" + gate)
			answer <- err
		}()
		until(t, "it is in flight", func() bool { return connections(t, f.pids()) == 1 })
		f.signal(os.Kill)
		f.wait()
		open(t, gate)
		for _, pid := range f.pids() {
			until(t, "the worker ends", func() bool { return !isAlive(pid) })
		}
		if err := <-answer; err != nil {
			t.Errorf("the request in flight: %v", err)
		}
		if _, err := os.Stat(death); err != nil {
			t.Errorf("OnMasterDeath: %v", err)
		}
		s.Addr, s.Death = f.addr(0), ""
		next := start(t, s, true)
		if _, err := next.get("/"); err != nil {
			t.Error(err)
		}
	})
}

// SIGQUIT ends all processes and prints their stacks.
func TestQuit(t *testing.T) {
	f := start(t, setup{Workers: 1}, true)
	f.signal(syscall.SIGQUIT)
	if status := f.wait(); status != 131 {
		t.Errorf("exit status %d, want 131", status)
	}
	until(t, "the stacks are there", func() bool { return f.count("goroutine ") > 2 })
}

// The fleet ends while a predecessor drains. Its connections are closed although its
// successor has ended.
func TestStopWhilePredecessorDrains(t *testing.T) {
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		for how, end := range map[string]func(*fleet){
			"stop":            func(f *fleet) { f.signal(syscall.SIGTERM) },
			"master killed":   func(f *fleet) { f.cmd.Process.Kill() },
			"too many deaths": func(f *fleet) { nettest.Signal(f.t, f.pids()[1], syscall.SIGKILL) },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				gate := filepath.Join(t.TempDir(), "gate")
				f := start(t, setup{Workers: 1, Engine: engine, Grace: patience, Drain: patience, Linger: patience}, true)
				busy := f.dial()
				busy.send("GET /gate?file=" + gate + " HTTP/1.1\r\nHost: x\r\n\r\n")
				until(t, "it is accepted", func() bool { return connections(t, f.pids()) == 1 })
				f.signal(syscall.SIGHUP)
				until(t, "there is a successor", func() bool { return f.count("worker 0.2") == 2 && f.count("ready after") == 2 })
				until(t, "the predecessor drains", func() bool { return len(f.printed("on drain")) == 1 })
				end(f)
				until(t, "the successor is gone", func() bool { return !isAlive(f.pids()[1]) })
				until(t, "the predecessor knows", func() bool { return f.count("there is no successor any more") == 1 })
				open(t, gate)
				if _, closes, err := answer(busy.r); err != nil || !closes {
					t.Errorf("the answer: closes %v, %v", closes, err)
				}
				f.wait()
				until(t, "the predecessor ends", func() bool { return !isAlive(f.pids()[0]) })
			})
		}
	}
}
