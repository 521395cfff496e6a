package enginetest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

func closeScenarios() []scenario {
	return []scenario{
		{"close", testClose, 0},
		{"close with input left", testCloseWithInput, buffered},
		{"close with later input left", testCloseWithLaterInput, buffered},
		{"linger", testLinger, halfClose | buffered},
		{"linger is bounded", testLingerBounded, halfClose | buffered},
		{"abort", testAbort, 0},
		{"peer closes", testPeerCloses, 0},
		{"half-close with answers pending", testHalfClose, halfClose},
		{"FIN with data", testFINWithData, halfClose | contended},
		{"half-close within a frame", testHalfCloseWithin, halfClose},
		{"reset", testReset, buffered},
		{"reset with data", testResetWithData, buffered | contended},
		{"peer closes while it is written to", testPeerClosesWhileWriting, 0},
	}
}

func testClose(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	for i, command := range []string{"close", "close quietly"} {
		p := s.connect(t)
		sent := p.sendLater(frames("echo x", command))
		p.expect(t, "x", "closing")
		p.expectEnd(t)
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		s.eventually(t, "Closed", func() bool { return s.closed.Load() == int64(i+1) })
		if err := s.closeErrors()[i]; err != nil {
			t.Errorf("%s: Closed(%v) after an orderly end", command, err)
		}
	}
}

// testCloseWithInput closes while input is unread, both in the engine's hands
// and in the socket: the answer must not be lost to a reset.
func testCloseWithInput(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	for _, extra := range []int{1, 3000, 1 << 20} {
		p := s.connect(t)
		sent := p.sendLater(append(frames("echo x", "close"), pattern(extra)...))
		<-sent // all of it, or as much as a linger takes
		p.expect(t, "x", "closing")
		p.expectEnd(t)
		_ = p.Close()
	}
}

// testCloseWithLaterInput closes after an answer during which more input has arrived,
// which is never read. The end of the answer must not be lost to a reset.
func testCloseWithLaterInput(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	p.send(t, frames("wait gate", "close"))
	s.awaitGate(t, "gate")
	p.send(t, pattern(3000))
	s.gate("gate").release()
	p.expect(t, "waited", "closing")
	p.expectEnd(t)
	long := fmt.Sprint("big ", fillingSize)
	for _, commands := range [][]string{{long}, {long, long}} {
		p := s.connect(t)
		before := s.runs.Load()
		p.send(t, frames(append(commands, "close")...))
		s.settles(t, "the engine waits for the client", func() int64 { return s.runs.Load() - before })
		p.send(t, pattern(3000))
		for range commands {
			p.expect(t, string(pattern(fillingSize)))
		}
		p.expect(t, "closing")
		p.expectEnd(t)
	}
}

func testLinger(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	p.ask(t, "linger", "lingering")
	p.expectEnd(t) // half-closed: the server still reads
	if stats := s.stats(); stats.Open != 1 {
		t.Errorf("Stats while lingering: %+v", stats)
	}
	if !f.offers(handshakes) {
		p.send(t, pattern(1<<20))
	}
	p.closeWrite(t)
	_ = p.Close()
	s.eventually(t, "Closed", func() bool { return s.closed.Load() == 1 })
}

func testLingerBounded(t *testing.T, f *fixture) {
	o := options()
	o.LingerTimeout = 30 * time.Millisecond
	s := f.start(t, newAcceptor(), o)
	p := s.connect(t)
	p.ask(t, "linger", "lingering")
	p.expectEnd(t)
	s.eventually(t, "Closed", func() bool { return s.closed.Load() == 1 })
}

func testAbort(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	p.send(t, frames("abort"))
	p.expectGone(t)
}

func testPeerCloses(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	p.ask(t, "echo x", "x")
	_ = p.Close()
	s.connect(t).Close()
	s.eventually(t, "Closed", func() bool { return s.closed.Load() == 2 })
	for _, err := range s.closeErrors() {
		if err != nil {
			t.Errorf("Closed(%v) after an orderly end", err)
		}
	}
}

func testHalfClose(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	p.send(t, frames("echo x", "big 2000000", "wait here", "echo y"))
	p.closeWrite(t)
	p.expect(t, "x", patternText(2_000_000))
	s.awaitGate(t, "here")
	s.gate("here").release()
	p.expect(t, "waited", "y")
	p.expectEnd(t)
}

// testFINWithData sends a FIN so close behind the data that both are there when
// the engine is told. One that forgets the FIN leaves the connection open.
func testFINWithData(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	rounds := 100
	if f.offers(handshakes) {
		rounds = 20
	}
	for range rounds {
		p := s.connect(t)
		p.ask(t, "echo x", "x") // from here on the engine waits
		p.send(t, frames("echo y"))
		p.closeWrite(t)
		p.expect(t, "y")
		p.expectEnd(t)
		_ = p.Close()
	}
	// And with certainty: the session holds the engine up until the FIN is there.
	// Engines may treat a connection differently that has lived for a while.
	for _, before := range []int{0, 50} {
		p := s.connect(t)
		for range before {
			p.ask(t, "echo x", "x")
		}
		gate := fmt.Sprint("behind", before)
		p.send(t, frames("wait "+gate))
		s.awaitGate(t, gate)
		p.send(t, frames("echo y"))
		p.closeWrite(t)
		s.gate(gate).release()
		p.expect(t, "waited", "y")
		p.expectEnd(t)
	}
}

func testHalfCloseWithin(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	p.send(t, append(frames("echo x"), frames("echo y")[:4]...))
	p.closeWrite(t)
	p.expect(t, "x", "truncated")
	p.expectEnd(t)
}

func testReset(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	c, err := s.dial()
	if err != nil {
		t.Fatal(err)
	}
	under := c
	if wrapper, ok := c.(interface{ NetConn() net.Conn }); ok {
		under = wrapper.NetConn()
	}
	_, _ = c.Write(frames("echo x")[:3])
	s.eventually(t, "input was taken", func() bool { return s.fed.Load() == 3 })
	if tc, ok := under.(*net.TCPConn); ok {
		_ = tc.SetLinger(0)
	}
	_ = under.Close()
	s.eventually(t, "Closed", func() bool { return s.closed.Load() == 1 })
	if _, ok := under.(*net.TCPConn); ok && s.closeErrors()[0] == nil {
		t.Error("Closed(nil) after a reset")
	}
}

// testResetWithData resets so close behind the data that both are there when the
// engine reads. Reading takes the data first and says nothing of the reset, and
// there is no other event. Nothing is written either, which would fail.
func testResetWithData(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	ended := int64(0)
	for _, before := range []int{0, 3, 50} {
		for _, first := range []string{"1", "10"} {
			p := s.connect(t)
			for range before {
				p.ask(t, "echo x", "x")
			}
			gate := fmt.Sprint("gate ", ended)
			s.feedGate.Store(s.gate(gate))
			p.send(t, []byte(first))
			s.awaitGate(t, gate)
			p.send(t, []byte("2:echo"))
			p.reset()
			s.gate(gate).release()
			ended++
			s.eventually(t, "Closed", func() bool { return s.closed.Load() == ended })
		}
	}
}

func testPeerClosesWhileWriting(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	for _, command := range []string{"big 12000000", "write 200 100000", "gather 200 100000"} {
		p := s.connect(t)
		p.sendLater(frames(command))
		if _, err := io.ReadFull(p.in, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		_ = p.Close()
	}
	s.eventually(t, "Closed", func() bool { return s.closed.Load() == 3 })
}

func deadlineScenarios() []scenario {
	return []scenario{
		{"idle deadline", testIdleDeadline, deadlines | waits},
		{"deadline within a frame", testHeadDeadline, deadlines | waits},
		{"deadline is not early", testDeadlineNotEarly, deadlines | waits},
		{"deadline that ends nothing", testTimedOutGoesOn, deadlines | waits},
		{"write timeout", testWriteTimeout, deadlines | waits},
		{"read deadline in Run", testReadDeadline, deadlines | waits},
		{"handshake timeout", testHandshakeTimeout, handshakes},
	}
}

func testIdleDeadline(t *testing.T, f *fixture) {
	for _, isUsed := range []bool{false, true} {
		a := newAcceptor()
		a.idle = time.Hour
		if !isUsed {
			a.idle = 50 * time.Millisecond
		}
		s := f.start(t, a, options())
		p := s.connect(t)
		if isUsed {
			p.ask(t, "idle 50", "patient")
		}
		p.expect(t, "timeout")
		p.expectEnd(t)
		if n := s.timeouts.Load(); n != 1 {
			t.Errorf("used: %v: TimedOut called %d times, want 1", isUsed, n)
		}
	}
}

func testHeadDeadline(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.head, a.idle = 50*time.Millisecond, time.Hour
	s := f.start(t, a, options())
	p := s.connect(t)
	p.send(t, append(frames("echo x"), frames("echo y")[:4]...))
	p.expect(t, "x", "timeout")
	p.expectEnd(t)
}

// testDeadlineNotEarly makes deadlines much longer than the ones that are set
// already, which lazy engines have to notice.
func testDeadlineNotEarly(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.head, a.idle = 100*time.Millisecond, 300*time.Millisecond
	s := f.start(t, a, options())
	for range 20 { // on a busy machine the first deadline may pass
		p := s.connect(t)
		before := s.fed.Load()
		p.send(t, frames("echo x")[:4])
		s.eventually(t, "input was taken", func() bool { return s.fed.Load() == before+4 })
		began := time.Now() // the deadline begins no earlier
		_, _ = p.Write(frames("echo x")[4:])
		if answer, _ := p.receive(); answer != "x" {
			continue
		}
		p.expect(t, "timeout")
		if waited := time.Since(began); waited < a.idle-50*time.Millisecond {
			t.Errorf("an idle deadline of %v passed after %v", a.idle, waited)
		}
		return
	}
	t.Error("no answer")
}

func testWriteTimeout(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.write = 250 * time.Millisecond
	s := f.start(t, a, options())
	for _, command := range []string{"big 12000000", "write 120 100000", "gather 120 100000"} {
		p := s.connect(t)
		p.ask(t, "echo x", "x")
		before := s.closed.Load()
		p.sendLater(frames(command))
		s.eventually(t, "Closed", func() bool { return s.closed.Load() == before+1 })
		_ = p.Close()
	}
	if err := s.closeErrors()[0]; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Closed(%v), want os.ErrDeadlineExceeded", err)
	}
}

func testReadDeadline(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.idle = time.Hour
	s := f.start(t, a, options())
	p := s.connect(t)
	p.ask(t, "readtimeout 30", "deadline")
	p.ask(t, "echo x", "x")
	p.ask(t, "readtimeout 30", "deadline")
	p.ask(t, "blocking timeout", "deadline")
	p.ask(t, "blocking interrupt", "deadline")
	p.ask(t, "readtimeout 30", "deadline")
	p.ask(t, "echo x", "x")
}

func testHandshakeTimeout(t *testing.T, f *fixture) {
	o := options()
	o.HandshakeTimeout = 30 * time.Millisecond
	s := f.start(t, newAcceptor(), o)
	hello := nettest.ClientHello(t)
	all := [][]byte{nil, hello[:1], hello[:5], hello[:len(hello)/2], hello}
	for _, sent := range all {
		c, err := net.Dial("tcp", s.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = c.Write(sent) // it may be given up by now
		if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after %d of %d bytes of the ClientHello, the handshake was not given up", len(sent), len(hello))
		}
	}
	s.eventually(t, "Release", func() bool { return s.released.Load() == int64(len(all)) })
	// Handshakes may take longer than that on a busy machine.
	s.eventually(t, "others are served", func() bool {
		c, err := s.dial()
		if err != nil {
			return false
		}
		p := newPeer(t, s, c)
		got, err := p.roundTrip("x")
		if err != nil {
			_ = p.Close()
		}
		return got == "x"
	})
	s.eventually(t, "one is left", func() bool { return s.stats() == engine.Stats{Open: 1} })
}

// testTimedOutGoesOn has deadlines pass that end nothing.
func testTimedOutGoesOn(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.idle = time.Hour
	s := f.start(t, a, options())
	p := s.connect(t)
	p.ask(t, "pings 1000000", "awaited")
	p.ask(t, "idle 30", "patient")
	p.expect(t, "ping", "ping")
	for _, step := range [][2]string{{"rank", "0"}, {"pings 1", "awaited"}} { // in between
		sent := p.sendLater(frames(step[0]))
		got, err := "ping", error(nil)
		for got == "ping" && err == nil {
			got, err = p.receive()
		}
		if got != step[1] || err != nil {
			t.Fatalf("%s: got %s and %v%s", step[0], shortened(got), err, p.state(err))
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
	p.expect(t, "ping", "timeout")
	p.expectEnd(t)
	silent := s.connect(t)
	was := s.timeouts.Load()
	silent.ask(t, "pings -1", "awaited")
	silent.ask(t, "idle 30", "patient")
	s.eventually(t, "TimedOut", func() bool { return s.timeouts.Load() == was+1 })
	time.Sleep(100 * time.Millisecond)
	if n := s.timeouts.Load() - was; n != 1 {
		t.Errorf("TimedOut called %d times for one deadline", n)
	}
	silent.ask(t, "echo x", "x")
}
