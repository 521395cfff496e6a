package netconn

import "sync"

// registry knows every connection of an engine. The list is intrusive, so that joining
// and leaving it allocates nothing.
type registry struct {
	mu   sync.Mutex
	head *conn
	open int
	over bool // nothing is added any more
}

// links is a conn's place in the registry, guarded by its lock.
type links struct {
	next *conn
	at   **conn // what points to the conn; nil: it is not registered
}

// add registers c, unless the engine has ended. The fields that Range's callers may look at are set.
func (r *registry) add(c *conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false
	}
	if c.next = r.head; c.next != nil {
		c.next.at = &c.next
	}
	c.at, r.head = &r.head, c
	r.open++
	return true
}

// remove takes c out, if it is registered, and reports whether it was the last one.
func (r *registry) remove(c *conn) (wasLast bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.at == nil {
		return false
	}
	if *c.at = c.next; c.next != nil {
		c.next.at = c.at
	}
	c.links = links{}
	r.open--
	return r.open == 0
}

// end makes add refuse from now on, unless a connection is registered or a Task of p has not
// ended: Tasks may bring connections.
func (r *registry) end(p *taskPool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = r.open == 0 && p.end()
	return r.over
}

// each calls f for every connection until f returns false. It holds the lock: no
// connection ends while f looks at it.
func (r *registry) each(f func(*conn) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := r.head; c != nil && f(c); c = c.next {
	}
}
