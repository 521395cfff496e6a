// Package balance chooses the client for the next request: a healthy one with the
// fewest pending requests. It knows nothing of the requests.
package balance

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// A Client is what a Group chooses from. The methods may be called concurrently.
type Client interface {
	// PendingRequests returns the number of requests that the client is
	// processing.
	PendingRequests() int
}

// A Group is a set of clients with their health. The zero value is empty. A
// Group must not be copied. Its methods may be called concurrently.
type Group[C Client] struct {
	mu      sync.Mutex // held to change members
	members atomic.Pointer[[]*Member[C]]
	turns   atomic.Uint64 // counts picks
}

func (g *Group[C]) all() []*Member[C] {
	if members := g.members.Load(); members != nil {
		return *members
	}
	return nil
}

// Add adds clients and returns the new number of clients.
func (g *Group[C]) Add(clients ...C) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	members := slices.Clone(g.all())
	for _, client := range clients {
		members = append(members, &Member[C]{Client: client})
	}
	g.members.Store(&members)
	return len(members)
}

// Remove removes the clients for which remove returns true, and returns the
// number of the remaining ones. remove must not call methods of g.
func (g *Group[C]) Remove(remove func(C) bool) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	members := slices.DeleteFunc(slices.Clone(g.all()), func(m *Member[C]) bool { return remove(m.Client) })
	g.members.Store(&members)
	return len(members)
}

// Members returns the clients with their health. The slice must not be changed.
func (g *Group[C]) Members() []*Member[C] { return g.all() }

// Has reports whether is returns true for one of the clients.
func (g *Group[C]) Has(is func(C) bool) bool {
	return slices.ContainsFunc(g.all(), func(m *Member[C]) bool { return is(m.Client) })
}

// A Member is a client of a Group with its health. The fields after mu are
// guarded by it.
type Member[C Client] struct {
	Client C
	turn   atomic.Uint64 // Group.turns when it was last picked

	// isTroubled is true if one of the fields below may be set: healthy members
	// are picked without a lock.
	isTroubled atomic.Bool

	mu           sync.Mutex
	isDown       bool  // set by SetDown
	failures     int   // consecutive
	penalized    int64 // clock.Nanos; until then it gets fewer requests
	ejections    int   // consecutive
	ejectedAt    int64
	ejectedUntil int64 // clock.Nanos; 0: not ejected. After that time, it waits for a probe
	isProbed     bool  // a probe is in progress
}

// What failures cause.
const (
	PenaltyTime  = time.Second // how long a failure counts
	penalty      = 16          // pending requests; each failure counts as that many
	EjectAfter   = 3           // consecutive failures
	EjectTime    = time.Second // the first time; then it doubles
	MaxEjectTime = 30 * time.Second
)

// A Verdict is what the outcome of a request says about its client.
type Verdict uint8

// The verdicts.
const (
	Unknown Verdict = iota // nothing
	Good
	Bad
)

// A tier orders members; a request goes to the lowest tier.
type tier uint8

const (
	probe   tier = iota // was ejected and may be probed
	usual               // the member with the least load is picked
	ejected             // used only if there is no other
)

// A Pick is a member that was picked for a request.
type Pick[C Client] struct {
	Member  *Member[C]
	began   int64
	isProbe bool
}

// Pick returns the member for the next request, if possible one that is not in
// used: the one with the least load. It returns false if there are no members. Report
// must be called for it.
func (g *Group[C]) Pick(used []*Member[C]) (Pick[C], bool) { return g.PickBy(used, nil) }

// PickBy is Pick, but of the members that are not ejected, it returns the one with the
// largest weight, whatever its load is. nil is Pick.
func (g *Group[C]) PickBy(used []*Member[C], weight func(C) uint64) (Pick[C], bool) {
	members := g.all()
	switch {
	case len(members) == 0:
		return Pick[C]{}, false
	case len(members) == 1 && !members[0].isTroubled.Load(): // there is nothing to choose
		return Pick[C]{Member: members[0], began: math.MinInt64}, true
	}
	now := int64(math.MinInt64) // if all are well: a later failure began later
	if slices.ContainsFunc(members, isTroubled) {
		now = clock.Nanos()
	}
	for {
		best, rank := bestMember(members, used, now, weight)
		if best == nil {
			best, rank = bestMember(members, nil, now, weight)
		}
		isProbe := best.claim(now)
		if rank == probe && !isProbe {
			continue // another request has claimed the probe since
		}
		best.turn.Store(g.turns.Add(1))
		return Pick[C]{best, now, isProbe}, true
	}
}

func isTroubled[C Client](m *Member[C]) bool { return m.isTroubled.Load() }

// bestMember returns the best member that is not in used and its rank, or nil if
// all are. Of equally good members, it returns the one that was picked least
// recently. With weight, one that waits for a probe gets the requests that it would
// have anyway: the first of them is the probe.
func bestMember[C Client](members, used []*Member[C], now int64, weight func(C) uint64) (best *Member[C], bestRank tier) {
	var bestLoad, bestWeight uint64
	for _, m := range members {
		if slices.Contains(used, m) {
			continue
		}
		rank, extra := usual, 0
		if m.isTroubled.Load() {
			rank, extra = m.rank(now)
		}
		load, own := uint64(0), uint64(0)
		if weight != nil {
			rank, own = max(rank, usual), weight(m.Client)
		} else {
			load = uint64(extra + m.Client.PendingRequests())
		}
		isBetter := best == nil || rank < bestRank
		if !isBetter && rank == bestRank {
			isBetter = own > bestWeight || own == bestWeight &&
				(load < bestLoad || load == bestLoad && m.turn.Load() < best.turn.Load())
		}
		if isBetter {
			best, bestRank, bestLoad, bestWeight = m, rank, load, own
		}
	}
	return best, bestRank
}

// rank returns m's rank, and the pending requests as which its failures count.
func (m *Member[C]) rank(now int64) (rank tier, extra int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.isDown:
		return ejected, 0
	case m.ejectedUntil == 0 && now < m.penalized:
		return usual, m.failures * penalty
	case m.ejectedUntil == 0:
		return usual, 0
	case now >= m.ejectedUntil && !m.isProbed:
		return probe, 0
	}
	return ejected, 0
}

// claim reports whether the next request of m is the probe, and if so marks the
// probe as in progress.
func (m *Member[C]) claim(now int64) (isProbe bool) {
	if !m.isTroubled.Load() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isDown || m.ejectedUntil == 0 || now < m.ejectedUntil || m.isProbed {
		return false
	}
	m.isProbed = true
	return true
}

// Report records the outcome of a request.
func (p Pick[C]) Report(verdict Verdict) {
	m := p.Member
	if verdict == Good && !m.isTroubled.Load() {
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
	if verdict == Unknown || isEjected && p.began < m.ejectedAt {
		return
	}
	if verdict == Good {
		m.failures, m.ejections, m.penalized, m.ejectedUntil = 0, 0, 0, 0
		m.isTroubled.Store(m.isDown)
		return
	}
	now := clock.Nanos()
	m.isTroubled.Store(true)
	m.failures++
	m.penalized = now + int64(PenaltyTime)
	if isEjected && p.isProbe || !isEjected && m.failures >= EjectAfter {
		m.ejectLocked(now)
	}
}

// ejectLocked keeps requests away from m for a time. Called with the lock.
func (m *Member[C]) ejectLocked(now int64) {
	length := min(EjectTime<<min(m.ejections, 10), MaxEjectTime)
	m.ejections++
	m.ejectedAt, m.ejectedUntil = now, now+int64(length)
}

// SetDown says what a test of m's health has found. While m is down, it gets requests only
// if no other member is up. What requests say of it is kept apart: Report.
func (m *Member[C]) SetDown(isDown bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isDown = isDown
	if isDown {
		m.isTroubled.Store(true)
	}
}

// IsUp reports whether m gets its part of the requests: it is neither down nor ejected.
func (m *Member[C]) IsUp() bool {
	if !m.isTroubled.Load() {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.isDown && m.ejectedUntil == 0
}
