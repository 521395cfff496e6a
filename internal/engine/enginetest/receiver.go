package enginetest

import (
	"fmt"
	"testing"
)

// receiverScenarios are for Protocols that provide memory for their input.
func receiverScenarios() []scenario {
	return []scenario{
		{"receive in place", testReceive, 0},
		{"receive with leftover", testReceiveLeftover, moves},
	}
}

// Room implements engine.Receiver: the rest of a payload, or a part of it.
func (s *session) Room() []byte {
	defer s.enter("Room")()
	if s.room = nil; s.missing > 0 {
		have := len(s.payload)
		s.room = s.payload[have : have+min(s.missing, s.acceptor.room)]
	}
	return s.room
}

// received is parse for input that was read into the payload.
func (s *session) received(n int) (used int, complete bool) {
	if n > len(s.room) {
		s.acceptor.violate("Feed got %d bytes in a room of %d", n, len(s.room))
	}
	s.payload = s.payload[:len(s.payload)+n]
	s.missing -= n
	s.acceptor.received.Add(int64(n))
	return n, s.missing == 0
}

// testReceive sends messages of every size to rooms of several.
func testReceive(t *testing.T, f *fixture) {
	const large = 200_000
	for _, room := range []int{1, 7, 2 << 10, 1 << 20} {
		a := newAcceptor()
		a.room = room
		s := f.start(t, a, options())
		p := s.connect(t)
		for _, size := range []int{1, 6, 7, 8, 2<<10 - 1, 2 << 10, 2<<10 + 1, 5000, large} {
			if room == 1 && size == large {
				continue // for lack of time
			}
			text := patternText(size)
			p.sendLater(frames("echo "+text, "echo x"))
			p.expect(t, text, "x")
		}
		if n := s.received.Load(); n < 2000 {
			t.Errorf("%d bytes came into rooms of %d bytes", n, room)
		}
		s.eventuallyIdle(t, 1)
		p.ask(t, "echo y", "y")
	}
}

// testReceiveLeftover adopts connections in the middle of a message.
func testReceiveLeftover(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.room = 1 << 20
	s := f.start(t, a, options())
	text := patternText(10_000)
	for _, split := range []int{1, 7, 9000} {
		end, client := f.pair(t)
		input := frames("echo "+text, "echo x")
		s.mustAdopt(t, end, input[:split])
		p := newPeer(t, s, client)
		p.sendLater(input[split:])
		p.expect(t, text, "x")
		p.ask(t, fmt.Sprint("echo ", split), fmt.Sprint(split))
	}
}
