package prefork

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/shared"
)

// replace replaces all workers and waits until the old ones have ended. The fleet's
// output may be late, so it also waits until the new workers' lines have arrived.
func (f *fleet) replace(workers int) {
	f.t.Helper()
	old := f.pids()
	f.signal(syscall.SIGHUP)
	until(f.t, "the successors are started", func() bool { return len(f.pids()) >= len(old)+workers })
	for _, pid := range old {
		until(f.t, "the old worker ends", func() bool { return !isAlive(pid) })
	}
}

// Clients do not notice rolling restarts: no request fails, no connect is refused,
// and no connection is closed, busy or idle (I1).
func TestRestartsAreInvisible(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	for name, c := range map[string]struct {
		setup    setup
		restarts int
	}{
		"epoll":        {setup{Engine: sluice.EngineEpoll}, 20},
		"perconn":      {setup{Engine: sluice.EnginePerConn}, 20},
		"shared":       {setup{Shared: true}, 5},
		"unix epoll":   {setup{Engine: sluice.EngineEpoll, Addr: unixPrefix + path}, 5},
		"unix perconn": {setup{Engine: sluice.EnginePerConn, Addr: unixPrefix + path + "2"}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			restarts := c.restarts
			if testing.Short() {
				if restarts < 20 {
					t.Skip("the others are enough")
				}
				restarts = 3
			}
			c.setup.Workers, c.setup.Linger, c.setup.Drain = 2, patience, patience
			f := start(t, c.setup, true)
			idle := f.idlers(200)
			var l load
			l.callers(f.dialer(), false)
			began := time.Now()
			for range restarts {
				goal := l.answered.Load() + 100
				until(t, "requests are answered", func() bool { return l.answered.Load() >= goal || t.Failed() })
				f.replace(2)
			}
			took := time.Since(began)
			l.end(t)
			f.stillAnswer(idle)
			if n := len(f.pids()); n != 2+2*restarts {
				t.Errorf("%d workers were started, want %d", n, 2+2*restarts)
			}
			t.Logf("%d restarts in %v, %.0f requests/s", restarts, took, float64(l.answered.Load())/took.Seconds())
		})
	}
}

// With TLS, clients that respect "Connection: close" lose nothing.
func TestRestartsOfTLS(t *testing.T) {
	restarts := 5
	if testing.Short() {
		restarts = 2
	}
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, setup{Workers: 2, Engine: engine, TLS: true, Linger: patience, Drain: patience}, true)
			config := &tls.Config{InsecureSkipVerify: true, ServerName: "localhost", ClientSessionCache: tls.NewLRUClientSessionCache(64)}
			addr := f.addr(0)
			var l load
			l.callers(func() (net.Conn, error) { return tls.Dial("tcp", addr, config) }, true)
			for range restarts {
				f.replace(2)
			}
			l.end(t)
			t.Logf("%d answers on %d connections", l.answered.Load(), l.renewed.Load())
		})
	}
}

// resources is what a fleet's processes hold.
type resources struct {
	master     int   // descriptors
	workers    []int // by slot
	goroutines uint64
	children   int
	zombies    int
}

// resources counts what the fleet's processes hold.
func (f *fleet) resources(goroutines uint64) (r resources) {
	master := f.cmd.Process.Pid
	r.master, r.goroutines = len(descriptors(master)), goroutines
	all := f.pids()
	for _, pid := range all[len(all)-2:] {
		r.workers = append(r.workers, len(descriptors(pid)))
	}
	r.children, r.zombies = children(master)
	return r
}

// descriptors returns the descriptors of a process.
func descriptors(pid int) (all []string) {
	links, _ := filepath.Glob(filepath.Join("/proc", itoa(pid), "fd", "*"))
	for _, link := range links {
		to, _ := os.Readlink(link)
		all = append(all, filepath.Base(link)+" "+to)
	}
	return all
}

// children counts the child processes of a process, and those that are zombies.
func children(parent int) (all, zombies int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		var state string
		var of int
		if _, err := fmt.Sscan(rest, &state, &of); err != nil || of != parent {
			continue
		}
		if all++; state == "Z" {
			zombies++
		}
	}
	return all, zombies
}

// rest returns what the idle fleet holds: values that stay the same while the master,
// which reports each second, has reported twice.
func (f *fleet) rest(master func() shared.Process) (r resources) {
	f.t.Helper()
	heartbeats, last := 0, int64(0)
	until(f.t, "the fleet is at rest", func() bool {
		p := master()
		now := f.resources(p.Goroutines)
		switch {
		case fmt.Sprint(now) != fmt.Sprint(r):
			heartbeats = 0
		case p.Heartbeat != last:
			heartbeats++
		}
		r, last = now, p.Heartbeat
		return heartbeats == 2 && now.children == 2
	})
	return r
}

// churn opens and closes some hundred connections, some of which move between
// workers.
func (f *fleet) churn() {
	f.t.Helper()
	var l load
	for range 32 {
		l.done.Add(1)
		go l.connectEvery(f.dialer(), time.Millisecond)
	}
	until(f.t, "they are answered", func() bool { return l.answered.Load() > 500 })
	l.end(f.t)
}

// Restarts leak no descriptors, processes or goroutines (I13).
func TestNothingIsLeftBehind(t *testing.T) {
	restarts := 50
	if testing.Short() {
		restarts = 5
	}
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, setup{Workers: 2, Engine: engine, Linger: patience, Drain: patience}, true)
			s := f.segment()
			master := func() shared.Process {
				p, _ := s.Process(f.cmd.Process.Pid)
				return p
			}
			idle := f.idlers(20)
			f.replace(2) // so that everything was done once before the first count
			f.stillAnswer(idle)
			f.churn()
			before := f.rest(master)
			held := descriptors(f.pids()[2])
			for range restarts {
				f.replace(2)
			}
			f.churn()
			f.stillAnswer(idle)
			var after resources
			isSame := func() bool {
				after = f.resources(master().Goroutines)
				// The master's number may be a second old and from a busy moment.
				after.goroutines = min(after.goroutines, before.goroutines)
				return fmt.Sprint(after) == fmt.Sprint(before)
			}
			for deadline := time.Now().Add(patience); !isSame(); time.Sleep(20 * time.Millisecond) {
				if time.Now().After(deadline) {
					after.goroutines = master().Goroutines
					t.Fatalf("%+v, before %+v\nmaster:\n%s\nworker:\n%s\nbefore:\n%s", after, before, strings.Join(descriptors(f.cmd.Process.Pid), "\n"),
						strings.Join(descriptors(f.pids()[2+2*restarts]), "\n"), strings.Join(held, "\n"))
				}
			}
			f.signal(os.Interrupt)
			if status := f.wait(); status != 0 {
				t.Errorf("exit status %d", status)
			}
			if alive := f.living(); len(alive) > 0 {
				t.Errorf("workers are left: %v", alive)
			}
			t.Logf("%+v", after)
		})
	}
}

// More connections than an inbox can hold are handed over, too.
func TestCrowdIsHandedOver(t *testing.T) {
	crowd := 3000
	if testing.Short() {
		crowd = 1000
	}
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, setup{Workers: 2, Engine: engine, Linger: patience, Drain: patience}, true)
			idle := f.idlers(crowd)
			for range 2 {
				f.replace(2)
			}
			f.stillAnswer(idle)
			if n := f.count(fmt.Sprintf(`"HandedOver":%d,`, 0)); n > 0 {
				t.Errorf("%d workers have handed over no connection", n)
			}
		})
	}
}
