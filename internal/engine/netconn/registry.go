package netconn

import (
	"sync"
	"sync/atomic"
)

// registry knows every connection of an engine. The list is intrusive, so that
// joining and leaving it allocates nothing.
type registry struct {
	shards []registryShard
	open   atomic.Int64 // connections in all shards
	turn   atomic.Uint32
}

type registryShard struct {
	mu   sync.Mutex
	head *conn
	_    [48]byte // a cache line to itself
}

// links is a conn's place in its registryShard, guarded by the shard's lock.
type links struct {
	prev, next *conn
}

// assign picks the shard that a new worker uses for all of its connections.
func (r *registry) assign() uint16 {
	return uint16(int(r.turn.Add(1)) & (len(r.shards) - 1))
}

// add registers c. The fields that Range's callers may look at are set.
func (r *registry) add(c *conn) {
	s := &r.shards[c.shard]
	s.mu.Lock()
	c.links.next = s.head
	if s.head != nil {
		s.head.links.prev = c
	}
	s.head = c
	s.mu.Unlock()
	r.open.Add(1)
}

// remove takes c out and returns the number of connections left.
func (r *registry) remove(c *conn) int64 {
	s := &r.shards[c.shard]
	s.mu.Lock()
	if c.links.prev != nil {
		c.links.prev.links.next = c.links.next
	} else {
		s.head = c.links.next
	}
	if c.links.next != nil {
		c.links.next.links.prev = c.links.prev
	}
	c.links = links{}
	s.mu.Unlock()
	return r.open.Add(-1)
}

// each calls f for every connection until f returns false. A connection cannot
// leave, and so cannot be re-used, while f looks at it.
func (r *registry) each(f func(*conn) bool) {
	for i := range r.shards {
		if !r.shards[i].each(f) {
			return
		}
	}
}

func (s *registryShard) each(f func(*conn) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := s.head; c != nil; c = c.links.next {
		if !f(c) {
			return false
		}
	}
	return true
}
