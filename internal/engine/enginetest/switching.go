package enginetest

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
)

// switchScenarios are for connections that change their Protocol.
func switchScenarios() []scenario {
	return []scenario{
		{"switch", testSwitch, 0},
		{"switch behind much output", testSwitchBlocked, 0},
		{"switch when prompted", testSwitchPrompted, 0},
		{"switch and end", testSwitchEnds, 0},
		{"switched connections stay", testSwitchedStay, moves},
		{"switch against detach idle", testSwitchAgainstDetach, moves | contended},
	}
}

// switching is the answer to "switch 0".
const switching = "switching"

// testSwitch has input follow the switch in the same read, in pieces, and after
// the connection was idle.
func testSwitch(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	p.sendLater(frames("echo x", "switch 0", "rank", "switch 0", "switch 0", "rank", "echo y"))
	p.expect(t, "x", switching, "1", switching, switching, "3", "y")
	go func() {
		for _, b := range frames("switch 0", "rank") {
			_, _ = p.Write([]byte{b})
		}
	}()
	p.expect(t, switching, "4")
	for rank := range 3 {
		s.eventuallyIdle(t, 1)
		p.ask(t, "rank", fmt.Sprint(4+rank))
		s.eventuallyIdle(t, 1)
		p.ask(t, "switch 0", switching)
	}
	// Many in one read are no recursion without an end.
	const many = 1000
	p.sendLater([]byte(strings.Repeat(string(frames("switch 0")), many) + string(frames("rank"))))
	for range many {
		p.expect(t, switching)
	}
	p.expect(t, fmt.Sprint(7+many))
}

// testSwitchBlocked has the successor wait until the peer has taken what its
// predecessor has said.
func testSwitchBlocked(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	const much = 12 << 20
	p.sendLater(frames(fmt.Sprint("switch ", much), "rank", "switch 0", "rank"))
	p.expect(t, patternText(much), "1", switching, "2")
	p.ask(t, "rank", "2")
}

// testSwitchPrompted switches because of a prompt, on a connection that is idle
// and on one that has input.
func testSwitchPrompted(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	p.ask(t, "note key", "noted")
	n := s.note("key")
	n.answers(func(_ *session, out []byte) ([]byte, engine.Next) {
		return appendFrame(out, switching), engine.Switch
	})
	for rank := range 3 {
		s.eventuallyIdle(t, 1)
		n.prompt()
		p.expectSaid(t, f, switching)
		p.ask(t, "rank", fmt.Sprint(rank+1))
	}
}

// testSwitchEnds ends connections that have switched, in every way.
func testSwitchEnds(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.detached = echoUntilEnd
	s := f.start(t, a, briefOptions())
	for _, command := range []string{"close", "linger", "abort"} {
		p := s.connect(t)
		p.sendLater(frames("switch 0", command))
		p.expect(t, switching)
		_, _ = io.Copy(io.Discard, p)
		_ = p.Close()
		s.eventually(t, "Closed", func() bool { return s.closed.Load() == s.opened.Load() })
	}
	p := s.connect(t)
	p.sendLater(append(frames("switch 0", "detach"), "raw"...))
	p.expect(t, switching, "detaching")
	p.exchange(t, "raw", "more")
	_ = p.Close()
	gone := s.connect(t)
	gone.ask(t, "switch 0", switching)
	_ = gone.Close()
	s.eventually(t, "Closed", func() bool { return s.closed.Load() == s.opened.Load() })
	s.connect(t).ask(t, "switch 0", switching)
	s.shutdown(t)
	if opened, closed := s.opened.Load(), s.closed.Load(); opened != closed {
		t.Errorf("%d were opened, %d closed", opened, closed)
	}
}

// testSwitchedStay wants connections that have switched for another process.
func testSwitchedStay(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	p.ask(t, "switch 0", switching)
	for range 3 {
		s.eventuallyIdle(t, 1)
		if n := s.engine.DetachIdle(-1, func(c net.Conn, _ engine.Parcel) { _ = c.Close() }); n != 0 {
			t.Fatalf("%d connections were given away", n)
		}
		p.ask(t, "rank", "1")
	}
}

// testSwitchAgainstDetach wants connections while they switch: each either goes
// before, or stays.
func testSwitchAgainstDetach(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	successor := f.start(t, newAcceptor(), options())
	var given, stayed atomic.Int64
	take := successor.adopt(t)
	for range 20 {
		const count = 8
		var all sync.WaitGroup
		for range count {
			p := s.connect(t)
			p.ask(t, "rank", "0")
			all.Go(func() {
				// The successor process has a session with rank 0 of its own.
				p.sendLater(frames("switch 0", "rank"))
				p.expect(t, switching, "1")
			})
		}
		all.Go(func() {
			given.Add(int64(s.engine.DetachIdle(-1, take)))
		})
		all.Wait()
		stayed.Add(int64(s.stats().Open))
	}
	t.Logf("%d were given away, %d looks at those that stayed", given.Load(), stayed.Load())
	if n := s.engine.DetachIdle(-1, take); n != 0 {
		t.Errorf("%d connections were given away after they had switched", n)
	}
}
