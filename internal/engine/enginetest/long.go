package enginetest

import (
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
		if stats := servers[i].engine.Stats(); stats != (engine.Stats{Open: 1, Active: 1}) {
			t.Errorf("%s: Stats within a frame: %+v", fixtures[i].network.Name, stats)
		}
		sent := p.sendLater(append(frames("echo abc")[3:], frames("echo d", "echo e")...))
		p.expect(t, "abc", "d", "e")
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
}

// testDeadlineMoves keeps connections busy for longer than their deadline.
func testDeadlineMoves(t *testing.T, fixtures []*fixture) {
	const idle = 2 * time.Second
	var peers []*peer
	for _, f := range fixtures {
		if f.offers(deadlines) {
			a := newAcceptor()
			a.idle = idle
			peers = append(peers, f.start(t, a, options()).connect(t))
		}
	}
	for end := time.Now().Add(idle * 3 / 2); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for _, p := range peers {
			p.ask(t, "echo x", "x")
		}
	}
	for _, p := range peers {
		p.expect(t, "timeout")
		p.expectEnd(t)
	}
}
