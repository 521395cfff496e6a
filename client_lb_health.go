package sluice

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// lbMember is a client of an LBClient, and what is known of its health.
type lbMember struct {
	client BalancingClient
	turn   atomic.Uint64 // when it was picked last, of LBClient.turns

	// isTroubled tells that one of the fields below is set: members that do well
	// are picked without a lock.
	isTroubled atomic.Bool

	mu           sync.Mutex
	failures     int   // in a row
	penalized    int64 // clock.Nanos; it gets less until then
	ejections    int   // in a row
	ejectedAt    int64
	ejectedUntil int64 // 0: it is not; then it waits for a probe
	isProbed     bool  // a request tries it
}

const (
	lbPenaltyTime  = time.Second // how long a failure counts
	lbPenalty      = 16          // pending requests that a failure weighs
	lbEjectAfter   = 3           // failures in a row
	lbEjectTime    = time.Second // the first time; it doubles
	lbMaxEjectTime = 30 * time.Second
)

// lbVerdict is what a request says about its client.
type lbVerdict uint8

const (
	lbUnknown lbVerdict = iota
	lbGood
	lbBad
)

// lbRank orders members; the lowest that there is gets the request.
type lbRank uint8

const (
	lbProbe   lbRank = iota // it was ejected and may be tried
	lbUsual                 // the one with the least load is the best
	lbEjected               // better than none
)

// lbPick is a member that gets a request.
type lbPick struct {
	member  *lbMember
	began   int64
	isProbe bool
}

// pick returns the member that gets the next request, if possible one that is
// not in used. False: there is none.
func (c *LBClient) pick(used []*lbMember) (lbPick, bool) {
	members := *c.members.Load()
	if len(members) == 0 {
		return lbPick{}, false
	}
	now := clock.Nanos()
	best := bestMember(members, used, now)
	if best == nil {
		best = bestMember(members, nil, now)
	}
	best.turn.Store(c.turns.Add(1))
	return lbPick{best, now, best.claim(now)}, true
}

// bestMember returns the best member that is not in used, nil if all are; of
// those that are as good the one that was picked the longest time ago.
func bestMember(members, used []*lbMember, now int64) (best *lbMember) {
	var bestRank lbRank
	var bestLoad int
	for _, m := range members {
		if isUsed(used, m) {
			continue
		}
		rank, penalty := lbUsual, 0
		if m.isTroubled.Load() {
			rank, penalty = m.rank(now)
		}
		load := penalty + m.client.PendingRequests()
		isBetter := best == nil || rank < bestRank
		if !isBetter && rank == bestRank {
			isBetter = load < bestLoad || load == bestLoad && m.turn.Load() < best.turn.Load()
		}
		if isBetter {
			best, bestRank, bestLoad = m, rank, load
		}
	}
	return best
}

func isUsed(used []*lbMember, m *lbMember) bool {
	for _, u := range used {
		if u == m {
			return true
		}
	}
	return false
}

// rank tells how fit m is for a request, and what its failures weigh.
func (m *lbMember) rank(now int64) (rank lbRank, penalty int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.ejectedUntil == 0 && now < m.penalized:
		return lbUsual, m.failures * lbPenalty
	case m.ejectedUntil == 0:
		return lbUsual, 0
	case now >= m.ejectedUntil && !m.isProbed:
		return lbProbe, 0
	}
	return lbEjected, 0
}

// claim tells whether the request that m gets is the one that tries it.
func (m *lbMember) claim(now int64) (isProbe bool) {
	if !m.isTroubled.Load() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ejectedUntil == 0 || now < m.ejectedUntil || m.isProbed {
		return false
	}
	m.isProbed = true
	return true
}

// report notes what came of a request.
func (p lbPick) report(verdict lbVerdict) {
	m := p.member
	if verdict == lbGood && !m.isTroubled.Load() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.isProbe {
		m.isProbed = false
	}
	// What began before m was ejected is old news.
	isEjected := m.ejectedUntil != 0
	if verdict == lbUnknown || isEjected && p.began < m.ejectedAt {
		return
	}
	if verdict == lbGood {
		m.failures, m.ejections, m.penalized, m.ejectedUntil = 0, 0, 0, 0
		m.isTroubled.Store(false)
		return
	}
	now := clock.Nanos()
	m.isTroubled.Store(true)
	m.failures++
	m.penalized = now + int64(lbPenaltyTime)
	if isEjected && p.isProbe || !isEjected && m.failures >= lbEjectAfter {
		m.eject(now)
	}
}

// eject keeps requests away from m for a while. Called with the lock.
func (m *lbMember) eject(now int64) {
	length := min(lbEjectTime<<min(m.ejections, 10), lbMaxEjectTime)
	m.ejections++
	m.ejectedAt, m.ejectedUntil = now, now+int64(length)
}
