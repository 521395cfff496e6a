package enginetest

import (
	"io"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A longScenario takes seconds, and is run on all networks at once.
type longScenario struct {
	name string
	run  func(*testing.T, []*fixture)
}

func longScenarios() []longScenario {
	return []longScenario{
		{"long wait", testLongWait},
		{"deadline that moves", testDeadlineMoves},
		{"writing is not idling", testWritingIsNotIdling},
		{"file that takes longer than the write timeout", testFileTakesLong},
	}
}

// testLongWait waits for longer than engines keep buffers for, within a frame
// and between two.
func testLongWait(t *testing.T, fixtures []*fixture) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	var servers []*server
	var peers []*peer
	for _, f := range fixtures {
		s := f.start(t, newAcceptor(), options())
		p := s.connect(t)
		p.ask(t, "echo x", "x")
		servers, peers = append(servers, s), append(peers, p)
	}
	time.Sleep(2300 * time.Millisecond)
	for i, s := range servers {
		if fixtures[i].offers(deadlines) { // else nothing ends the wait
			s.eventually(t, "an idle connection holds no buffer", func() bool {
				all := sum(s.engine.Loops())
				return all.Connections == 1 && all.Buffers == 0 && all.Active == 0 && all.Queued == 0
			})
		}
	}
	for i, p := range peers {
		p.send(t, frames("echo abc")[:3])
		want := int64(len(frames("echo x"))) + 3
		servers[i].eventually(t, "input was taken", func() bool { return servers[i].fed.Load() == want })
	}
	time.Sleep(2300 * time.Millisecond)
	for i, p := range peers {
		if stats := servers[i].stats(); stats != (engine.Stats{Open: 1, Active: 1}) {
			t.Errorf("%s: Stats within a frame: %+v", fixtures[i].network.Name, stats)
		}
		sent := p.sendLater(append(frames("echo abc")[3:], frames("echo d", "echo e")...))
		p.expect(t, "abc", "d", "e")
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
}

// testDeadlineMoves keeps connections busy for longer than their deadline. A machine
// that is busy elsewhere may keep a client from asking for so long that its time is over.
// It proves nothing then, and a deadline that has not moved passes just after an answer.
func testDeadlineMoves(t *testing.T, fixtures []*fixture) {
	const idle = 2 * time.Second
	var all sync.WaitGroup
	for _, f := range fixtures {
		if !f.offers(deadlines) {
			continue
		}
		a := newAcceptor()
		a.idle = idle
		asked := time.Now()
		p := f.start(t, a, options()).connect(t)
		all.Go(func() {
			var now time.Time
			for end := time.Now().Add(idle * 3 / 2); now.Before(end); time.Sleep(20 * time.Millisecond) {
				before := asked
				asked = time.Now()
				got, err := p.roundTrip("x")
				now = time.Now()
				if late := now.Sub(before) >= idle*3/4; late && (err != nil || got == "timeout") {
					t.Logf("%s: the client came late", f.network.Name)
					return
				}
				if got != "x" || err != nil {
					t.Errorf("%s: got %s and %v", f.network.Name, shortened(got), err)
					return
				}
			}
			if got, err := p.receive(); got != "timeout" || err != nil {
				t.Errorf("%s: got %s and %v, want the time-out", f.network.Name, shortened(got), err)
			}
			if got, err := p.receive(); err != io.EOF {
				t.Errorf("%s: got %s and %v, want the end", f.network.Name, shortened(got), err)
			}
		})
	}
	all.Wait()
}
