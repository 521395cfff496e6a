package prefork

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/shared"
)

// Connections for which a successor has no descriptor stay with the old worker, which serves
// them until its time is over.
func TestRestartWithoutDescriptors(t *testing.T) {
	for name, c := range map[string]struct {
		workers     int
		descriptors [2]uint64
	}{
		"far fewer":    {2, [2]uint64{0, 48}},
		"fewer":        {2, [2]uint64{128, 64}},
		"all have few": {3, [2]uint64{64, 64}},
	} {
		for engineName, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
			t.Run(name+"/"+engineName, func(t *testing.T) {
				t.Parallel()
				f := start(t, setup{Workers: c.workers, Engine: engine, Descriptors: c.descriptors, Linger: 2 * patience, Drain: 4 * patience}, true)
				idle := f.idlers(96)
				f.signal(syscall.SIGHUP)
				until(t, "all are replaced", func() bool { return f.count("rolling restart is done") > 0 })
				time.Sleep(100 * time.Millisecond) // the hand-over goes on meanwhile
				for i, c := range idle {
					if body := c.get("/"); body == "" {
						t.Errorf("connection %d: %q", i, body)
					}
				}
			})
		}
	}
}

// Handlers of the successor take the descriptors that it has announced. What it cannot take
// stays with the old worker, of each protocol, and nothing is lost.
func TestHandOverIsAnswered(t *testing.T) {
	const conns, free = 20, 6
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate, release := filepath.Join(t.TempDir(), "gate"), filepath.Join(t.TempDir(), "release")
			f := start(t, setup{Workers: 1, Engine: engine, Descriptors: [2]uint64{0, 64}, Linger: 2 * patience, Drain: 4 * patience, BootGate: gate}, true)
			var busy []*client
			for range conns {
				c := f.dial()
				c.send("POST /echo?n=7 HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nfirst")
				busy = append(busy, c)
			}
			until(t, "all are accepted", func() bool { return connections(t, f.pids()) == conns })
			f.signal(syscall.SIGHUP)
			open(t, gate)
			until(t, "the old worker accepts nothing any more", func() bool { return f.count("on drain") > 0 })
			if taken := f.dial().get(fmt.Sprintf("/hoard?free=%d&until=%s", free, release)); taken < "10" || len(taken) != 2 {
				t.Fatalf("%s descriptors are taken", taken)
			}
			for _, c := range busy {
				c.send("-last")
			}
			for _, c := range busy {
				if body := c.answer(); body != "7:first-last" {
					t.Errorf("%q", body)
				}
			}
			var served [3]int
			ask := func() {
				served = [3]int{}
				for _, c := range busy {
					var pid, slot, generation int
					if body := c.get("/"); !strings.HasSuffix(body, " true") {
						t.Errorf("%q", body)
					} else if _, err := fmt.Sscan(body, &pid, &slot, &generation); err == nil {
						served[generation]++
					}
				}
			}
			until(t, "the successor has what it can take", func() bool { ask(); return served[2] > 0 })
			if served[1] == 0 || served[1]+served[2] != conns {
				t.Errorf("%d are served by the old worker, %d by the new one", served[1], served[2])
			}
			open(t, release)
			until(t, "the successor has all when its descriptors are free again", func() bool { ask(); return served[2] == conns })
			if lost := f.said(" is lost"); len(lost) > 0 {
				t.Errorf("%q", lost)
			}
		})
	}
}

// A worker that has fewer connections, but no descriptor, gets one right after another worker
// has accepted it: the other one serves it. When descriptors are free again, it gets more.
func TestPassedOnWithoutDescriptors(t *testing.T) {
	const conns, free = 24, 3
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := filepath.Join(t.TempDir(), "release")
			f := start(t, setup{Workers: 2, Engine: engine, Shared: true, Descriptors: [2]uint64{96, 0}}, true)
			first := f.dial()
			poor := strings.Fields(first.get("/"))[0]
			first.get(fmt.Sprintf("/hoard?free=%d&until=%s", free, release))
			served := map[string]int{}
			for i := range conns {
				if body := f.dial().get("/"); body == "" {
					t.Errorf("connection %d is not answered", i)
				} else {
					served[strings.Fields(body)[0]]++
				}
			}
			if served[poor] > free || len(f.pids()) != 2 {
				t.Errorf("%v served, by %s with %d descriptors", served, poor, free)
			}
			open(t, release)
			until(t, "it gets more", func() bool { return strings.HasPrefix(f.dial().get("/"), poor+" ") })
			if lost := f.said(" is lost"); len(lost) > 0 {
				t.Errorf("%q", lost)
			}
		})
	}
}

// A connection that is in the inbox of a worker when that one dies is served, also if the
// worker that reads the inbox then has no descriptor: it may be the one that passed it on.
func TestInboxWithoutDescriptors(t *testing.T) {
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate, release := filepath.Join(t.TempDir(), "gate"), filepath.Join(t.TempDir(), "release")
			f := start(t, setup{Workers: 2, Engine: engine, Shared: true, Threshold: 9, Descriptors: [2]uint64{128, 0}, BootGate: gate}, true)
			victim := f.pids()[0]
			other := f.dial()
			for strings.HasPrefix(other.get("/"), itoa(victim)+" ") {
				other = f.dial()
			}
			pages := map[int]*shared.Page{}
			for p := range f.segment().Others() {
				pages[p.PID()] = p
			}
			nettest.Freeze(t, victim)
			var waiting []*client
			for range 30 {
				c := f.dial()
				c.send("GET /slow?ms=0 HTTP/1.1\r\nHost: x\r\n\r\n")
				waiting = append(waiting, c)
			}
			until(t, "many wait in the inbox", func() bool { return pages[victim].Get(shared.Inbound) > 8 })
			other.get("/hoard?free=2&until=" + release)
			nettest.Signal(t, victim, syscall.SIGKILL)
			until(t, "the other worker reads the inbox", func() bool { return f.count("reads the inbox of slot 0 meanwhile") > 0 })
			time.Sleep(100 * time.Millisecond) // what the worker cannot take is refused meanwhile
			open(t, release)
			open(t, gate) // if the other worker had no descriptor for the inbox, the successor reads it
			for i, c := range waiting {
				if err := c.expect("slow"); err != nil {
					t.Errorf("connection %d: %v", i, err)
				}
			}
			if lost := f.said(" is lost"); len(lost) > 0 {
				t.Errorf("%q", lost)
			}
		})
	}
}

// A full successor is no reason to end connections with a state: they stay as others do.
func TestProtocolsWithoutDescriptors(t *testing.T) {
	const each = 16
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, setup{Workers: 1, Engine: engine, WebSocket: true, HTTP2: true, Streams: true,
				Descriptors: [2]uint64{0, 48}, Linger: 2 * patience, Drain: 4 * patience}, true)
			l := &load{}
			s := f.streams(l, each)
			var sockets []*socketClient
			var calls []*http2Client
			for range each {
				sockets, calls = append(sockets, f.socketClient()), append(calls, f.http2Client())
			}
			served := map[string]int{}
			again := func() {
				clear(served)
				for i := range each {
					pid, err := sockets[i].say("hello")
					body, err2 := calls[i].get("/")
					if err != nil || err2 != nil || calls[i].dials.Load() != 1 {
						t.Errorf("number %d: WebSocket: %v, HTTP/2: %v, %d connections", i, err, err2, calls[i].dials.Load())
					}
					served[pid]++
					served[strings.Fields(body + " none")[0]]++
				}
			}
			again()
			f.signal(syscall.SIGHUP)
			until(t, "it is replaced", func() bool { return f.count("rolling restart is done") > 0 })
			for range 5 {
				again()
			}
			if len(served) != 2 {
				t.Errorf("served by %v", served)
			}
			l.stop.Store(true)
			l.done.Wait()
			s.end()
			for _, err := range l.failed {
				t.Error(err)
			}
		})
	}
}
