//go:build linux && (amd64 || arm64)

package core

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/engine/compact"
	"github.com/sluicehttp/sluice/internal/wire/tls13"
)

const (
	// coolingPeriod is the time between two rounds of the cooler.
	coolingPeriod = time.Second
	// checkedPeriod is that in builds with the race detector: connections of every test cool
	// down there.
	checkedPeriod = 2 * time.Millisecond
	// coolingRounds is how many rounds a connection has its ciphers after its last use: making
	// them costs as much as a request. One that has waited for longer than that, and is used
	// once, does not keep them: pings and signs of life would keep a tenth of all
	// connections warm.
	coolingRounds = 2
)

// coldConns are the TLS connections of a chunk that wait without a tlsConn. The owner of a
// connection owns its entries.
type coldConns struct {
	// states has whole pages and no pointers. It is made for the first cold connection.
	states atomic.Pointer[[chunkSize]tls13.Packed]
	notes  [chunkSize]coldNote // in what the chunk leaves of its last page

	mu    sync.Mutex
	facts []sharedFacts
	large map[int]*tls13.State // those that cannot be packed, which are rare
}

type coldNote struct {
	facts  uint16 // index of coldConns.facts
	usedIn uint16 // the low half of tlsConn.usedIn
}

// sharedFacts are those of some cold connections of a chunk, or free.
type sharedFacts struct {
	facts *compact.Facts
	conns int
}

// put moves the state of the connection at an index here, with its facts.
func (all *coldConns) put(index int, state *tls13.State, facts *compact.Facts) {
	isPacked := state.Pack(&loadOrMake(&all.states)[index])
	all.mu.Lock()
	defer all.mu.Unlock()
	all.notes[index].facts = all.shareLocked(facts)
	if isPacked {
		return
	}
	if all.large == nil {
		all.large = make(map[int]*tls13.State)
	}
	kept := *state
	all.large[index] = &kept
	state.Erase()
}

// shareLocked returns the index of facts, which have one connection more.
func (all *coldConns) shareLocked(facts *compact.Facts) uint16 {
	at := -1
	for i := range all.facts {
		if all.facts[i].facts == facts {
			at = i
			break
		}
		if all.facts[i].conns == 0 {
			at = i
		}
	}
	if at < 0 {
		at = len(all.facts)
		all.facts = append(all.facts, sharedFacts{})
	}
	all.facts[at].facts = facts
	all.facts[at].conns++
	return uint16(at)
}

// take moves the state to another place, and returns the facts.
func (all *coldConns) take(index int, state *tls13.State) *compact.Facts {
	isPacked := all.states.Load()[index].Unpack(state)
	all.mu.Lock()
	defer all.mu.Unlock()
	if !isPacked {
		kept := all.large[index]
		delete(all.large, index)
		*state = *kept
		kept.Erase()
	}
	shared := &all.facts[all.notes[index].facts]
	facts := shared.facts
	if shared.conns--; shared.conns == 0 {
		shared.facts = nil
	}
	return facts
}

// coolDown replaces the tlsConn of an idle connection by its state and facts.
func (p place) coolDown(s *tlsConn) {
	all := &p.chunk.cold
	var state tls13.State
	facts := s.compact.Pause(&state)
	all.put(p.index, &state, facts)
	all.notes[p.index].usedIn = uint16(s.usedIn)
	p.setTLSConn(nil)
	s.driver.loopOf(p.slot()).cold.Add(1)
}

// rest is called when an idle connection is about to be released. One that was cold, and is
// used now and then, cools down at once.
func (p place) rest(s *tlsConn) {
	s.conn = nil
	if s.isBrief && s.isBetween() {
		p.coolDown(s)
		return
	}
	s.isBrief = false
	s.driver.cooler.add(s)
}

// bindTLS gives c its tlsConn. If it had cooled down, it gets a new one.
func (c *conn) bindTLS() {
	if s := c.place.tlsConn(); s != nil {
		s.conn, c.tlsConn = c, s
		return
	}
	s, cold := c.newTLSConn(), &c.place.chunk.cold
	last := cold.notes[c.place.index].usedIn
	s.usedIn = c.driver.cooler.round.Load()
	s.isBrief = uint16(s.usedIn)-last >= coolingRounds
	if c.slot().has(flagExpired) { // no use: a peer that answers a ping uses it once
		s.usedIn, s.isBrief = uint32(last), true
	}
	var state tls13.State
	facts := cold.take(c.place.index, &state)
	// After an error, every use of s.compact returns one.
	s.compact, _ = compact.NewConn(s, &state, facts)
	s.session = s.compact
	c.loop.cold.Add(-1)
}

// eraseTLS erases the keys of a connection that has ended.
func (c *conn) eraseTLS() {
	if c.tlsConn != nil && c.tlsConn.compact != nil {
		c.tlsConn.compact.End()
	}
}

// A cooler takes from waiting TLS connections what they do not need to wait: from idle ones
// the tlsConn, from those that wait in the middle of something the ciphers in it. It visits
// those that were used once a round, as long as there are any.
type cooler struct {
	driver *driver
	period time.Duration // coolingPeriod, but for tests
	round  atomic.Uint32

	mu       sync.Mutex
	warm     []warmConn
	isTimed  bool
	isClosed bool
}

// A warmConn names a connection, which may have ended since.
type warmConn struct {
	fd  int32
	gen uint32
}

// add notes that a connection is about to wait. The caller owns it.
func (k *cooler) add(s *tlsConn) {
	s.usedIn = k.round.Load()
	if s.compact == nil || s.isCooling {
		return
	}
	s.isCooling = true
	k.mu.Lock()
	defer k.mu.Unlock()
	k.warm = append(k.warm, warmConn{s.fd, s.gen})
	k.scheduleLocked()
}

func (k *cooler) scheduleLocked() {
	if !k.isTimed && !k.isClosed {
		k.isTimed = true
		time.AfterFunc(k.period, k.turn)
	}
}

// turn visits the connections.
func (k *cooler) turn() {
	now := k.round.Add(1)
	k.mu.Lock()
	warm := k.warm
	k.warm = nil
	k.mu.Unlock()
	kept := warm[:0]
	for _, w := range warm {
		if k.visit(w, now) {
			kept = append(kept, w)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.warm = append(kept, k.warm...)
	k.isTimed = false
	if len(k.warm) == 0 {
		k.warm = nil // there may have been many
		return
	}
	k.scheduleLocked()
}

// visit cools a connection down if it was idle for long. The result true means that it is to
// be visited again.
func (k *cooler) visit(w warmConn, now uint32) bool {
	d := k.driver
	p := d.table.find(int(w.fd))
	if p.chunk == nil {
		return false
	}
	slot := p.slot()
	if !slot.claimFor(w.gen, 0) {
		return is(slot.word.Load(), w.gen)
	}
	parked := slot.word.Load() & (flagPartial | flagBlocked | flagFixed | flagDuplex)
	s := p.tlsConn()
	stays := s != nil && now-s.usedIn < coolingRounds
	switch {
	case stays:
	case s == nil: // it has cooled down after it waited in the middle of something
	case s.conn == nil && s.isBetween():
		p.coolDown(s)
	default:
		s.compact.Rest()
		s.isCooling = false // until it waits again
	}
	expiry := slot.expiry.Load()
	if slot.release(parked) {
		d.released(int(w.fd), slot, w.gen, expiry)
	} else {
		d.loopOf(slot).queue.push(w.fd)
	}
	return stays
}

func (k *cooler) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.isClosed = true
}
