package enginetest

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

func adoptScenarios() []scenario {
	return []scenario{
		{"adopt conn", testAdoptConn, 0},
		{"adopt conn: addresses", testAdoptAddresses, bare},
		{"adopt conn: deadline", testAdoptDeadline, deadlines | waits},
		{"adopt conn: shutdown", testAdoptShutdown, deadlines},
		{"divert", testDivert, bare},
		{"divert nothing", testDivertNothing, 0},
		{"probe", testProbe, contended},
	}
}

// testAdoptConn has an engine adopt connections of which a part was read.
func testAdoptConn(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	input := frames("echo x", "echo y", "echo z")
	for split := range input {
		end, client := f.pair(t)
		if n := s.stats().Open; n != 0 {
			t.Fatalf("%d connections before", n)
		}
		s.mustAdopt(t, end, input[:split])
		p := newPeer(t, s, client)
		sent := p.sendLater(input[split:])
		p.expect(t, "x", "y", "z")
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		_ = p.Close()
		s.eventuallyIdle(t, 0)
	}
}

// mustAdopt has s adopt c, of whatever kind.
func (s *server) mustAdopt(t *testing.T, c net.Conn, leftover []byte) {
	t.Helper()
	leftover = append([]byte(nil), leftover...)
	if err := s.engine.AdoptConn(c, engine.Parcel{Leftover: leftover}, s.handler); err != nil {
		t.Fatalf("AdoptConn: %v", err)
	}
	clear(leftover) // it is copied
}

// testAdoptAddresses compares what an adopted connection knows of itself with
// what its listener and its peer know.
func testAdoptAddresses(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	for range 2 {
		end, client := f.pair(t)
		local, remote := end.LocalAddr(), end.RemoteAddr()
		s.mustAdopt(t, end, nil)
		p := newPeer(t, s, client)
		p.ask(t, "echo x", "x")
		s.eventuallyIdle(t, 1)
		s.engine.Range(func(c engine.Conn) bool {
			for name, pair := range map[string][2]net.Addr{
				"LocalAddr":  {c.LocalAddr(), local},
				"RemoteAddr": {c.RemoteAddr(), remote},
			} {
				got, want := pair[0], pair[1]
				if got.Network() != want.Network() || got.String() != want.String() && want.String() != "@" {
					t.Errorf("%s is %s %q, want %s %q", name, got.Network(), got, want.Network(), want)
				}
			}
			return true
		})
		_ = p.Close()
		s.eventuallyIdle(t, 0)
	}
}

// testAdoptDeadline has an adopted connection wait in vain for its first
// request.
func testAdoptDeadline(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.idle = 50 * time.Millisecond
	s := f.start(t, a, options())
	end, client := f.pair(t)
	s.mustAdopt(t, end, nil)
	p := newPeer(t, s, client)
	if header := f.network.header; header != "" {
		p.send(t, []byte(header)) // before it, another time counts
	}
	s.eventually(t, "TimedOut", func() bool { return s.timeouts.Load() == 1 })
	_ = p.Close()
}

// testAdoptShutdown adopts connections while, and after, the engine shuts down:
// they are closed.
func testAdoptShutdown(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), briefOptions())
	first, firstClient := f.pair(t)
	second, secondClient := f.pair(t)
	s.mustAdopt(t, first, nil)
	s.shutdown(t)
	if err := s.engine.AdoptConn(second, engine.Parcel{}, s.handler); !errors.Is(err, engine.ErrShutdown) {
		t.Errorf("AdoptConn after Shutdown: %v", err)
	}
	for _, client := range []net.Conn{firstClient, secondClient} {
		_ = client.SetReadDeadline(time.Now().Add(patience))
		var b [1]byte
		if _, err := client.Read(b[:]); err == nil || isTimeout(err) {
			t.Errorf("the peer reads %v, want the end", err)
		}
		_ = client.Close()
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// testDivert has every other connection go elsewhere before it is admitted.
func testDivert(t *testing.T, f *fixture) {
	const count = 6
	other := f.start(t, newAcceptor(), options())
	if !canDuplicate {
		t.Skip("there are no descriptors")
	}
	var asked atomic.Int64
	a := newAcceptor()
	a.divert = func(fd int) bool {
		if asked.Add(1)%2 == 0 {
			return false
		}
		file := os.NewFile(uintptr(duplicate(fd)), "")
		defer file.Close()
		c, err := net.FileConn(file)
		if err == nil {
			err = other.engine.AdoptConn(c, engine.Parcel{}, other.handler)
		}
		if err != nil {
			t.Error(err)
		}
		return true
	}
	s := f.start(t, a, options())
	for i := range count {
		p := s.connect(t)
		p.ask(t, "echo x", "x")
		if n := asked.Load(); n != int64(i+1) {
			t.Fatalf("Divert was asked %d times for %d connections", n, i+1)
		}
	}
	if here, there := s.admitted.Load(), other.admitted.Load(); here != count/2 || there != count/2 {
		t.Errorf("%d connections are here and %d there, want %d each", here, there, count/2)
	}
	if n := s.arrived.Load(); n != count {
		t.Errorf("%d connections have arrived, want %d", n, count)
	}
}

// testDivertNothing: what is more than a socket is not for others, nor is what
// somebody gave to this engine.
func testDivertNothing(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.divert = func(int) bool {
		t.Error("Divert was asked")
		return false
	}
	s := f.start(t, a, options())
	end, client := f.pair(t)
	s.mustAdopt(t, end, nil)
	p := newPeer(t, s, client)
	p.ask(t, "echo x", "x")
	if !f.offers(bare) {
		s.connect(t).ask(t, "echo x", "x")
	}
}

// testProbe probes an engine that serves, also while handlers block.
func testProbe(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), briefOptions())
	prober, ok := s.engine.(engine.Prober)
	if !ok {
		t.Skip("it has nothing to probe")
	}
	probe := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := prober.Probe(ctx); err != nil {
			t.Errorf("Probe: %v", err)
		}
	}
	probe()
	p := s.connect(t)
	p.send(t, frames("wait here"))
	s.awaitGate(t, "here")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			probe()
		}
	}()
	q := s.connect(t)
	for range 100 {
		q.ask(t, "echo x", "x")
		probe()
	}
	<-done
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := prober.Probe(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Probe with a context that has ended: %v", err)
	}
	s.gate("here").release()
	p.expect(t, "waited")
	s.shutdown(t)
	probe()
}
