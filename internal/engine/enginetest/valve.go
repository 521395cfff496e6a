package enginetest

import (
	"bytes"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// valveScenarios are for Protocols that are Stoppers and HalfClosers, on engines that have
// Targets.
func valveScenarios() []scenario {
	return []scenario{
		{"stopped input", testStopped, deadlines},
		{"stopped input while output waits", testStoppedBlocked, deadlines},
		{"peer ends first", testPeerEndsFirst, halfClose | deadlines},
		{"output ends first", testOutputEndsFirst, halfClose | deadlines},
		{"reset of a half-closed connection", testHalfClosedReset, halfClose | bare},
	}
}

// A valve is a Protocol that keeps what it is fed. It stops after each Feed.
type valve struct {
	*session
	target engine.Target

	mu        sync.Mutex
	got       []byte
	isStopped bool
	ended     int    // calls of PeerEnded
	text      []byte // what the next Prompted says
	next      engine.Next
}

// openValve starts a server and connects; the connection's Protocol is a valve. The test is
// skipped if the engine has no Targets.
func (f *fixture) openValve(t *testing.T) (*server, *peer, *valve) {
	t.Helper()
	a := newAcceptor()
	a.valves = make(chan *valve, 1)
	s := f.start(t, a, options())
	p := s.connect(t)
	v := <-a.valves
	if v.target == (engine.Target{}) {
		_ = p.Close()
		t.Skip("the engine has no Targets")
	}
	return s, p, v
}

// Capabilities implements engine.Protocol.
func (v *valve) Capabilities() engine.Capabilities {
	return engine.CanPrompt | engine.CanStop | engine.CanHalfClose | engine.IsDuplex
}

// Feed implements engine.Protocol.
func (v *valve) Feed(in []byte) (int, engine.Next) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.isStopped {
		v.acceptor.violate("Feed called although Stops was true")
	}
	v.got = append(v.got, in...)
	v.isStopped = true
	return len(in), engine.Read
}

// Stops implements engine.Stopper.
func (v *valve) Stops() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.isStopped || v.ended > 0
}

// PeerEnded implements engine.HalfCloser.
func (v *valve) PeerEnded(out []byte) ([]byte, engine.Next) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ended++
	return out, engine.Read
}

// Pause implements engine.Protocol.
func (v *valve) Pause() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return !v.isStopped
}

// Prompted implements engine.Prompted.
func (v *valve) Prompted(out []byte) ([]byte, engine.Next) {
	v.mu.Lock()
	defer v.mu.Unlock()
	out, v.text = append(out, v.text...), nil
	next := v.next
	v.next = engine.Read
	return out, next
}

// says prompts the connection to say text, and to return next.
func (s *server) says(v *valve, text string, next engine.Next) {
	v.mu.Lock()
	v.text, v.next = append(v.text, text...), next
	v.mu.Unlock()
	s.engine.Prompt(v.target)
}

// opens makes the valve take one more piece.
func (s *server) opens(v *valve) {
	v.mu.Lock()
	v.isStopped = false
	v.mu.Unlock()
	s.engine.ReadOn(v.target)
}

func (v *valve) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.got)
}

func (v *valve) hasEnded() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.ended > 0
}

// gets opens the valve until everything has come.
func (s *server) gets(t *testing.T, v *valve, want []byte) {
	t.Helper()
	for v.count() < len(want) {
		before := v.count()
		s.opens(v)
		s.eventually(t, "the next piece", func() bool { return v.count() > before })
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !bytes.Equal(v.got, want) {
		t.Fatalf("%d bytes that differ from the %d that were sent", len(v.got), len(want))
	}
}

// expectText reads what a valve says.
func (p *peer) expectText(t *testing.T, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(p.in, got); string(got) != want {
		t.Fatalf("%s, %v, want %s", shortened(string(got[:n])), err, shortened(want))
	}
}

// testStopped has input wait, and takes it piece by piece.
func testStopped(t *testing.T, f *fixture) {
	s, p, v := f.openValve(t)
	input := []byte(patternText(1 << 20))
	sent := p.sendLater(input)
	s.eventually(t, "the first piece", func() bool { return v.count() > 0 })
	first := v.count()
	s.says(v, "still here", engine.Read) // a prompt is no reason to read
	p.expectText(t, "still here")
	time.Sleep(10 * time.Millisecond)
	if n := v.count(); n != first {
		t.Errorf("%d bytes came while it had stopped, after %d", n-first, first)
	}
	s.gets(t, v, input)
	if err := <-sent; err != nil {
		t.Error(err)
	}
	s.opens(v)
	s.eventually(t, "it is between requests", func() bool { return s.stats() == engine.Stats{Open: 1} })
	if !f.offers(handshakes) {
		if missed := s.cast([]engine.Target{v.target}, "cast"); len(missed) > 0 {
			t.Error("Cast has missed a connection that reads on and is idle")
		} else {
			p.expect(t, "cast")
		}
	}
	s.says(v, "", engine.Close)
	p.expectEnd(t)
}

// testStoppedBlocked has the peer read nothing until all of its input is used.
func testStoppedBlocked(t *testing.T, f *fixture) {
	s, p, v := f.openValve(t)
	output := patternText(much)
	s.says(v, output, engine.Read)
	if _, err := p.in.Peek(1); err != nil {
		t.Fatal(err)
	}
	input := []byte(patternText(1 << 20))
	sent := p.sendLater(input)
	s.gets(t, v, input)
	if err := <-sent; err != nil {
		t.Error(err)
	}
	p.expectText(t, output)
	s.says(v, "", engine.Close)
	p.expectEnd(t)
}

// testPeerEndsFirst has a connection go on with its output only.
func testPeerEndsFirst(t *testing.T, f *fixture) {
	s, p, v := f.openValve(t)
	p.send(t, []byte("last"))
	p.closeWrite(t)
	s.gets(t, v, []byte("last"))
	s.opens(v)
	s.eventually(t, "PeerEnded", v.hasEnded)
	for range 3 {
		s.says(v, "more", engine.Read)
		p.expectText(t, "more")
	}
	output := patternText(much)
	s.says(v, output, engine.Close)
	p.expectText(t, output)
	p.expectEnd(t)
	s.eventually(t, "Closed", func() bool { return s.closed.Load() == 1 })
}

// testOutputEndsFirst has a connection go on with its input only.
func testOutputEndsFirst(t *testing.T, f *fixture) {
	s, p, v := f.openValve(t)
	output := patternText(much)
	s.says(v, output, engine.EndOutput)
	p.expectText(t, output)
	if rest, err := io.ReadAll(p.in); len(rest) > 0 || err != nil {
		t.Fatalf("%d bytes and %v at the end", len(rest), err)
	}
	input := []byte(patternText(1 << 20))
	sent := p.sendLater(input)
	s.gets(t, v, input)
	if err := <-sent; err != nil {
		t.Error(err)
	}
	p.closeWrite(t)
	s.opens(v)
	s.eventually(t, "PeerEnded", v.hasEnded)
	s.says(v, "", engine.Close)
	s.eventually(t, "Closed", func() bool { return s.closed.Load() == 1 })
}

// testHalfClosedReset has a peer end its output and then reset the connection.
func testHalfClosedReset(t *testing.T, f *fixture) {
	s, p, v := f.openValve(t)
	p.closeWrite(t)
	s.eventually(t, "PeerEnded", v.hasEnded)
	p.reset()
	s.says(v, "lost", engine.Read)
	s.says(v, "lost", engine.Close)
	s.eventually(t, "Closed", func() bool { return s.closed.Load() == 1 })
}
