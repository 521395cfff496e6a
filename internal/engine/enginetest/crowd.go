package enginetest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/invariants"
)

func crowdScenarios() []scenario {
	return []scenario{
		{"dribbling peers among busy ones", testDribbling, contended},
		{"runs that never end", testBlockedForever, contended},
		{"storm of short connections", testStorm, contended},
		{"listener closed by its user", testListenerClosed, waits},
		{"out of descriptors", testOutOfDescriptors, buffered},
	}
}

// testDribbling has peers that send single bytes, each when the last one was
// taken, while many others are busy.
func testDribbling(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	busy, dribbling := 150, 8
	if f.offers(handshakes) || invariants.Enabled || testing.Short() {
		busy = 40
	}
	var all sync.WaitGroup
	for i := range busy {
		p := s.connect(t)
		all.Go(func() {
			for round := range 20 {
				text := fmt.Sprint("busy ", i, " ", round)
				if got, err := p.roundTrip(text); err != nil || got != text {
					t.Errorf("got %s and %v, want %q", shortened(got), err, text)
					return
				}
			}
		})
	}
	for i := range dribbling {
		p := s.connect(t)
		all.Go(func() {
			for round := range 2 {
				text := fmt.Sprint("slowly ", i, " ", round)
				for _, b := range frames("echo " + text) {
					if _, err := p.Write([]byte{b}); err != nil {
						t.Error(err)
						return
					}
					pause()
				}
				if got, err := p.receive(); err != nil || got != text {
					t.Errorf("got %s and %v, want %q", shortened(got), err, text)
					return
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.Log(s.state())
	}
	s.eventuallyIdle(t, busy+dribbling)
}

// roundTrip is ask for goroutines that are not the test's.
func (p *peer) roundTrip(text string) (string, error) {
	if _, err := p.Write(frames("echo " + text)); err != nil {
		return "", err
	}
	return p.receive()
}

// testBlockedForever has more sessions stay in Run than there is of anything.
// The others are served, and a Shutdown with a deadline gives up.
func testBlockedForever(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	const count = 64
	for i := range count {
		p := s.connect(t)
		p.ask(t, "echo x", "x")
		p.sendLater(frames(fmt.Sprint("wait ", i), "echo never"))
		s.awaitGate(t, fmt.Sprint(i))
	}
	var others sync.WaitGroup
	for range 8 {
		p := s.connect(t)
		others.Go(func() {
			for i := range 50 {
				text := fmt.Sprint("other ", i)
				if got, err := p.roundTrip(text); err != nil || got != text {
					t.Errorf("got %s and %v, want %q", shortened(got), err, text)
					return
				}
			}
		})
	}
	others.Wait()
	s.eventually(t, "Stats", func() bool { return s.stats().Active == count })
	s.giveUp(t)
	if err := s.serveError(t); err != nil {
		t.Errorf("Serve: %v", err)
	}
	s.releaseAll()
	s.eventually(t, "all closed", func() bool { return s.closed.Load() == s.opened.Load() })
}

// testStorm opens and closes as fast as it can, in every way, while others keep
// their descriptors. Whoever answers tells the token that the connection has
// got: nobody's answer, and nobody's prompt, may turn up elsewhere.
func testStorm(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.detached = echoUntilEnd
	a.idle = time.Hour
	s := f.start(t, a, options())
	residents, clients, rounds := 20, 6, 60
	if f.offers(handshakes) || testing.Short() || invariants.Enabled {
		rounds = 20
	}
	var settled []*peer
	for i := range residents {
		p := s.connect(t)
		p.ask(t, fmt.Sprint("token resident", i), "known")
		settled = append(settled, p)
	}
	var storm sync.WaitGroup
	for client := range clients {
		storm.Go(func() {
			for round := range rounds {
				if err := s.visit(fmt.Sprint("visitor", client, "-", round), round); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i, p := range settled {
		p.ask(t, "who", fmt.Sprint("resident", i))
	}
	storm.Wait()
	for i, p := range settled {
		p.ask(t, "who", fmt.Sprint("resident", i))
	}
	s.eventually(t, "the residents are left", func() bool { return s.stats().Open == residents })
}

// visit is one short connection of a storm.
func (s *server) visit(token string, way int) error {
	c, err := s.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	p := newLonePeer(s, c)
	for _, step := range [][2]string{{"token " + token, "known"}, {"note " + token, "noted"}, {"who", token}} {
		if _, err := c.Write(frames(step[0])); err != nil {
			return err
		}
		if got, err := p.receive(); err != nil || got != step[1] {
			return fmt.Errorf("%s: got %s and %w, want %q", token, shortened(got), err, step[1])
		}
	}
	n := s.note(token)
	defer n.prompt() // when all is over
	switch way % 7 {
	case 0: // the server closes
		_, _ = c.Write(frames("close"))
		_, _ = io.Copy(io.Discard, p.in)
	case 1:
		p.reset()
	case 2: // with an answer on its way
		_, _ = c.Write(frames("who"))
	case 3: // with input on its way that is nobody's
		_, _ = c.Write(frames("abort", "who", "who"))
	case 4:
		_, _ = c.Write(frames("detach"))
		if got, err := p.receive(); err != nil || got != "detaching" {
			return fmt.Errorf("%s: got %s and %w", token, shortened(got), err)
		}
	case 5: // prompted and gone
		n.say()
	default: // within a frame
		_, _ = c.Write(frames("who")[:3])
	}
	return nil
}

// testListenerClosed closes the listener under Serve, with connections in every
// state. They go on, and the engine serves another listener.
func testListenerClosed(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), briefOptions())
	fresh, idle, partial, busy := s.connect(t), s.connect(t), s.connect(t), s.connect(t)
	idle.ask(t, "echo x", "x")
	partial.send(t, frames("echo y")[:3])
	busy.send(t, frames("wait here"))
	s.awaitGate(t, "here")
	s.eventually(t, "all admitted", func() bool { return s.opened.Load() == 4 })
	_ = s.listener.Close()
	if err := s.serveError(t); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve after the listener's Close: %v", err)
	}
	ln, dial, err := f.network.listen(t)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.engine.Serve(ln, s.handler) }()
	c, err := dial(f.network.header)
	if err != nil {
		t.Fatal(err)
	}
	newPeer(t, s, c).ask(t, "echo elsewhere", "elsewhere")
	idle.ask(t, "echo z", "z")
	fresh.ask(t, "echo z", "z")
	partial.send(t, frames("echo y")[3:])
	partial.expect(t, "y")
	s.gate("here").release()
	busy.expect(t, "waited")
	s.shutdown(t)
	if err := <-served; err != nil {
		t.Errorf("Serve after Shutdown: %v", err)
	}
	_ = ln.Close()
}

// testOutOfDescriptors lets the process run out of descriptors while a peer
// waits to be accepted. That is reported, and over when there are some again.
func testOutOfDescriptors(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	before := s.connect(t)
	before.ask(t, "echo x", "x")
	restore, ok := leaveOneDescriptor(t)
	if !ok {
		t.Skip("the number of descriptors cannot be limited here")
	}
	defer restore()
	dialled := make(chan net.Conn, 1)
	go func() {
		// A TLS client waits for the handshake until the limit is gone.
		c, err := s.dial()
		if err != nil {
			c = nil
		}
		dialled <- c
	}()
	s.eventually(t, "AcceptError", func() bool { return s.acceptErrors.Load() > 0 })
	before.ask(t, "echo still there", "still there")
	restore()
	if c := <-dialled; c != nil { // it may have been sent away
		_ = c.Close()
	}
	s.connect(t).ask(t, "echo after", "after")
}
