package enginetest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// castScenarios are for Engine.Cast. An engine may miss every target, but it must
// not send to one that it has missed.
func castScenarios() []scenario {
	return []scenario{
		{"cast", testCast, 0},
		{"cast and deadline", testCastDeadline, deadlines | buffered | waits},
		{"cast to ended connections", testCastEnded, 0},
		{"prompt a target", testPromptTarget, 0},
		{"cast to a peer that does not read", testCastBlocked, buffered},
		{"cast against everything", testCastAgainstAll, bare | contended},
	}
}

// target returns the Target of the session of p.
func (p *peer) target(t *testing.T) engine.Target {
	t.Helper()
	p.ask(t, "target", "known")
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	return p.server.target
}

// cast casts the text, and returns which targets were missed.
func (s *server) cast(targets []engine.Target, text string) map[engine.Target]bool {
	missed := make(map[engine.Target]bool)
	frame := frames(text)
	s.engine.Cast(targets, frame, func(i int) { missed[targets[i]] = true })
	clear(frame)
	return missed
}

// testCast casts to connections that are idle, in the middle of a frame, and busy.
func testCast(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	var peers []*peer
	var targets []engine.Target
	for range 5 {
		p := s.connect(t)
		peers, targets = append(peers, p), append(targets, p.target(t))
	}
	partial, busy := peers[3], peers[4]
	s.eventuallyIdle(t, 5)
	partial.send(t, frames("echo x")[:3])
	busy.send(t, frames("wait here"))
	s.awaitGate(t, "here")
	s.eventually(t, "two are active", func() bool { return s.stats() == engine.Stats{Open: 5, Active: 2} })
	for round := range 3 {
		missed := s.cast(targets, fmt.Sprint("cast ", round))
		if !missed[targets[3]] || !missed[targets[4]] {
			t.Error("Cast has sent into the middle of a request")
		}
		casts := targets[0] != engine.Target{} && !f.offers(handshakes)
		for i, p := range peers[:3] {
			switch isMissed := missed[targets[i]]; {
			case isMissed && casts:
				t.Errorf("round %d: an idle connection was missed", round)
			case !isMissed:
				p.expect(t, fmt.Sprint("cast ", round))
			}
			p.ask(t, "echo x", "x")
		}
		s.eventually(t, "two are active", func() bool { return s.stats() == engine.Stats{Open: 5, Active: 2} })
	}
	s.releaseAll()
	busy.expect(t, "waited")
	partial.send(t, frames("echo x")[3:])
	partial.expect(t, "x")
	if missed := s.cast([]engine.Target{{}}, "x"); !missed[engine.Target{}] {
		t.Error("the zero Target was not missed")
	}
}

// testCastDeadline: a cast does not move the deadline of the wait.
func testCastDeadline(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	target := p.target(t)
	p.ask(t, "idle 300", "patient")
	began := time.Now()
	for s.closed.Load() == 0 {
		if !s.cast([]engine.Target{target}, "cast")[target] {
			// It is read at once: a full buffer would delay the end.
			if got, err := p.receive(); err != nil || got != "cast" {
				t.Fatalf("got %s and %v", shortened(got), err)
			}
		}
		if time.Since(began) > patience {
			t.Fatalf("the connection never ended%s", s.state())
		}
		pause()
	}
	p.expect(t, "timeout")
	p.expectEnd(t)
}

// testCastEnded casts to targets whose connections are gone, and whose descriptors
// others have.
func testCastEnded(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	var old []engine.Target
	for range 5 {
		p := s.connect(t)
		old = append(old, p.target(t))
		_ = p.Close()
	}
	s.eventually(t, "all are closed", func() bool { return s.closed.Load() == 5 })
	for range 5 {
		p := s.connect(t)
		p.target(t)
		for _, target := range old {
			if !s.cast([]engine.Target{target}, "cast")[target] {
				t.Errorf("Cast has found %v, whose connection has ended", target)
			}
		}
		p.ask(t, "echo x", "x")
	}
}

// testPromptTarget prompts connections by their Targets, if the engine has Targets.
func testPromptTarget(t *testing.T, f *fixture) {
	a := newAcceptor()
	s := f.start(t, a, options())
	p, other := s.connect(t), s.connect(t)
	target, old := p.target(t), other.target(t)
	_ = other.Close()
	s.eventually(t, "one is closed", func() bool { return s.closed.Load() == 1 })
	a.nudged.Store(true)
	s.engine.Prompt(engine.Target{})
	s.engine.Prompt(old)
	if target == (engine.Target{}) {
		return
	}
	another := s.connect(t) // on the descriptor of the closed one
	for range 3 {
		s.engine.Prompt(old)
		s.engine.Prompt(target)
		p.expect(t, "nudged")
	}
	p.ask(t, "echo x", "x")
	another.ask(t, "echo x", "x")
}

// testCastBlocked casts more than there is room for.
func testCastBlocked(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	p.holdLittle(t)
	target := p.target(t)
	s.eventuallyIdle(t, 1)
	text := patternText(much)
	if s.cast([]engine.Target{target}, text)[target] {
		return // nothing was sent
	}
	p.expect(t, text)
	s.eventuallyIdle(t, 1) // although the protocol was asked for nothing
	if s.cast([]engine.Target{target}, text)[target] {
		t.Fatal("a connection that is idle again was missed")
	}
	for range 3 {
		if !s.cast([]engine.Target{target}, "too much")[target] {
			t.Fatal("Cast has sent while output waits for room")
		}
	}
	p.sendLater(frames("echo x"))
	p.expect(t, text, "x")
	s.eventuallyIdle(t, 1)
	if s.cast([]engine.Target{target}, "again")[target] {
		t.Error("a connection that is idle again was missed")
	} else {
		p.expect(t, "again")
	}
	if s.cast([]engine.Target{target}, text)[target] {
		t.Error("a connection that is idle again was missed")
	}
	_ = p.Close() // with output that waits
	s.eventually(t, "Closed", func() bool { return s.closed.Load() == 1 })
}

// testCastAgainstAll casts numbers from several goroutines while peers ask, end and
// come back, connections are given away, and the server shuts down. Each peer gets
// its answers, and numbers of each caster that only grow.
func testCastAgainstAll(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.idle = 50 * time.Millisecond // some of them end
	s := f.start(t, a, options())
	b := newAcceptor()
	b.idle = a.idle
	next := f.start(t, b, options())
	var mu sync.Mutex
	targets := make(map[engine.Target]bool)
	var over atomic.Bool
	var sent, visits atomic.Int64
	var all sync.WaitGroup
	for caster := range 2 {
		all.Go(func() {
			for number := 0; !over.Load(); number++ {
				mu.Lock()
				var to []engine.Target
				for target := range targets {
					to = append(to, target)
				}
				mu.Unlock()
				missed := s.cast(to, fmt.Sprintf("cast %d %d", caster, number))
				sent.Add(int64(len(to) - len(missed)))
				pause()
			}
		})
	}
	note := func(target engine.Target) {
		mu.Lock()
		defer mu.Unlock()
		targets[target] = true
	}
	for range 4 {
		all.Go(func() {
			for !over.Load() {
				if err := s.listen(note); err != nil {
					t.Error(err)
					return
				}
				visits.Add(1)
			}
		})
	}
	for range 5 {
		s.eventually(t, "clients come and go", func() bool { return visits.Load() >= 20 || t.Failed() })
		visits.Store(0)
		s.engine.DetachIdle(2, func(c net.Conn, p engine.Parcel) {
			_ = next.engine.AdoptConn(c, p, next.handler) // its peer may have gone
		})
	}
	s.shutdown(t)          // while casts go on
	_ = s.listener.Close() // resets connections that were not accepted
	over.Store(true)
	all.Wait()
	t.Logf("%d casts were sent", sent.Load())
}

// listen is a client that asks a few times, and looks at what is cast meanwhile. It
// returns an error for output that must not be; the connection may end at any time.
func (s *server) listen(note func(engine.Target)) error {
	c, err := s.dial()
	if err != nil {
		return nil
	}
	defer c.Close()
	p := newLonePeer(s, c)
	last := map[string]int{}
	for round := range 20 {
		command, want := "echo x", "x"
		if round == 0 {
			command, want = "target", "known"
		}
		if round == 10 && rand.IntN(8) == 0 { // wait for the deadline
			want = "timeout"
		} else if _, err := p.Write(frames(command)); err != nil {
			return nil
		}
		for {
			got, err := p.receive()
			if err == io.ErrUnexpectedEOF {
				return fmt.Errorf("round %d: half a frame", round)
			}
			if err != nil || got == "timeout" {
				return nil
			}
			if got == want {
				break
			}
			var caster string
			var number int
			if n, _ := fmt.Sscanf(got, "cast %s %d", &caster, &number); n != 2 || strings.Contains(got, ":") {
				return fmt.Errorf("round %d: got %s, want %s", round, shortened(got), want)
			}
			if before, ok := last[caster]; ok && number <= before {
				return fmt.Errorf("caster %s: %d after %d", caster, number, before)
			}
			last[caster] = number
		}
		if round == 0 {
			s.mu.Lock()
			target := s.target // perhaps that of another one, which does no harm
			s.mu.Unlock()
			note(target)
		}
	}
	return nil
}
