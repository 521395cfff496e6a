//go:build linux

package member

import (
	"time"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
)

// A loop has each connection send the next request when the answer has come.
type loop struct {
	*tally
	peers []*peer
}

func (l *loop) begin() {
	for _, p := range l.peers {
		l.mu.Lock()
		l.sends(p, l.client.now())
		l.mu.Unlock()
		l.kick(p)
	}
}

func (l *loop) answered(p *peer, now time.Duration) (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record(p, now)
	if now >= l.to {
		return false
	}
	l.sends(p, now)
	return true
}

func (l *loop) isOver(now time.Duration) bool { return now >= l.to }

// A sweep has all connections, one after the other, send one request, of which
// at most window are on their way. Then it begins again.
type sweep struct {
	*tally
	peers  []*peer
	window int
	next   int // the connection that sends next
	sweeps int // that are over
	isDone bool
}

func (s *sweep) begin() {
	s.mu.Lock()
	s.isDone, s.next = len(s.peers) == 0, 0
	first := s.take(s.window, s.client.now())
	s.mu.Unlock()
	for _, p := range first {
		s.kick(p)
	}
}

// take returns the next connections, n at most, which are to send; mu is held.
func (s *sweep) take(n int, now time.Duration) []*peer {
	first := s.next
	s.next = min(first+n, len(s.peers))
	for _, p := range s.peers[first:s.next] {
		s.sends(p, now)
	}
	return s.peers[first:s.next]
}

func (s *sweep) answered(p *peer, now time.Duration) (again bool) {
	s.mu.Lock()
	s.record(p, now)
	following := s.following(now)
	s.mu.Unlock()
	for _, next := range following {
		if next == p { // the only one
			again = true
		} else {
			s.kick(next)
		}
	}
	return again
}

func (s *sweep) lost(p *peer) {
	if !s.abandon(p) {
		return
	}
	s.mu.Lock()
	following := s.following(s.client.now())
	s.mu.Unlock()
	for _, next := range following {
		s.kick(next)
	}
}

// following returns the connections that send because an answer has come; mu is
// held.
func (s *sweep) following(now time.Duration) []*peer {
	switch {
	case s.next < len(s.peers):
		return s.take(1, now)
	case s.out > 0:
		return nil // a sweep ends when its last answer is there
	}
	s.sweeps++
	if now >= s.to {
		s.isDone = true
		return nil
	}
	s.next = 0
	return s.take(s.window, now)
}

// isOver: a sweep that has begun is carried to its end, or else connections
// would have been left out.
func (s *sweep) isOver(now time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isDone || now > s.to+longestSweep
}

// longestSweep bounds the wait for answers that never come.
const longestSweep = 5 * time.Minute

func (s *sweep) done() control.Done {
	d := s.tally.done()
	d.Sweeps = s.sweeps
	return d
}
