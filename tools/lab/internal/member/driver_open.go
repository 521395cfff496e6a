//go:build linux

package member

import (
	"time"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
)

// A schedule sends at a rate, whatever comes back. Latency counts from when a
// request should have been sent: one that finds no idle connection waits, and
// the wait counts.
type schedule struct {
	*tally
	idle     []*peer // a ring: connections take turns
	first    int     // of idle
	free     int     // how many are in idle
	interval float64 // nanoseconds
	due      int     // requests whose time has come
	sent     int     // of those
}

func newSchedule(t *tally, peers []*peer, perSec float64) *schedule {
	return &schedule{
		tally: t, idle: append([]*peer(nil), peers...), free: len(peers),
		interval: float64(time.Second) / max(perSec, 1e-3),
	}
}

// intended returns when request i should be sent.
func (s *schedule) intended(i int) time.Duration {
	return s.from + time.Duration(float64(i)*s.interval)
}

func (s *schedule) begin() {
	go func() {
		for now := s.client.now(); now < s.to; now = s.client.now() {
			s.release(now)
			// A short sleep takes as long as the system's timers have it; what
			// that costs is part of the latency.
			time.Sleep(max(s.intended(s.due)-s.client.now(), 50*time.Microsecond))
		}
	}()
}

// release sends what is due on connections that are idle.
func (s *schedule) release(now time.Duration) {
	s.mu.Lock()
	for s.intended(s.due) <= min(now, s.to) {
		s.due++
	}
	for s.sent < s.due && s.free > 0 {
		p := s.idle[s.first]
		s.first = (s.first + 1) % len(s.idle)
		s.free--
		s.sends(p, s.intended(s.sent))
		s.sent++
		s.mu.Unlock()
		s.kick(p)
		s.mu.Lock()
	}
	s.mu.Unlock()
}

func (s *schedule) answered(p *peer, now time.Duration) (again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record(p, now)
	if s.sent < s.due && now < s.to {
		s.sends(p, s.intended(s.sent))
		s.sent++
		return true
	}
	s.idle[(s.first+s.free)%len(s.idle)] = p
	s.free++
	return false
}

func (s *schedule) isOver(now time.Duration) bool { return now >= s.to }

func (s *schedule) done() control.Done {
	d := s.tally.done()
	s.mu.Lock()
	defer s.mu.Unlock()
	d.Backlog = s.due - s.sent
	return d
}

// A monologue sends at a rate to a server that does not answer.
type monologue struct {
	*tally
	peers  []*peer
	perSec float64
}

func (m *monologue) begin() {
	go func() {
		interval := float64(time.Second) / max(m.perSec, 1e-3)
		for i := 0; len(m.peers) > 0; {
			now := m.client.now()
			if now >= m.to {
				return
			}
			for ; m.from+time.Duration(float64(i)*interval) <= now; i++ {
				m.kick(m.peers[i%len(m.peers)])
				m.sentOne(now)
			}
			time.Sleep(time.Millisecond)
		}
	}()
}

// sentOne counts a message as completed: nothing follows.
func (m *monologue) sentOne(now time.Duration) {
	m.client.requests.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.completed++
	m.last = now
}

func (m *monologue) answered(*peer, time.Duration) bool { return false }

func (m *monologue) isOver(now time.Duration) bool { return now >= m.to }

func (m *monologue) done() control.Done {
	d := m.tally.done()
	m.mu.Lock()
	defer m.mu.Unlock()
	d.Sweeps = int(m.completed) / max(len(m.peers), 1)
	return d
}
