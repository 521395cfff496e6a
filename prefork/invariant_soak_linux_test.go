package prefork

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/shared"
)

// keeper is a client that keeps its connection until it is cut, and then opens
// another one. The server must never send "Connection: close".
func (l *load) keeper(dial func() (net.Conn, error), k kind, interval time.Duration) {
	defer l.done.Done()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for n := 0; !l.stop.Load(); {
		c, err := dial()
		if err != nil {
			l.fail(err)
			continue
		}
		from := bufio.NewReader(c)
		for ; err == nil && !l.stop.Load(); n++ {
			<-ticker.C
			r := k(n)
			if err = r.send(c); err == nil {
				_, err = r.receive(from, false)
			}
			if err != nil {
				l.fail(cut{portOf(c.LocalAddr().String()), err})
				break
			}
			l.answered.Add(int64(len(r.answers)))
		}
		c.Close()
	}
}

// Whatever happens to the workers, in any order, only requests fail that a killed
// worker had accepted.
func TestAnythingGoes(t *testing.T) {
	events := 60
	if testing.Short() {
		events = 10
	}
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, setup{Workers: 2, Engine: engine, Threshold: 1 << 20, Linger: patience, Drain: patience}, true)
			seed := uint64(time.Now().UnixNano())
			s := soak{f, f.segment(), rand.New(rand.NewPCG(seed, 0)), victims{ports: make(map[int]bool)}, make(map[int]bool), 2}
			var l load
			for _, k := range []kind{plain, plain, plain, upload, upload, trickle, pipelined} {
				l.done.Add(1)
				go l.keeper(f.dialer(), k, 5*time.Millisecond)
			}
			for range 8 {
				l.done.Add(1)
				go l.connectEvery(f.dialer(), 10*time.Millisecond)
			}
			for range events {
				s.happen()
				goal := l.answered.Load() + s.random.Int64N(80)
				until(t, "requests are answered", func() bool { return l.answered.Load() >= goal })
			}
			l.stop.Store(true)
			l.done.Wait()
			for _, err := range l.failed {
				var one cut
				if !errors.As(err, &one) || !s.victims.ports[one.port] || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%v: no worker had it in its hands (port %d)", err, one.port)
				}
			}
			t.Logf("seed %d: %d answers, %d cut", seed, l.answered.Load(), len(l.failed))
			f.isIdle(s.segment)
			f.signal(syscall.SIGTERM)
			if status := f.wait(); status != 0 {
				t.Errorf("exit status %d", status)
			}
		})
	}
}

// isIdle checks that the workers count no connections when there are none.
func (f *fleet) isIdle(s *shared.Segment) {
	f.t.Helper()
	var loads string
	isIdle := func() bool {
		loads = ""
		for p := range s.Others() {
			if accepted, done, inbound := p.Get(shared.Accepted), p.Get(shared.Done), p.Get(shared.Inbound); accepted != done || inbound != 0 {
				loads += fmt.Sprintf("worker %d: %d accepted, %d done, %d inbound\n", p.PID(), accepted, done, inbound)
			}
		}
		return loads == ""
	}
	for deadline := time.Now().Add(patience); !isIdle(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Errorf("there are no connections, but\n%s", loads)
			return
		}
	}
}

// A soak is a fleet with random events.
type soak struct {
	*fleet
	segment *shared.Segment
	random  *rand.Rand
	victims victims
	told    map[int]bool // workers that were told to end
	wanted  int          // workers
}

// happen causes one random event.
func (s *soak) happen() {
	s.t.Helper()
	switch s.random.IntN(8) {
	case 0, 1:
		s.signal(syscall.SIGHUP)
	case 2:
		if s.wanted < 4 {
			s.scale(syscall.SIGTTIN, 1)
		}
	case 3:
		if s.wanted > 1 {
			s.scale(syscall.SIGTTOU, -1)
		}
	case 4, 5:
		s.killOne(s.segment, &s.victims)
	case 6: // once: a second signal would end it without a successor
		if pid := s.any(); !s.told[pid] {
			s.told[pid] = true
			nettest.Signal(s.t, pid, syscall.SIGTERM)
		}
	case 7:
		pid := s.any()
		nettest.Freeze(s.t, pid)
		time.Sleep(20 * time.Millisecond)
		nettest.Signal(s.t, pid, syscall.SIGCONT)
	}
}

// scale sends a signal and waits until it was handled: pending signals of one kind
// are merged.
func (s *soak) scale(signal syscall.Signal, by int) {
	s.t.Helper()
	s.wanted += by
	before := s.count(" instead of ")
	s.signal(signal)
	until(s.t, "the master knows", func() bool { return s.count(" instead of ") > before })
}

// any returns a living worker.
func (s *soak) any() (pid int) {
	until(s.t, "there is a worker", func() bool {
		for name := range s.living() {
			pid, _ = strconv.Atoi(name)
		}
		return pid != 0
	})
	return pid
}
