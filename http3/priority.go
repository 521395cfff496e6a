package http3

import "github.com/sluicehttp/sluice/internal/wire/fieldlist"

// inOrderSize is how much content a response sends before those of later requests, if the
// client has named no priority.
const inOrderSize = 256 << 10

// readPriority applies the field of a request (RFC 9218 section 5).
func (x *exchange) readPriority() {
	value, ok := fieldlist.PriorityField(&x.requestHeader.Table)
	if !ok {
		return
	}
	p := fieldlist.ParsePriority(value, fieldlist.DefaultPriority())
	c := x.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if !x.isUpdated {
		x.prioritizeLocked(p)
	}
}

// mergePriority applies the field of the response to what the client has named (RFC 9218 section 8).
func (x *exchange) mergePriority() {
	value, ok := fieldlist.PriorityField(&x.responseHeader.Table)
	if !ok {
		return
	}
	c := x.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	x.prioritizeLocked(fieldlist.ParsePriority(value, x.priority))
}

// prioritize applies a PRIORITY_UPDATE for the stream id, which may be still to come.
func (c *conn) prioritize(id uint64, p fieldlist.Priority) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id >= c.next {
		if c.early == nil {
			c.early = new(fieldlist.EarlyPriorities[uint64])
		}
		c.early.Keep(id, p)
		return
	}
	for x := c.streams; x != nil; x = x.next {
		if x.id == id {
			x.isUpdated = true
			x.prioritizeLocked(p)
		}
	}
}

// takeTurns counts n bytes of large content. Without a word of the client, a response is not
// incremental (RFC 9218 section 4.2), and a download would delay those of later requests until
// it ends. So it becomes incremental: from then on it shares the connection.
func (s *stream) takeTurns(n int) {
	isFirst := s.inOrder == 0
	wasInOrder := s.inOrder < inOrderSize
	s.inOrder += n
	isInOrder := s.inOrder < inOrderSize
	if wasInOrder == isInOrder && !isFirst {
		return
	}
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.hasPriority && !s.isTunnel {
		s.quic.SetPriority(int8(fieldlist.DefaultPriority().Urgency), !isInOrder)
	}
}

// prioritizeLocked makes p, which the client or the handler has named, the priority of s.
func (s *stream) prioritizeLocked(p fieldlist.Priority) {
	s.priority, s.hasPriority = p, true
	s.quic.SetPriority(int8(p.Urgency), p.IsIncremental)
}
