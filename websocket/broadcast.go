package websocket

import (
	"sync"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// castBatch is how many members a broadcast sends to before others may join and leave.
const castBatch = 256

// A Group is a set of connections that get the same messages. The zero value is empty.
// Its methods may be called by any number of goroutines. A connection is removed at its
// end, before OnClose is called. Package room has groups with names.
type Group struct {
	// Name is what Endpoint.OnMoved gets in another process. Connections in a Group
	// without a name do not move. It must be set before the first Add.
	Name string
	// OnEmpty is called when the last member has left. Members may have been added
	// meanwhile. It must be set before the first Add, and must not block: it may run on a
	// goroutine that serves connections.
	OnEmpty func()

	// Mover is the one of all Groups with the same history of messages. If nil, members that
	// move may miss messages. It must be set before the first Add.
	Mover *Mover

	order sync.Mutex // held by broadcasts: all members see one order

	mu      sync.Mutex
	members []*Conn // nil: a hole, which is closed after the broadcast
	holes   int
	isCast  bool // a broadcast is running: members keep their places
}

// A Mover knows which messages the members of its Groups have got, so that those that move
// to another process get each of the next ones once. Package room has one for each hub.
type Mover struct {
	// Hold returns a mark of what the members of these Groups have got, and keeps messages
	// from them until release is called. Conn.TakeMark returns the mark in the other process.
	// ok is false if they are getting a message; then it holds nothing. It must not wait.
	Hold func(groups []string) (mark string, release func(), ok bool)
}

// Add makes c a member. It returns ErrClosed if c is closing or has ended, and nil if it
// is a member already. A message that is broadcast meanwhile may reach it or not.
func (g *Group) Add(c *Conn) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.lock().Lock()
	defer c.lock().Unlock()
	if c.phase != phaseOpen {
		return c.endedLocked()
	}
	if c.membershipLocked(g) == nil {
		c.joinLocked(membership{group: g, place: int32(len(g.members))})
		g.members = append(g.members, c)
	}
	return nil
}

// Remove removes c, and reports whether it was a member.
func (g *Group) Remove(c *Conn) bool {
	wasMember, isEmpty := g.remove(c)
	if isEmpty && g.OnEmpty != nil {
		g.OnEmpty()
	}
	return wasMember
}

func (g *Group) remove(c *Conn) (wasMember, isEmpty bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.lock().Lock()
	m := c.membershipLocked(g)
	if m == nil {
		c.lock().Unlock()
		return false, false
	}
	place := m.place
	c.leaveLocked(m)
	c.lock().Unlock()
	g.members[place] = nil
	g.holes++
	if !g.isCast {
		g.fillLocked(place)
	}
	return true, len(g.members) == g.holes
}

// fillLocked closes the hole at place with the last member.
func (g *Group) fillLocked(place int32) {
	last := len(g.members) - 1
	c := g.members[last]
	g.members[last] = nil
	g.members = g.members[:last]
	g.holes--
	if int(place) == last {
		return
	}
	g.members[place] = c
	c.lock().Lock()
	c.membershipLocked(g).place = place
	c.lock().Unlock()
}

// fillAllLocked closes the holes that a broadcast has left, from the end: so the last member
// is never a hole when it is moved.
func (g *Group) fillAllLocked() {
	for place := len(g.members) - 1; g.holes > 0 && place >= 0; place-- {
		if g.members[place] == nil {
			g.fillLocked(int32(place))
		}
	}
}

// Len returns the number of members.
func (g *Group) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.members) - g.holes
}

// Range calls f for every member until f returns false. f may use the Group. A connection
// that joins or leaves meanwhile may be visited or not.
func (g *Group) Range(f func(c *Conn) bool) {
	g.mu.Lock()
	members := make([]*Conn, 0, len(g.members)-g.holes)
	for _, c := range g.members {
		if c != nil {
			members = append(members, c)
		}
	}
	g.mu.Unlock()
	for _, c := range members {
		if !f(c) {
			return
		}
	}
}

// Broadcast sends p to all members, except one if except is not nil, and returns to how
// many it was sent, or waits to be sent. It does not wait for slow peers: Endpoint.Slow
// says what becomes of their messages. Connections that are idle get the message on the
// caller's goroutine. Broadcasts of a Group run one after the other, so that all members
// see one order.
func (g *Group) Broadcast(p *Prepared, except *Conn) (sent int) {
	g.order.Lock()
	defer g.order.Unlock()
	g.mu.Lock()
	g.isCast = true
	count := len(g.members) // those who join now come after the message
	g.mu.Unlock()
	b := acquireBroadcast(p)
	for from := 0; from < count; from += castBatch {
		g.mu.Lock()
		b.collect(g.members[from:min(from+castBatch, count)], except)
		g.mu.Unlock()
		b.send()
	}
	sent = b.sent
	releaseBroadcast(b)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isCast = false
	g.fillAllLocked()
	return sent
}

// A broadcast is a Broadcast that is running.
type broadcast struct {
	prepared *Prepared
	sent     int
	conns    [castBatch]*Conn // of the batch
	targets  [castBatch]engine.Target
	count    int
	// For one call of Cast:
	from    int         // the place of the first one
	missed  int         // how many have missed the message
	onMiss  func(i int) // b.miss
	waiters [castBatch]*Conn
}

// A castForm is how a member gets a message.
type castForm uint8

const (
	castPlain castForm = iota
	castPacked
	castPushed // by its outbox
	castForms
)

// form returns that of c. A compressed message changes what later ones may refer to, in the
// order of the outbox.
func (b *broadcast) form(c *Conn) castForm {
	switch {
	case !b.prepared.isLong(c.out):
		return castPlain
	case c.out.Keeps():
		return castPushed
	}
	return castPacked
}

// collect makes members the next batch: those that get the message in one form follow each
// other.
func (b *broadcast) collect(members []*Conn, except *Conn) {
	b.count = 0
	for form := range castForms {
		others := false
		for _, c := range members {
			switch {
			case c == nil || c == except:
			case b.form(c) == form:
				b.conns[b.count], b.targets[b.count] = c, c.target
				if c.host.isClient {
					b.targets[b.count] = engine.Target{} // Cast misses it
				}
				b.count++
			default:
				others = true
			}
		}
		if !others {
			return
		}
	}
}

// send sends to the batch: with one Cast for those that follow each other, get the message
// in one form and are of one server, and by their outboxes to those that Cast has missed.
func (b *broadcast) send() {
	for from := 0; from < b.count; {
		to := from + 1
		server, form := b.conns[from].host.server, b.form(b.conns[from])
		for to < b.count && b.conns[to].host.server == server && b.form(b.conns[to]) == form {
			to++
		}
		if form == castPushed {
			b.push(b.conns[from:to])
		} else {
			b.cast(server, form == castPacked && b.prepared.pack(), from, to)
		}
		from = to
	}
	clear(b.conns[:b.count])
}

// push sends to conns by their outboxes.
func (b *broadcast) push(conns []*Conn) {
	for _, c := range conns {
		if c.push(b.prepared) == nil {
			b.sent++
		}
	}
}

func (b *broadcast) cast(server upgrade.Server, isPacked bool, from, to int) {
	b.from, b.missed = from, 0
	frame := b.prepared.bytes(isPacked)
	server.Cast(b.targets[from:to], frame, b.onMiss)
	cast := to - from - b.missed
	server.Count(0, cast*len(frame))
	b.conns[from].countSent(cast)
	b.sent += cast
	b.push(b.waiters[:b.missed])
	clear(b.waiters[:b.missed])
}

// miss is called for the targets that have missed the message, in their order.
func (b *broadcast) miss(i int) {
	b.waiters[b.missed] = b.conns[b.from+i]
	b.missed++
}

// push is WritePrepared for a broadcast, which never waits.
func (c *Conn) push(p *Prepared) error {
	policy := c.host.Endpoint.Slow
	if policy == SlowBlock {
		policy = SlowClose
	}
	m := c.shared(p)
	c.lock().Lock()
	defer c.lock().Unlock()
	return c.offerLocked(&m, policy)
}

// membershipLocked returns that of g, nil if c is no member.
func (c *Conn) membershipLocked(g *Group) *membership {
	m := c.guarded
	switch {
	case m == nil:
		return nil
	case m.group.group == g:
		return &m.group
	case m.calls == nil:
		return nil
	}
	for i := range m.calls.groups {
		if m.calls.groups[i].group == g {
			return &m.calls.groups[i]
		}
	}
	return nil
}

// joinLocked adds a membership.
func (c *Conn) joinLocked(in membership) {
	m := c.ensureStateLocked()
	if m.group.group == nil {
		m.group = in
		return
	}
	m.ensureCallsLocked().groups = append(m.calls.groups, in)
}

// leaveLocked removes a membership.
func (c *Conn) leaveLocked(out *membership) {
	m := c.guarded
	if m.calls == nil || len(m.calls.groups) == 0 {
		m.group = membership{}
		c.releaseIdleStateLocked()
		return
	}
	last := len(m.calls.groups) - 1
	*out = m.calls.groups[last]
	m.calls.groups[last] = membership{}
	m.calls.groups = m.calls.groups[:last]
}

// releaseIdleStateLocked frees the connState of a Conn that sleeps and has nothing to keep
// any more.
func (c *Conn) releaseIdleStateLocked() {
	if m := c.guarded; m.session == nil && c.phase == phaseOpen && !m.keepsLocked() {
		c.guarded = nil
		releaseConnState(m)
	}
}

// leaveGroups ends all memberships of a Conn that has ended.
func (c *Conn) leaveGroups() {
	for {
		c.lock().Lock()
		g := c.guarded.group.group
		c.lock().Unlock()
		if g == nil {
			return
		}
		g.Remove(c)
	}
}
