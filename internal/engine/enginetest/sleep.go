package enginetest

import (
	"fmt"
	"testing"
	"time"
)

// sleepScenarios are for sessions that sleep, although nothing in them needs an
// engine to let them: what a connection was told holds on, however it waits.
func sleepScenarios() []scenario {
	return []scenario{
		{"write timeout holds on", testWriteTimeoutHoldsOn, deadlines | buffered | waits},
		{"deadline holds on", testDeadlineHoldsOn, deadlines | waits},
		{"memory holds on", testMemoryHoldsOn, contended},
		{"idle and reset", testIdleReset, buffered},
		{"sleep is refused", testSleepRefused, 0},
	}
}

// testWriteTimeoutHoldsOn sets the write time-out in Open alone.
func testWriteTimeoutHoldsOn(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.write = 300 * time.Millisecond
	s := f.start(t, a, options())
	p := s.connect(t)
	for range 3 {
		p.ask(t, "echo x", "x")
		s.eventuallyIdle(t, 1)
	}
	p.sendLater(frames("big 12000000"))
	s.eventually(t, "Closed", func() bool { return s.closed.Load() == 1 })
}

// testDeadlineHoldsOn sets deadlines of different length, one for each
// connection.
func testDeadlineHoldsOn(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.idle = time.Hour
	s := f.start(t, a, options())
	var peers []*peer
	for _, milliseconds := range []int{120, 60, 240, 30} {
		p := s.connect(t)
		p.ask(t, "echo x", "x")
		p.ask(t, fmt.Sprint("idle ", milliseconds), "patient")
		peers = append(peers, p)
	}
	for _, p := range peers {
		p.expect(t, "timeout")
		p.expectEnd(t)
	}
}

// testMemoryHoldsOn has many connections wait in turns, each with something of
// its own that it knows.
func testMemoryHoldsOn(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	const count = 20
	var peers []*peer
	for i := range count {
		p := s.connect(t)
		p.ask(t, fmt.Sprint("token t", i), "known")
		peers = append(peers, p)
	}
	for range 5 {
		s.eventuallyIdle(t, count)
		for i, p := range peers {
			p.ask(t, "who", fmt.Sprint("t", i))
		}
	}
	if f.network.sleeps {
		t.Logf("%s: slept %d times", s.engine.Name(), s.slept.Load())
	}
}

// testSleepRefused has a session refuse to sleep twice: it then serves the next
// requests itself, and sleeps after them.
func testSleepRefused(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	p.ask(t, "echo x", "x")
	s.eventuallyIdle(t, 1)
	p.ask(t, "awake 2", "awake")
	asks := s.slept.Load() > 0 // not every engine does
	for _, refused := range []string{"1", "2", "0"} {
		s.eventuallyIdle(t, 1)
		if !asks {
			refused = "0"
		}
		p.ask(t, "refused", refused)
	}
	s.eventuallyIdle(t, 1)
	p.ask(t, "echo x", "x")
}

// testIdleReset has idle connections reset by their peers.
func testIdleReset(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	for i := range 10 {
		p := s.connect(t)
		p.ask(t, "echo x", "x")
		if i%2 == 0 {
			s.eventuallyIdle(t, 1)
		}
		p.reset()
		s.eventually(t, "Closed", func() bool { return s.closed.Load() == int64(i+1) })
	}
}
