package enginetest

import (
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A parting is what sessions do when the engine shuts down.
type parting uint8

const (
	partsSilently parting = iota // they do not declare SaysGoodbye
	partsPolitely                // they say "goodbye", and end after the next request
	partsShyly                   // they declare it, and say nothing
)

// goodbyeScenarios are for Protocols that end their connections themselves.
func goodbyeScenarios() []scenario {
	return []scenario{
		{"goodbye", testGoodbye, deadlines},
		{"goodbye of a crowd", testGoodbyeCrowd, deadlines | contended},
		{"goodbye without a word", testGoodbyeShy, deadlines},
		{"goodbye given up", testGoodbyeGivenUp, 0},
	}
}

// part is Prompted at Shutdown.
func (s *session) part(out []byte) ([]byte, engine.Next) {
	if s.acceptor.parting == partsShyly || s.hasSaid {
		return out, engine.Read
	}
	s.hasSaid = true
	return appendFrame(out, "goodbye"), engine.Read
}

// testGoodbye has connections that wait, that are in a Run and within a frame when
// Shutdown begins. Each says goodbye when it is idle, and serves another request.
func testGoodbye(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.parting = partsPolitely
	s := f.start(t, a, options())
	fresh, used, busy, partial := s.connect(t), s.connect(t), s.connect(t), s.connect(t)
	used.ask(t, "echo x", "x")
	partial.send(t, frames("echo x")[:3])
	s.eventually(t, "input was taken", func() bool { return s.fed.Load() == int64(len(frames("echo x"))+3) })
	busy.send(t, frames("wait here"))
	s.awaitGate(t, "here")
	s.eventually(t, "the others wait", func() bool { return s.stats() == engine.Stats{Open: 4, Active: 2} })
	done := s.beginShutdown(t)
	for _, p := range []*peer{fresh, used} {
		p.expect(t, "goodbye")
	}
	s.gate("here").release()
	busy.expect(t, "waited", "goodbye")
	partial.send(t, frames("echo x")[3:])
	partial.expect(t, "x", "goodbye")
	select {
	case <-done:
		t.Error("Shutdown did not wait")
	default:
	}
	for _, p := range []*peer{fresh, used, busy, partial} {
		p.ask(t, "echo last", "last")
		p.expectEnd(t)
	}
	<-done
	for _, err := range s.closeErrors() {
		if err != nil {
			t.Errorf("Closed(%v) after an orderly end", err)
		}
	}
}

// testGoodbyeCrowd has requests arrive while the connections say goodbye.
func testGoodbyeCrowd(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.parting = partsPolitely
	s := f.start(t, a, options())
	const count = 40
	var peers []*peer
	for range count {
		p := s.connect(t)
		p.ask(t, "echo x", "x")
		peers = append(peers, p)
	}
	done := s.beginShutdown(t)
	for i, p := range peers {
		sent := p.sendLater(frames("echo y"))
		for got := ""; got != "goodbye"; {
			var err error
			if got, err = p.receive(); err != nil {
				t.Fatalf("connection %d: %v%s", i, err, p.state(err))
			}
			if got != "y" && got != "goodbye" {
				t.Fatalf("connection %d: %q", i, got)
			}
		}
		if err := <-sent; err != nil {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	for _, p := range peers {
		_ = p.Close()
	}
	<-done
}

// testGoodbyeShy has a Protocol that is still idle after it was prompted.
func testGoodbyeShy(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.parting = partsShyly
	s := f.start(t, a, briefOptions())
	fresh, used := s.connect(t), s.connect(t)
	used.ask(t, "echo x", "x")
	s.eventuallyIdle(t, 2)
	s.shutdown(t)
	fresh.expectEnd(t)
	used.expectEnd(t)
}

// testGoodbyeGivenUp has peers that do not react.
func testGoodbyeGivenUp(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.parting = partsPolitely
	s := f.start(t, a, options())
	used := s.connect(t)
	s.connect(t)
	used.ask(t, "echo x", "x")
	s.eventuallyIdle(t, 2)
	s.giveUp(t)
	s.eventually(t, "Closed", func() bool { return s.closed.Load() == 2 })
}
