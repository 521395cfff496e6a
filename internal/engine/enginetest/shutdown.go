package enginetest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

func shutdownScenarios() []scenario {
	return []scenario{
		{"shutdown idle", testShutdownIdle, 0},
		{"shutdown with a request", testShutdownRequest, 0},
		{"shutdown within a frame", testShutdownPartial, 0},
		{"shutdown in Run", testShutdownInRun, 0},
		{"shutdown while writing", testShutdownWriting, 0},
		{"shutdown while lingering", testShutdownLingering, halfClose},
		{"shutdown during handshake", testShutdownHandshake, handshakes},
		{"shutdown given up", testShutdownGivenUp, 0},
		{"shutdown given up within a frame", testShutdownGivenUpPartial, 0},
		{"shutdown given up while waiting in Run", testShutdownGivenUpReading, 0},
		{"shutdown under load", testShutdownUnderLoad, contended},
	}
}

func testShutdownIdle(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), briefOptions())
	fresh, used := s.connect(t), s.connect(t)
	used.ask(t, "echo x", "x")
	s.eventually(t, "both idle", func() bool { return s.stats() == engine.Stats{Open: 2} })
	s.shutdown(t)
	fresh.expectEnd(t)
	used.expectEnd(t)
	if err := s.serveError(t); err != nil {
		t.Errorf("Serve: %v", err)
	}
	for _, err := range s.closeErrors() {
		if err != nil {
			t.Errorf("Closed(%v) after an orderly end", err)
		}
	}
}

// testShutdownRequest has requests arrive when Shutdown begins. Each is answered, or the
// connection ends without a part of an answer.
func testShutdownRequest(t *testing.T, f *fixture) {
	for range 20 {
		s := f.start(t, newAcceptor(), options())
		var peers []*peer
		for range 4 {
			p := s.connect(t)
			p.ask(t, "echo x", "x")
			peers = append(peers, p)
		}
		sent := peers[0].sendLater(frames("echo y"))
		done := s.beginShutdown(t)
		peers[1].sendLater(frames("echo y"))
		for i, p := range peers {
			got, err := p.receive()
			if i < 2 && err == nil {
				if got != "y" {
					t.Errorf("peer %d: %q", i, got)
				}
				_, err = p.receive()
			}
			if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("peer %d: the connection is open: %v", i, err)
			}
			_ = p.Close() // otherwise the engine lingers
		}
		<-sent
		<-done
		if n, ran := s.closed.Load(), s.runs.Load(); n != 4 || ran < 4 || ran > 6 {
			t.Errorf("%d connections closed, %d requests ran", n, ran)
		}
	}
}

func testShutdownPartial(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	p.send(t, frames("echo x")[:3])
	s.eventually(t, "input was taken", func() bool { return s.fed.Load() == 3 })
	done := s.beginShutdown(t)
	p.send(t, frames("echo x")[3:])
	p.expect(t, "x")
	p.expectEnd(t)
	<-done
}

func testShutdownInRun(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	p.send(t, frames("wait here"))
	s.awaitGate(t, "here")
	done := s.beginShutdown(t)
	if err := s.serveError(t); err != nil {
		t.Errorf("Serve: %v", err)
	}
	select {
	case <-done:
		t.Fatal("Shutdown did not wait")
	default:
	}
	s.gate("here").release()
	p.expect(t, "waited")
	p.expectEnd(t)
	<-done
}

func testShutdownWriting(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	p.sendLater(frames("big 12000000"))
	s.eventually(t, "Run", func() bool { return s.runs.Load() == 1 })
	done := s.beginShutdown(t)
	p.expect(t, patternText(12_000_000))
	p.expectEnd(t)
	_ = p.Close() // otherwise the engine lingers
	<-done
}

func testShutdownLingering(t *testing.T, f *fixture) {
	o := options()
	o.LingerTimeout = 50 * time.Millisecond
	s := f.start(t, newAcceptor(), o)
	p := s.connect(t)
	p.ask(t, "linger", "lingering")
	p.expectEnd(t)
	s.shutdown(t)
}

func testShutdownHandshake(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	c, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.eventually(t, "admitted", func() bool { return s.admitted.Load() == 1 })
	s.shutdown(t)
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.ReadAll(c); err != nil {
		var ne net.Error
		if errors.As(err, &ne) && ne.Timeout() {
			t.Error("the connection was not closed")
		}
	}
}

// testShutdownGivenUp has a handler that does not end.
func testShutdownGivenUp(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	p.send(t, frames("wait here"))
	s.awaitGate(t, "here")
	s.giveUp(t)
	p.expectGone(t)
	s.gate("here").release()
	s.eventually(t, "Closed", func() bool { return s.closed.Load() == 1 })
	if s.closeErrors()[0] == nil {
		t.Error("Closed(nil) of a connection that was cut")
	}
}

// giveUp shuts down with hardly any time.
func (s *server) giveUp(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := s.engine.Shutdown(ctx); err != context.DeadlineExceeded {
		t.Errorf("Shutdown: %v, want %v", err, context.DeadlineExceeded)
	}
}

func testShutdownGivenUpPartial(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	p.send(t, frames("echo x")[:3])
	s.eventually(t, "input was taken", func() bool { return s.fed.Load() == 3 })
	s.giveUp(t)
	p.expectGone(t)
	s.eventually(t, "Closed", func() bool { return s.closed.Load() == 1 })
}

func testShutdownGivenUpReading(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	reading, writing := s.connect(t), s.connect(t)
	reading.send(t, frames("read 10"))
	writing.sendLater(frames("big 12000000"))
	s.eventually(t, "Run", func() bool { return s.runs.Load() == 2 })
	s.giveUp(t)
	s.eventually(t, "Closed", func() bool { return s.closed.Load() == 2 })
}

// testShutdownUnderLoad has clients that come and go all the time. Whatever
// they get must be whole.
func testShutdownUnderLoad(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	const clients = 8
	ended := make(chan error, clients)
	for range clients {
		go func() { ended <- s.load() }()
	}
	s.eventually(t, "some load", func() bool { return s.runs.Load() > 200 })
	s.shutdown(t)
	_ = s.listener.Close()
	for range clients {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// load asks until the server is gone.
func (s *server) load() error {
	for {
		c, err := s.dial()
		if err != nil {
			return nil
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		for range 10 {
			if _, err = c.Write(frames("echo load")); err != nil {
				break
			}
			answer := make([]byte, 6)
			var n int
			if n, err = io.ReadFull(c, answer); n > 0 && string(answer) != "4:load" {
				_ = c.Close()
				return errors.New("got a part of an answer: " + string(answer[:n]))
			}
			if err != nil {
				break
			}
		}
		_ = c.Close()
		var ne net.Error
		if errors.As(err, &ne) && ne.Timeout() {
			return errors.New("a connection was neither served nor closed")
		}
		if err != nil {
			return nil
		}
	}
}
