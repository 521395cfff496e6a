package sluice

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// lbMember is a client of an LBClient with its health. The fields after mu are
// guarded by it.
type lbMember struct {
	client BalancingClient
	turn   atomic.Uint64 // LBClient.turns when it was last picked

	// isTroubled is true if one of the fields below may be set: healthy members
	// are picked without a lock.
	isTroubled atomic.Bool

	mu           sync.Mutex
	failures     int   // consecutive
	penalized    int64 // clock.Nanos; until then it gets fewer requests
	ejections    int   // consecutive
	ejectedAt    int64
	ejectedUntil int64 // clock.Nanos; 0: not ejected. After that time, it waits for a probe
	isProbed     bool  // a probe is in progress
}

const (
	lbPenaltyTime  = time.Second // how long a failure counts
	lbPenalty      = 16          // pending requests; each failure counts as that many
	lbEjectAfter   = 3           // consecutive failures
	lbEjectTime    = time.Second // the first time; then it doubles
	lbMaxEjectTime = 30 * time.Second
)

// lbVerdict is what the outcome of a request says about its client.
type lbVerdict uint8

const (
	lbUnknown lbVerdict = iota
	lbGood
	lbBad
)

// lbRank orders members; a request goes to the lowest rank.
type lbRank uint8

const (
	lbProbe   lbRank = iota // was ejected and may be probed
	lbUsual                 // the member with the least load is picked
	lbEjected               // used only if there is no other
)

// lbPick is a member that was picked for a request.
type lbPick struct {
	member  *lbMember
	began   int64
	isProbe bool
}

// pick returns the member for the next request, if possible one that is not in
// used. It returns false if there are no members.
func (c *LBClient) pick(used []*lbMember) (lbPick, bool) {
	members := *c.members.Load()
	if len(members) == 0 {
		return lbPick{}, false
	}
	now := clock.Nanos()
	for {
		best, rank := bestMember(members, used, now)
		if best == nil {
			best, rank = bestMember(members, nil, now)
		}
		isProbe := best.claim(now)
		if rank == lbProbe && !isProbe {
			continue // another request has claimed the probe since
		}
		best.turn.Store(c.turns.Add(1))
		return lbPick{best, now, isProbe}, true
	}
}

// bestMember returns the best member that is not in used and its rank, or nil if
// all are. Of equally good members, it returns the one that was picked least
// recently.
func bestMember(members, used []*lbMember, now int64) (best *lbMember, bestRank lbRank) {
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
	return best, bestRank
}

func isUsed(used []*lbMember, m *lbMember) bool {
	for _, u := range used {
		if u == m {
			return true
		}
	}
	return false
}

// rank returns m's rank, and the penalty for its failures in pending requests.
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

// claim reports whether the next request of m is the probe, and if so marks the
// probe as in progress.
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

// report records the outcome of a request.
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
	// A request that began before m was ejected says nothing about m's health
	// now.
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

// eject keeps requests away from m for a time. Called with the lock.
func (m *lbMember) eject(now int64) {
	length := min(lbEjectTime<<min(m.ejections, 10), lbMaxEjectTime)
	m.ejections++
	m.ejectedAt, m.ejectedUntil = now, now+int64(length)
}
