package enginetest

import (
	"strconv"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

func runScenarios() []scenario {
	return []scenario{
		{"read in Run", testReadInRun, 0},
		{"fill in Run", testFillInRun, 0},
		{"end of input in Run", testEndInRun, halfClose},
		{"blocking conn", testBlockingConn, 0},
		{"blocking conn closed", testBlockingClosed, 0},
		{"many wait in Run", testManyWaitInRun, contended},
		{"peer gone", testPeerGone, contended},
		{"peer stays", testPeerStays, contended},
		{"peer gone and read", testPeerGoneAndRead, 0},
		{"peer goes after the last byte", testPeerGoesBehindInput, 0},
		{"goexit in Run", testGoexit, contended},
		{"locked thread in Run", testLockedThread, contended},
	}
}

// testReadInRun sends bodies with the frame, after it, and half of each.
func testReadInRun(t *testing.T, f *fixture) { testBodies(t, f, "read") }

// testFillInRun is testReadInRun with the engine's buffer.
func testFillInRun(t *testing.T, f *fixture) { testBodies(t, f, "fill") }

func testBodies(t *testing.T, f *fixture, command string) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	body := pattern(20_000)
	for _, first := range []int{0, 1, 2, 1000, 5000, 19_999, 20_000} {
		sent := make(chan error, 1)
		runs := s.runs.Load()
		go func() {
			_, err := p.Write(append(frames(command+" 20000"), body[:first]...))
			for end := time.Now().Add(patience); s.runs.Load() == runs && time.Now().Before(end); {
				pause()
			}
			if err == nil && first < len(body) {
				_, err = p.Write(append(body[first:len(body):len(body)], frames("echo next")...))
			} else if err == nil {
				_, err = p.Write(frames("echo next"))
			}
			sent <- err
		}()
		p.expect(t, digest(body), "next")
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
}

func testEndInRun(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	for _, command := range []string{"read 100", "fill 100"} {
		p := s.connect(t)
		p.send(t, append(frames(command), "0123456789"...))
		p.closeWrite(t)
		p.expect(t, "read 10: EOF")
		p.expectEnd(t)
	}
}

func testBlockingConn(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	body := patternText(5000)
	for _, now := range []int{0, 100, 5000} {
		sent := make(chan error, 1)
		runs := s.runs.Load()
		go func() {
			_, err := p.Write(append(frames("blocking echo 5000"), body[:now]...))
			for end := time.Now().Add(patience); s.runs.Load() == runs && time.Now().Before(end); {
				pause()
			}
			if err == nil {
				_, err = p.Write(append([]byte(body[now:]), frames("echo next")...))
			}
			sent <- err
		}()
		p.expect(t, body, "next")
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
}

func testBlockingClosed(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	p.ask(t, "blocking close", "closed")
	p.expectEnd(t)
}

// testManyWaitInRun has more sessions block than there is anything of.
func testManyWaitInRun(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	const count = 100
	var peers []*peer
	for i := range count {
		p := s.connect(t)
		peers = append(peers, p)
		key := strconv.Itoa(i)
		p.send(t, frames("wait "+key))
		s.awaitGate(t, key)
	}
	s.connect(t).ask(t, "echo x", "x")
	if stats := s.stats(); stats.Active < count {
		t.Errorf("Stats with %d in Run: %+v", count, stats)
	}
	s.releaseAll()
	for _, p := range peers {
		p.expect(t, "waited")
		p.ask(t, "echo x", "x")
	}
}

func testPeerGone(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	for range 3 {
		a := s.acceptor
		p := s.connect(t)
		p.ask(t, "echo x", "x")
		p.send(t, frames("gone await leaving"))
		s.awaitGate(t, "leaving")
		_ = p.Close()
		before := a.opened.Load()
		s.eventually(t, "Closed", func() bool { return a.closed.Load() == before })
		a.mu.Lock()
		delete(a.gates, "leaving")
		a.mu.Unlock()
	}
}

// testPeerStays sends a request during Run, which must not be lost, nor taken
// for the peer's end.
func testPeerStays(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	for _, key := range []string{"a", "b"} {
		p.send(t, frames("gone gate "+key))
		s.awaitGate(t, key)
		sent := p.sendLater(frames("echo one", "echo two"))
		if f.offers(buffered) {
			<-sent
		}
		s.gate(key).release()
		p.expect(t, "quiet", "one", "two")
	}
	p.ask(t, "echo x", "x")
}

func testPeerGoneAndRead(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	body := pattern(5000)
	for _, first := range []int{0, 10, 5000} {
		sent := make(chan error, 1)
		runs := s.runs.Load()
		go func() {
			_, err := p.Write(append(frames("gone read 5000"), body[:first]...))
			for end := time.Now().Add(patience); s.runs.Load() == runs && time.Now().Before(end); {
				pause()
			}
			if err == nil {
				_, err = p.Write(append(body[first:len(body):len(body)], frames("echo next")...))
			}
			sent <- err
		}()
		p.expect(t, digest(body), "quiet", "next")
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
}

// testPeerGoesBehindInput leaves unread input in front of the FIN.
func testPeerGoesBehindInput(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	p.send(t, frames("gone await here"))
	s.awaitGate(t, "here")
	p.send(t, frames("echo unread"))
	_ = p.Close()
	s.eventually(t, "Closed", func() bool { return s.closed.Load() == 1 })
}

func testGoexit(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	for i := range 20 {
		p := s.connect(t)
		p.ask(t, "echo x", "x")
		p.send(t, frames("goexit"))
		p.expectGone(t)
		s.eventually(t, "Closed", func() bool { return s.closed.Load() == int64(i+1) })
		if s.closeErrors()[i] == nil {
			t.Error("Closed(nil) after Goexit")
		}
	}
	s.connect(t).ask(t, "echo x", "x")
	s.eventually(t, "one is left", func() bool { return s.stats() == engine.Stats{Open: 1} })
}

// testLockedThread runs a handler that forgets to unlock its thread.
func testLockedThread(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	for range 3 {
		p.ask(t, "lock", "locked")
	}
	sent := p.sendLater(frames("lock", "lock", "lock", "lock", "echo x"))
	p.expect(t, "locked", "locked", "locked", "locked", "x")
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}
