package enginetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/invariants"
)

func promptEndScenarios() []scenario {
	return []scenario{
		{"prompted close", testPromptedClose, deadlines},
		{"prompted detach", testPromptedDetach, deadlines},
		{"prompt after the end", testPromptAfterEnd, contended},
		{"prompts and half-close", testPromptHalfClose, halfClose},
		{"prompts and shutdown", testPromptsAndShutdown, contended},
		{"prompts and shutdown given up", testPromptsAndGivingUp, contended},
		{"prompts and detach idle", testPromptsAndDetachIdle, moves | contended},
	}
}

// saysAndThen has Prompted say one last word.
func saysAndThen(next engine.Next) func(*session, []byte) ([]byte, engine.Next) {
	return func(_ *session, out []byte) ([]byte, engine.Next) { return appendFrame(out, "last word"), next }
}

// testPromptedClose ends idle connections, and ones that are within a frame.
func testPromptedClose(t *testing.T, f *fixture) {
	for _, partial := range []string{"", "5:ech"} {
		for _, next := range []engine.Next{engine.Close, engine.CloseLinger, engine.Abort} {
			s := f.start(t, newAcceptor(), options())
			p := s.connect(t)
			n := p.note(t, "n")
			n.answers(saysAndThen(next))
			fed := s.fed.Load()
			if partial != "" {
				p.send(t, []byte(partial))
				s.eventually(t, "input was taken", func() bool { return s.fed.Load() == fed+int64(len(partial)) })
			}
			n.prompt()
			if next == engine.Abort {
				p.expectGone(t)
			} else {
				p.expect(t, "last word")
				p.expectEnd(t)
			}
			_ = p.Close()
			s.eventually(t, "Closed", func() bool { return s.closed.Load() == 1 })
			n.prompt()
		}
	}
}

func testPromptedDetach(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.detached = echoUntilEnd
	s := f.start(t, a, options())
	for _, partial := range []string{"", "5:ech"} {
		p := s.connect(t)
		n := p.note(t, "n"+partial)
		n.answers(saysAndThen(engine.Detach))
		fed := s.fed.Load()
		if partial != "" {
			p.send(t, []byte(partial))
			s.eventually(t, "input was taken", func() bool { return s.fed.Load() == fed+int64(len(partial)) })
		}
		n.prompt()
		p.expect(t, "last word")
		n.prompt() // nobody is there to be prompted
		p.exchange(t, "", "more", "and more")
		n.prompt()
		_ = p.Close()
	}
}

// testPromptAfterEnd keeps Prompters of connections that have ended in every
// way, and goes on prompting while others get their descriptors and whatever
// else the engine uses again. Sessions notice when they are prompted by mistake.
func testPromptAfterEnd(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.detached = func(c net.Conn) { _ = c.Close() }
	s := f.start(t, a, options())
	var ended []*note
	for i, command := range []string{"close", "abort", "detach", "goexit", "echo x", "", "close", "echo y"} {
		p := s.connect(t)
		n := p.note(t, fmt.Sprint("ended ", i))
		if command != "" {
			p.send(t, frames(command))
			_, _ = p.receive()
		}
		_ = p.Close()
		s.eventually(t, "Closed", func() bool { return s.closed.Load() == int64(i+1) })
		ended = append(ended, n)
	}
	calls := make([]int64, len(ended))
	for i, n := range ended {
		calls[i] = n.calls.Load()
	}
	stop := make(chan struct{})
	var prompts sync.WaitGroup
	prompts.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				ended[i%len(ended)].prompt()
			}
			if i%8 == 0 {
				pause()
			}
		}
	})
	for round := range 10 {
		var peers []*peer
		for i := range len(ended) {
			p := s.connect(t)
			p.ask(t, fmt.Sprint("token ", round, "-", i), "known")
			peers = append(peers, p)
		}
		for i, p := range peers {
			p.ask(t, "who", fmt.Sprint(round, "-", i))
			_ = p.Close()
		}
	}
	close(stop)
	prompts.Wait()
	for i, n := range ended {
		if got := n.calls.Load(); got != calls[i] {
			t.Errorf("Prompted called %d times after the end of connection %d", got-calls[i], i)
		}
	}
}

// testPromptHalfClose has the peer end its side while it is being talked to.
func testPromptHalfClose(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	for i := range 20 {
		p := s.connect(t)
		n := p.note(t, fmt.Sprint("n", i))
		stop := make(chan struct{})
		var prompts sync.WaitGroup
		prompts.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					n.say()
				}
				pause()
			}
		})
		p.send(t, frames("echo x"))
		p.closeWrite(t)
		gotAnswer := false
		for {
			got, err := p.receive()
			if err != nil {
				if !gotAnswer || isPatienceOver(err) {
					t.Errorf("the answer came: %v; then %v%s", gotAnswer, err, p.state(err))
				}
				break
			}
			gotAnswer = gotAnswer || got == "x"
		}
		close(stop)
		prompts.Wait()
		_ = p.Close()
	}
	s.eventually(t, "all closed", func() bool { return s.closed.Load() == 20 })
}

// isPatienceOver reports whether a peer has waited for too long.
func isPatienceOver(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// prompting has count connections prompted until they are all gone.
func (s *server) prompting(t *testing.T, count int) (gone *sync.WaitGroup) {
	t.Helper()
	gone = new(sync.WaitGroup)
	for i := range count {
		p := s.connect(t)
		n := p.note(t, fmt.Sprint("n", i))
		over := make(chan struct{})
		gone.Go(func() {
			defer close(over)
			for {
				if _, err := p.receive(); err != nil {
					if isPatienceOver(err) {
						t.Errorf("a connection was not closed%s", s.state())
					}
					return
				}
			}
		})
		gone.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					n.say()
					pause()
				}
			}
		})
	}
	return gone
}

func testPromptsAndShutdown(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), briefOptions())
	gone := s.prompting(t, 8)
	if f.offers(deadlines) {
		s.eventually(t, "something is said", func() bool { return s.note("n0").calls.Load() > 5 })
	}
	s.shutdown(t)
	gone.Wait()
}

// testPromptsAndGivingUp has a session in its Run besides, which does not end.
func testPromptsAndGivingUp(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	stuck := s.connect(t)
	n := stuck.note(t, "stuck")
	stuck.send(t, frames("wait here"))
	s.awaitGate(t, "here")
	n.prompt()
	gone := s.prompting(t, 4)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := s.engine.Shutdown(ctx); err != context.DeadlineExceeded {
		t.Errorf("Shutdown: %v", err)
	}
	n.prompt()
	gone.Wait()
	s.gate("here").release()
	s.eventually(t, "Closed", func() bool { return s.closed.Load() == s.opened.Load() })
	n.prompt()
	if calls := n.calls.Load(); calls != 0 {
		t.Errorf("Prompted called %d times on a connection that was cut", calls)
	}
}

// testPromptsAndDetachIdle prompts while idle connections are given away. Each
// either goes or stays, whole.
func testPromptsAndDetachIdle(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	successor := f.start(t, newAcceptor(), options())
	const count = 10
	var peers []*peer
	var prompts sync.WaitGroup
	stop := make(chan struct{})
	for i := range count {
		p := s.connect(t)
		n := p.note(t, fmt.Sprint("n", i))
		peers = append(peers, p)
		prompts.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					n.say()
					pause()
				}
			}
		})
	}
	for range 3 {
		s.engine.DetachIdle(-1, successor.adopt(t))
	}
	close(stop)
	prompts.Wait()
	for i, p := range peers {
		sent := p.sendLater(frames("echo mine"))
		for got := ""; got != "mine"; {
			var err error
			if got, err = p.receive(); err != nil {
				t.Fatalf("connection %d: %v%s", i, err, p.state(err))
			}
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		_ = p.Close()
	}
	s.eventually(t, "all closed", func() bool { return s.stats() == engine.Stats{} })
}

// testNudge has a crowd of connections say something at once: idle ones, one
// within a frame and one that is busy.
func testNudge(t *testing.T, f *fixture) {
	a := newAcceptor()
	s := f.start(t, a, options())
	count := 600
	if f.offers(handshakes) || invariants.Enabled || testing.Short() {
		count = 60
	}
	var idle []*peer
	for range count {
		p := s.connect(t)
		p.ask(t, "echo x", "x")
		idle = append(idle, p)
	}
	partial, busy := s.connect(t), s.connect(t)
	partial.send(t, frames("echo x")[:3])
	s.eventually(t, "a part was taken", func() bool { return s.fed.Load() == int64(count*len(frames("echo x"))+3) })
	sent := busy.sendLater(frames("wait here"))
	s.awaitGate(t, "here")
	a.nudged.Store(true)
	s.engine.Nudge()
	for _, p := range append(idle, partial) {
		p.expect(t, "nudged")
	}
	s.gate("here").release()
	busy.expect(t, "waited", "nudged")
	partial.send(t, frames("echo x")[3:])
	partial.expect(t, "x")
	for _, p := range idle[:3] {
		p.ask(t, "echo y", "y") // and nothing is said twice
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}
