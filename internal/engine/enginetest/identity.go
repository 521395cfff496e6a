package enginetest

import (
	"fmt"
	"net"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
)

func identityScenarios() []scenario {
	return []scenario{
		{"is socket", testIsSocket, 0},
		{"answers are not held back", testNoDelay, buffered},
		{"loops", testLoops, 0},
		{"net conn outlives its connection", testNetConnOutlives, 0},
		{"net conn closed by its user", testNetConnClosed, 0},
	}
}

func testIsSocket(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	for range 2 {
		p := s.connect(t)
		for range 2 {
			p.ask(t, "socket", fmt.Sprint(f.network.isSocket))
			s.eventuallyIdle(t, 1)
		}
		_ = p.Close()
		s.eventuallyIdle(t, 0)
	}
}

// testNoDelay looks at the server's sockets: without TCP_NODELAY, what is written
// in two pieces arrives with a delay of 40 ms, and nothing else shows it.
func testNoDelay(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	for i := range 3 {
		p := s.connect(t)
		for range i * 10 {
			p.ask(t, "echo x", "x")
		}
		p.ask(t, "echo x", "x")
		on, found := serverNoDelay(p.LocalAddr())
		if !found {
			t.Skip("the server's socket is not to be found")
		}
		if !on {
			t.Error("TCP_NODELAY is off")
		}
	}
}

// testLoops has connections in every state, and compares the sum of the parts
// with the whole.
func testLoops(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	const blocked, idle, partial = 10, 5, 3
	var peers []*peer
	for i := range blocked {
		p := s.connect(t)
		p.send(t, frames(fmt.Sprint("wait ", i)))
		s.awaitGate(t, fmt.Sprint(i))
		peers = append(peers, p)
	}
	for range idle {
		p := s.connect(t)
		p.ask(t, "echo x", "x")
		peers = append(peers, p)
	}
	for range partial {
		p := s.connect(t)
		p.send(t, frames("echo x")[:3])
		peers = append(peers, p)
	}
	s.eventually(t, "the loops agree with Stats", func() bool {
		all := sum(s.engine.Loops())
		return s.stats() == engine.Stats{Open: len(peers), Active: blocked + partial} &&
			all.Connections == len(peers) && all.Active == blocked+partial && all.Queued == 0
	})
	all := sum(s.engine.Loops())
	if all.Workers-all.IdleWorkers < blocked {
		t.Errorf("%d sessions are in Run: %+v", blocked, all)
	}
	for _, l := range s.engine.Loops() {
		if min(l.Connections, l.Active, l.Queued, l.Workers, l.IdleWorkers, l.Buffers) < 0 || l.Active > l.Connections || l.IdleWorkers > l.Workers {
			t.Errorf("a loop has %+v", l)
		}
	}
	s.releaseAll()
	for _, p := range peers[:blocked] {
		p.expect(t, "waited")
	}
	for _, p := range peers {
		_ = p.Close()
	}
	s.eventually(t, "nothing is left but workers", func() bool {
		all := sum(s.engine.Loops())
		return all == engine.LoopStats{Workers: all.Workers, IdleWorkers: all.IdleWorkers}
	})
}

// testNetConnOutlives keeps what NetConn returned for longer than the
// connection lives. It may say that it is closed, but it may not touch another
// connection that has got its descriptor.
func testNetConnOutlives(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	const count = 10
	for range count {
		p := s.connect(t)
		p.ask(t, "keep", "kept")
		_ = p.Close()
	}
	s.eventuallyIdle(t, 0)
	var peers []*peer
	for range count {
		p := s.connect(t)
		p.ask(t, "echo x", "x")
		peers = append(peers, p)
	}
	s.mu.Lock()
	kept := append([]net.Conn(nil), s.kept...)
	s.mu.Unlock()
	for _, nc := range kept {
		if nc.RemoteAddr() == nil || nc.LocalAddr() == nil {
			t.Errorf("a %T without addresses", nc)
		}
		_, _ = nc.Write([]byte("not for you"))
		_ = nc.Close()
	}
	for _, p := range peers {
		p.expectNothingMore(t)
	}
}

// testNetConnClosed has a user close what NetConn returned while the engine
// waits for input.
func testNetConnClosed(t *testing.T, f *fixture) {
	o := options()
	o.NetConnIsKept = true
	s := f.start(t, newAcceptor(), o)
	for i := range 3 {
		p := s.connect(t)
		p.ask(t, "keep", "kept")
		if i > 0 {
			s.eventuallyIdle(t, 1)
		}
		s.mu.Lock()
		nc := s.kept[i]
		s.mu.Unlock()
		_ = nc.Close()
		p.expectGone(t)
		s.eventuallyIdle(t, 0)
	}
}
