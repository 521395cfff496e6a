package prefork

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/shared"
)

// A cut is a request that was not answered.
type cut struct {
	port int // the client's
	error
}

func (c cut) Unwrap() error { return c.error }

// connectEvery is a client that opens a connection for each request, one in each
// interval. It counts failures.
func (l *load) connectEvery(dial func() (net.Conn, error), interval time.Duration) {
	defer l.done.Done()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for n := 0; !l.stop.Load(); n++ {
		<-ticker.C
		c, err := dial()
		if err != nil {
			l.fail(err)
			continue
		}
		text := "GET /slow?ms=2 HTTP/1.1\r\nHost: x\r\n\r\n"
		if n%2 == 0 { // the server closes it
			text = strings.Replace(text, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)
		}
		c.SetDeadline(time.Now().Add(patience))
		io.WriteString(c, text)
		one := client{c: c}
		if err := one.expect("slow"); err != nil {
			l.fail(cut{portOf(c.LocalAddr().String()), err})
		} else {
			l.answered.Add(1)
		}
		c.Close()
	}
}

// When workers are killed, only the requests that they had accepted fail: neither
// connections in queues nor new ones do (I2).
func TestKilledUnderLoad(t *testing.T) {
	for name, c := range map[string]struct {
		engine sluice.Engine
		kills  int
	}{"epoll": {sluice.EngineEpoll, 100}, "perconn": {sluice.EnginePerConn, 50}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() {
				c.kills = 20
			}
			f := start(t, setup{Workers: 2, Engine: c.engine, Threshold: 1 << 20}, true)
			s := f.segment()
			var l load
			began := time.Now()
			for range 64 {
				l.done.Add(1)
				go l.connectEvery(f.dialer(), 40*time.Millisecond)
			}
			v := victims{ports: make(map[int]bool)}
			for range c.kills {
				goal := l.answered.Load() + 32
				until(t, "requests are answered", func() bool { return l.answered.Load() >= goal })
				f.killOne(s, &v)
			}
			took := time.Since(began)
			l.stop.Store(true)
			l.done.Wait()
			if len(l.failed) > v.connections || v.connections == 0 {
				t.Errorf("%d failed, workers had %d in their hands", len(l.failed), v.connections)
			}
			for _, err := range l.failed {
				var one cut
				if !errors.As(err, &one) || !v.ports[one.port] || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%v: no worker had it in its hands (port %d)", err, one.port)
				}
			}
			t.Logf("%d kills in %v: %d answered (%.0f/s), %d failed, %d in hand", c.kills, took, l.answered.Load(),
				float64(l.answered.Load())/took.Seconds(), len(l.failed), v.connections)
			until(t, "all were replaced", func() bool { return len(f.pids()) == 2+c.kills && f.count("ready after") >= 2 })
			if _, err := f.get("/"); err != nil {
				t.Error(err)
			}
			f.isIdle(s)
		})
	}
}

// victims is what the killed workers had accepted.
type victims struct {
	connections int          // as they had counted
	ports       map[int]bool // of the clients, as the system reports
}

// killOne kills a worker that serves.
func (f *fleet) killOne(s *shared.Segment, v *victims) {
	f.t.Helper()
	var victim shared.Process
	until(f.t, "a worker that serves is frozen", func() bool {
		var all []shared.Process
		for _, p := range s.Scoreboard(nil) {
			if p.State == shared.Ready && p.Accepted > 5 && isAlive(p.PID) {
				all = append(all, p)
			}
		}
		if len(all) == 0 {
			return false
		}
		pid := all[rand.IntN(len(all))].PID
		nettest.Freeze(f.t, pid)
		time.Sleep(10 * time.Millisecond) // so that the queue fills
		var isFound bool                  // false if it has ended and was replaced
		victim, isFound = s.Process(pid)
		return isFound && isAlive(pid)
	})
	v.connections += int(victim.Accepted - victim.Done)
	for _, port := range clientsOf(f.t, victim.PID) {
		v.ports[port] = true
	}
	nettest.Signal(f.t, victim.PID, syscall.SIGKILL)
	until(f.t, "it is gone", func() bool { return !isAlive(victim.PID) })
}

// Connections in the queue and in the inbox of a dead worker are answered by another
// worker while there is no successor (I3).
func TestRescue(t *testing.T) {
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := filepath.Join(t.TempDir(), "gate")
			f := start(t, setup{Workers: 2, Engine: engine, Threshold: 9, BootGate: gate}, true)
			victim := f.pids()[0]
			waiting := f.fillQueueAndInbox(f.segment(), victim, 200)
			began := time.Now()
			nettest.Signal(t, victim, syscall.SIGKILL)
			for _, c := range waiting {
				if err := c.expect("slow"); err != nil {
					t.Error(err)
				}
			}
			if n := f.count("ready after"); n != 2 {
				t.Errorf("%d workers became ready: a successor may have answered", n)
			}
			t.Logf("all in %v", time.Since(began))
			open(t, gate)
		})
	}
}

// fillQueueAndInbox freezes a worker and sends requests. Some then wait in its queue
// and some in its inbox; other workers get the rest.
func (f *fleet) fillQueueAndInbox(s *shared.Segment, pid, connections int) (all []*client) {
	f.t.Helper()
	nettest.Freeze(f.t, pid)
	for range connections {
		c := f.dial()
		c.send("GET /slow?ms=0 HTTP/1.1\r\nHost: x\r\n\r\n")
		all = append(all, c)
	}
	until(f.t, "some wait in the inbox", func() bool {
		for p := range s.Others() {
			if p.PID() == pid && p.Get(shared.Inbound) > 0 {
				return true
			}
		}
		return false
	})
	until(f.t, "some wait in the queue", func() bool { return waitingAt(f.t, portOf(f.addr(0))) > 0 })
	return all
}

// When the number of workers changes, no request fails and no connection is closed
// (I4).
func TestScalingIsInvisible(t *testing.T) {
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, setup{Workers: 1, Engine: engine, Linger: patience, Drain: patience}, true)
			var l load
			for range 3 {
				l.done.Add(1)
				go l.connectEvery(f.dialer(), 3*time.Millisecond)
			}
			l.callers(f.dialer(), false)
			idle := f.idlers(40)
			wanted := 1
			for _, step := range []int{1, 1, 1, -1, -1, -1, 1, 1} {
				ready := f.count("ready after")
				if wanted += step; step > 0 {
					f.signal(syscall.SIGTTIN)
					until(t, "there is one more", func() bool { return f.count("ready after") == ready+1 })
				} else {
					f.signal(syscall.SIGTTOU)
					until(t, "there is one less", func() bool { return len(f.living()) == wanted })
				}
				f.stillAnswer(idle)
			}
			l.end(t)
			if n := len(f.living()); n != 3 {
				t.Errorf("%d workers, want 3", n)
			}
			t.Logf("%d answers", l.answered.Load())
		})
	}
}
