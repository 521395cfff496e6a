package enginetest

import (
	"crypto/tls"
	"io"
	"net"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
)

func handoverScenarios() []scenario {
	return []scenario{
		{"detach", testDetach, 0},
		{"detach after a background read", testDetachAfterPeerGone, 0},
		{"start detaches", testStartDetaches, 0},
		{"detach idle", testDetachIdle, moves | contended},
		{"detach idle one by one", testDetachIdleLimit, moves},
		{"detach partial heads", testDetachPartial, moves},
		{"detach idle where nothing is given", testDetachIdleStays, 0},
		{"serve conn", testServeConn, 0},
		{"serve conn detaches", testServeConnDetaches, 0},
	}
}

// echoUntilEnd answers raw bytes until the peer closes.
func echoUntilEnd(c net.Conn) {
	_, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c})
	_ = c.Close()
}

func testDetach(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.detached = echoUntilEnd
	s := f.start(t, a, options())
	for _, extra := range []string{"", "raw bytes"} {
		p := s.connect(t)
		sent := p.sendLater(append(frames("echo x", "detach"), extra...))
		p.expect(t, "x", "detaching")
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		p.exchange(t, extra, "more", "and more")
		s.eventually(t, "the engine has forgotten it", func() bool { return s.stats().Open == 0 })
		if n := s.closed.Load(); n != s.opened.Load()-1 {
			t.Errorf("Closed was called %d times before Detached returned", n)
		}
		_ = p.Close()
		s.eventually(t, "Closed", func() bool { return s.closed.Load() == s.opened.Load() })
	}
	// A detached connection outlives the engine.
	p := s.connect(t)
	p.ask(t, "detach", "detaching")
	s.eventually(t, "the engine has forgotten it", func() bool { return s.stats().Open == 0 })
	s.shutdown(t)
	p.exchange(t, "", "still there")
	_ = p.Close()
}

// exchange expects raw bytes to come back: the first of texts was sent before.
func (p *peer) exchange(t *testing.T, texts ...string) {
	t.Helper()
	for i, text := range texts {
		if i > 0 {
			p.send(t, []byte(text))
		}
		got := make([]byte, len(text))
		if _, err := io.ReadFull(p.in, got); err != nil || string(got) != text {
			t.Fatalf("got %q and %v, want %q", got, err, text)
		}
	}
}

// testDetachAfterPeerGone detaches with input that was read in the background.
func testDetachAfterPeerGone(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.detached = echoUntilEnd
	s := f.start(t, a, options())
	p := s.connect(t)
	p.send(t, frames("gone gate here"))
	s.awaitGate(t, "here")
	sent := p.sendLater(append(frames("detach"), "raw bytes"...))
	if f.offers(buffered) {
		<-sent
	}
	s.gate("here").release()
	p.expect(t, "quiet", "detaching")
	p.exchange(t, "raw bytes", "more")
	_ = p.Close()
}

func testStartDetaches(t *testing.T, f *fixture) {
	next := engine.Detach
	a := newAcceptor()
	a.start = &next
	a.detached = func(c net.Conn) {
		_, _ = io.WriteString(c, "welcome")
		echoUntilEnd(c)
	}
	s := f.start(t, a, options())
	p := s.connect(t)
	p.exchange(t, "welcome", "hello")
	_ = p.Close()
}

func testDetachIdle(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	successor := f.start(t, newAcceptor(), options())
	idle, fresh, partial, busy := s.connect(t), s.connect(t), s.connect(t), s.connect(t)
	idle.ask(t, "echo x", "x")
	// Each step waits for the last one: a connection that is just being opened,
	// or has just answered, counts as active too.
	s.eventually(t, "all idle", func() bool { return s.stats() == engine.Stats{Open: 4} })
	busy.send(t, frames("wait here"))
	s.awaitGate(t, "here")
	partial.send(t, frames("echo x")[:3])
	s.eventually(t, "Stats", func() bool { return s.stats() == engine.Stats{Open: 4, Active: 2} })
	if count := s.engine.DetachIdle(-1, successor.adopt(t)); count != 2 {
		t.Fatalf("DetachIdle gave %d connections away, want 2", count)
	}
	if stats := s.stats(); stats.Open != 2 {
		t.Errorf("Stats after DetachIdle: %+v", stats)
	}
	if departed, released := s.departed.Load(), s.released.Load(); departed != 2 || released != 2 {
		t.Errorf("%d departed, %d released, want 2", departed, released)
	}
	idle.ask(t, "echo y", "y")
	fresh.ask(t, "echo z", "z")
	partial.send(t, frames("echo x")[3:])
	partial.expect(t, "x")
	s.gate("here").release()
	busy.expect(t, "waited")
	if n := successor.runs.Load(); n != 2 {
		t.Errorf("the successor ran %d requests, want 2", n)
	}
	_ = idle.Close()
	_ = fresh.Close()
	for _, err := range s.closeErrors() {
		if err != nil {
			t.Errorf("Closed(%v) of a connection given away", err)
		}
	}
}

// adopt returns a take for DetachIdle that has s serve the connection on.
func (s *server) adopt(t *testing.T) func(c net.Conn, p engine.Parcel) {
	return func(c net.Conn, p engine.Parcel) {
		switch c.(type) {
		case *net.TCPConn, *net.UnixConn:
		default:
			t.Errorf("DetachIdle gave a %T away", c)
		}
		err := s.engine.AdoptConn(c, p, s.handler)
		clear(p.Leftover) // it is copied
		clear(p.State)
		clear(p.TLS)
		if err != nil {
			t.Errorf("AdoptConn: %v", err)
		}
	}
}

// testDetachIdleLimit gives some connections away, then the others.
func testDetachIdleLimit(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	successor := f.start(t, newAcceptor(), options())
	var peers []*peer
	for range 5 {
		peers = append(peers, s.connect(t))
		peers[len(peers)-1].ask(t, "echo x", "x")
	}
	s.eventuallyIdle(t, 5)
	left := 5
	for _, step := range []struct{ limit, want int }{{0, 0}, {2, 2}, {1, 1}, {10, 2}, {-1, 0}} {
		if n := s.engine.DetachIdle(step.limit, successor.adopt(t)); n != step.want {
			t.Errorf("DetachIdle(%d) gave %d connections away, want %d", step.limit, n, step.want)
		}
		left -= step.want
		s.eventuallyIdle(t, left)
	}
	for _, p := range peers {
		p.ask(t, "echo y", "y")
	}
	if n := successor.runs.Load(); n != 5 {
		t.Errorf("the successor ran %d requests, want 5", n)
	}
}

// testDetachPartial gives connections away in the middle of a head, with what has
// come of it, and leaves those that are further.
func testDetachPartial(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.rewinds = true
	s, next := f.start(t, a, options()), newAcceptor()
	next.rewinds = true
	successor := f.start(t, next, options())
	head, body, later := s.connect(t), s.connect(t), s.connect(t)
	text := frames("echo 0123456789")
	for _, p := range []*peer{head, body, later} {
		p.ask(t, "echo x", "x")
	}
	s.eventuallyIdle(t, 3)
	head.send(t, text[:1])
	body.send(t, text[:8])
	s.eventually(t, "two have begun", func() bool { return s.stats() == engine.Stats{Open: 3, Active: 2} })
	// Active are also those that are being read from: they go the next time.
	count := 0
	s.eventually(t, "head and later are given away", func() bool {
		count += s.engine.DetachIdle(-1, successor.adopt(t))
		return count == 2
	})
	// Once more, with a part that has come in two pieces.
	later.send(t, text[:1])
	successor.eventually(t, "they are given back", func() bool {
		count -= successor.engine.DetachIdle(-1, s.adopt(t))
		return count == 0
	})
	s.eventually(t, "all are back", func() bool { return s.stats().Open == 3 })
	head.send(t, text[1:])
	later.send(t, text[1:])
	body.send(t, text[8:])
	for _, p := range []*peer{head, body, later} {
		p.expect(t, "0123456789")
		p.ask(t, "echo y", "y")
	}
	if n := successor.runs.Load(); n != 0 {
		t.Errorf("the successor ran %d requests of connections that it gave back", n)
	}
}

// testDetachIdleStays has connections that are more than sockets, or whose
// ServeConn somebody waits for.
func testDetachIdleStays(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	var p *peer
	served := make(chan error, 1)
	if f.offers(moves) {
		end, client := f.pair(t)
		go func() { served <- s.engine.ServeConn(end, nil, s.handler) }()
		p = newPeer(t, s, client)
	} else {
		p = s.connect(t)
		served <- nil
	}
	p.ask(t, "echo x", "x")
	s.eventuallyIdle(t, 1)
	if n := s.engine.DetachIdle(-1, func(net.Conn, engine.Parcel) {}); n != 0 {
		t.Errorf("%d connections were given away", n)
	}
	p.ask(t, "echo y", "y")
	_ = p.Close()
	if err := <-served; err != nil {
		t.Errorf("ServeConn: %v", err)
	}
}

// pair returns the two ends of a connection that no engine has accepted.
func (f *fixture) pair(t *testing.T) (end, client net.Conn) {
	t.Helper()
	ln, dial, err := f.network.listen(t)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := ln.Accept()
		if c, ok := c.(*tls.Conn); ok {
			_ = c.Handshake() // as the dialler waits for
		}
		accepted <- c
	}()
	client, err = dial("")
	end = <-accepted
	if err != nil || end == nil {
		t.Fatal("cannot connect: ", err)
	}
	return end, client
}

func testServeConn(t *testing.T, f *fixture) {
	ln, dial, err := f.network.listen(t)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	s := f.start(t, newAcceptor(), options())
	input := frames("echo x", "echo y", "echo z")
	for split := range input {
		accepted := make(chan net.Conn, 1)
		go func() {
			c, err := ln.Accept()
			if err == nil {
				accepted <- c
			}
		}()
		dialled := make(chan net.Conn, 1)
		go func() {
			if c, err := dial(""); err == nil {
				dialled <- c
			}
		}()
		end := <-accepted
		served := make(chan error, 1)
		go func() { served <- s.engine.ServeConn(end, input[:split], s.handler) }()
		p := newPeer(t, s, <-dialled)
		sent := p.sendLater(input[split:])
		p.expect(t, "x", "y", "z")
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		_ = p.Close()
		if err := <-served; err != nil {
			t.Errorf("ServeConn: %v", err)
		}
	}
}

// testServeConnDetaches: ServeConn returns before Detached does.
func testServeConnDetaches(t *testing.T, f *fixture) {
	a := newAcceptor()
	hasReturned := make(chan struct{})
	a.detached = func(c net.Conn) { <-hasReturned; echoUntilEnd(c) }
	s := f.start(t, a, options())
	for range 3 { // what served one connection may serve the next one
		end, client := f.pair(t)
		served := make(chan error, 1)
		go func() { served <- s.engine.ServeConn(end, nil, s.handler) }()
		p := newPeer(t, s, client)
		sent := p.sendLater(append(frames("echo x", "detach"), "raw bytes"...))
		p.expect(t, "x", "detaching")
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		if err := <-served; err != nil {
			t.Errorf("ServeConn: %v", err)
		}
		if n := s.closed.Load(); n != s.opened.Load()-1 {
			t.Errorf("Closed was called %d times before Detached returned", n)
		}
		hasReturned <- struct{}{}
		p.exchange(t, "raw bytes", "more")
		_ = p.Close()
		s.eventually(t, "Closed", func() bool { return s.closed.Load() == s.opened.Load() })
	}
}
