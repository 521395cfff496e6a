package sse

import (
	"hash/maphash"
	"sync"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// castBatch is how many members get an event before others may come and go.
const castBatch = 256

// orderOf returns the lock under which the events of a topic are sent.
func (h *Hub) orderOf(topic string) *sync.Mutex {
	return &h.order[maphash.String(h.seed, topic)%uint64(len(h.order))]
}

// A cast sends an event to the members of its topic that are idle and have got everything
// before. The others get it from the log.
type cast struct {
	topic    *topic // nil: nothing is to be sent
	chunk    []byte
	sequence uint64 // of the event
	before   uint64 // of the topic's event before it

	streams [castBatch]*stream // of the batch
	hosts   [castBatch]*host
	targets [castBatch]engine.Target
	count   int
	missed  [castBatch]bool
	from    int         // the place of the first target of a call of Cast
	onMiss  func(i int) // c.miss
}

// beginLocked adds an event to the log; mu is held.
func (h *Hub) beginLocked(topic string, m mark, e *Event) *cast {
	t, before := h.log.add(topic, m, e, clock.Nanos())
	if t == nil || len(t.members) == 0 {
		return nil
	}
	t.isCast = true
	c := acquireCast()
	c.topic, c.before, c.sequence, c.chunk = t, before, h.log.last, h.log.at(h.log.last).chunk
	return c
}

// castLocked sends the event; the order of its topic is held.
func (h *Hub) castLocked(c *cast) {
	if c == nil {
		return
	}
	for from, hasMore := 0, true; hasMore; from += castBatch {
		h.mu.Lock()
		hasMore = h.collectLocked(c, from)
		h.mu.Unlock()
		c.send()
		h.mu.Lock()
		h.finishLocked(c)
		h.mu.Unlock()
	}
	h.mu.Lock()
	c.topic.isCast = false
	h.log.forget(c.topic)
	h.mu.Unlock()
	releaseCast(c)
}

// collectLocked makes those members of a batch the next targets that get the event now. Those that
// need something else are prompted. A member that lags, or that another cast has, will
// send the event itself. mu is held.
func (h *Hub) collectLocked(c *cast, from int) (hasMore bool) {
	members := c.topic.members
	to := min(from+castBatch, len(members))
	for _, s := range members[min(from, to):to] {
		sub := s.of(c.topic)
		switch {
		case sub.sent != c.before || s.isCast:
		case s.target.Generation == 0 || s.form != formChunked || s.extra.had != nil || h.lagsElsewhereLocked(s, sub):
			s.promptLocked()
		default:
			s.isCast = true
			c.streams[c.count], c.hosts[c.count], c.targets[c.count] = s, s.extra.host, s.target
			c.count++
		}
	}
	return to < len(members)
}

// lagsElsewhereLocked reports whether s lags in another topic than that of sub.
func (h *Hub) lagsElsewhereLocked(s *stream, sub *subscription) bool {
	for i := range s.subscriptions() {
		if in := s.subscription(i); in != sub && in.sent < in.topic.last {
			return true
		}
	}
	return false
}

// send sends to the batch, with one Cast for those of one server that follow each other.
func (c *cast) send() {
	for from := 0; from < c.count; {
		to, host := from+1, c.hosts[from]
		for to < c.count && c.hosts[to] == host {
			to++
		}
		c.from = from
		host.server.Cast(c.targets[from:to], c.chunk, c.onMiss)
		sent := 0
		for _, isMissed := range c.missed[from:to] {
			if !isMissed {
				sent++
			}
		}
		host.server.Count(0, sent*len(c.chunk))
		from = to
	}
}

// miss is called for the targets that have missed the event.
func (c *cast) miss(i int) { c.missed[c.from+i] = true }

// finishLocked ends a batch. Streams that have missed the event, or for which there are other ones
// meanwhile, are prompted. mu is held.
func (h *Hub) finishLocked(c *cast) {
	for i, s := range c.streams[:c.count] {
		s.isCast = false
		if s.phase == phaseOpen {
			if !c.missed[i] {
				s.of(c.topic).sent = c.sequence
			}
			if h.lagsLocked(s) {
				s.promptLocked()
			}
		}
	}
	clear(c.streams[:c.count])
	clear(c.hosts[:c.count])
	clear(c.missed[:c.count])
	c.count = 0
}
