package enginetest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
)

// parcelScenarios are for Protocols that move with their state.
func parcelScenarios() []scenario {
	return []scenario{
		{"packed", testPacked, moves},
		{"packed in the middle of a head", testPackedPartial, moves},
		{"pack refuses", testPackRefuses, moves},
		{"packed against input", testPackedAgainstInput, moves | contended},
		{"state without a receiver", testNoUnpacker, moves},
	}
}

// Pack implements engine.Packer.
func (s *session) Pack(dst []byte) ([]byte, bool) {
	defer s.enter("Pack")()
	if s.missing > 0 || len(s.head) > 0 && !s.acceptor.rewinds {
		s.acceptor.violate("Pack called in the middle of a frame")
	}
	if s.acceptor.stays.Load() {
		return nil, false
	}
	s.acceptor.packed.Add(1)
	return fmt.Appendf(dst, "%d %s", s.keeps.rank, s.keeps.token), true
}

// Unpack implements engine.Unpacker.
func (a *acceptor) Unpack(c engine.Conn, state []byte) (engine.Protocol, []byte) {
	rank, token, ok := bytes.Cut(state, []byte(" "))
	if !ok {
		a.violate("Unpack got %q", state)
	}
	a.opened.Add(1)
	s := &session{acceptor: a, conn: c}
	s.keeps.rank, _ = strconv.Atoi(string(rank))
	s.keeps.token = string(token)
	s.await(a.idle)
	c.SetWriteTimeout(a.write)
	return a.protocol(s), nil
}

// startPackers starts two servers that pass connections to each other.
func (f *fixture) startPackers(t *testing.T) (one, other *server) {
	t.Helper()
	for _, s := range []**server{&one, &other} {
		a := newAcceptor()
		a.packs, a.rewinds = true, true
		*s = f.start(t, a, options())
	}
	return one, other
}

// testPacked moves connections, some of which have switched, there and back.
func testPacked(t *testing.T, f *fixture) {
	from, to := f.startPackers(t)
	const count = 6
	var peers []*peer
	for i := range count {
		p := from.connect(t)
		p.ask(t, fmt.Sprint("token t", i), "known")
		for range i % 3 {
			p.ask(t, "switch 0", switching)
		}
		peers = append(peers, p)
	}
	for range 3 {
		from.eventuallyIdle(t, count)
		if n := from.engine.DetachIdle(-1, to.adopt(t)); n != count {
			t.Fatalf("%d of %d connections were given away", n, count)
		}
		for i, p := range peers {
			p.ask(t, "who", fmt.Sprint("t", i))
			p.ask(t, "rank", fmt.Sprint(i%3))
		}
		from, to = to, from
	}
	if n := from.packed.Load() + to.packed.Load(); n != 3*count {
		t.Errorf("Pack was called %d times, want %d", n, 3*count)
	}
}

// testPackedPartial moves the beginning of a request with the state.
func testPackedPartial(t *testing.T, f *fixture) {
	from, to := f.startPackers(t)
	p := from.connect(t)
	p.ask(t, "token key", "known")
	text := frames("echo 0123456789")
	p.send(t, text[:1])
	from.eventually(t, "it is given away", func() bool {
		return from.stats().Active == 1 && from.engine.DetachIdle(-1, to.adopt(t)) == 1
	})
	p.send(t, text[1:])
	p.expect(t, "0123456789")
	p.ask(t, "who", "key")
}

// testPackRefuses: the connection stays, and goes on.
func testPackRefuses(t *testing.T, f *fixture) {
	from, to := f.startPackers(t)
	p := from.connect(t)
	p.ask(t, "token key", "known")
	for range 3 {
		from.stays.Store(true)
		from.eventuallyIdle(t, 1)
		if n := from.engine.DetachIdle(-1, to.adopt(t)); n != 0 {
			t.Fatalf("%d connections were given away", n)
		}
		p.ask(t, "who", "key")
	}
	from.stays.Store(false)
	from.eventuallyIdle(t, 1)
	if n := from.engine.DetachIdle(-1, to.adopt(t)); n != 1 {
		t.Fatalf("%d connections were given away, want 1", n)
	}
	p.ask(t, "who", "key")
}

// testPackedAgainstInput moves connections to and fro while their peers ask.
func testPackedAgainstInput(t *testing.T, f *fixture) {
	one, other := f.startPackers(t)
	const count, rounds = 8, 100
	var clients, movers sync.WaitGroup
	done := make(chan struct{})
	for i := range count {
		p := one.connect(t)
		p.ask(t, fmt.Sprint("token t", i), "known")
		clients.Go(func() {
			for range rounds {
				if _, err := p.Write(frames("who")); err != nil {
					t.Error(err)
					return
				}
				if got, err := p.receive(); err != nil || got != fmt.Sprint("t", i) {
					t.Errorf("got %s and %v, want t%d", shortened(got), err, i)
					return
				}
			}
		})
	}
	moved := 0
	movers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				moved += one.engine.DetachIdle(-1, other.adopt(t))
				moved += other.engine.DetachIdle(-1, one.adopt(t))
				pause() // otherwise this goroutine takes all the time of a single processor
			}
		}
	})
	clients.Wait()
	close(done)
	movers.Wait()
	t.Logf("%d connections were moved", moved)
}

// testNoUnpacker adopts state with an Acceptor that is no Unpacker.
func testNoUnpacker(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	end, client := f.pair(t)
	only := struct{ engine.Acceptor }{s.acceptor}
	if err := s.engine.AdoptConn(end, engine.Parcel{State: []byte("1 x")}, only); !errors.Is(err, engine.ErrNoUnpacker) {
		t.Errorf("AdoptConn: %v, want %v", err, engine.ErrNoUnpacker)
	}
	p := newPeer(t, s, client)
	p.expectGone(t)
	if _, err := end.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the connection is still open: %v", err)
	}
}
