//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package load

// room returns how many requests may be begun on a connection.
func (l *loop) room(c *conn) int {
	switch {
	case c.session != nil && c.fd >= 0 && (c.state == idle || c.state == busy):
		return max(c.session.room()-len(c.due), 0)
	case c.state == idle:
		return l.Depth
	}
	return 0
}

// fill gives a connection as many requests as it has room for, if they are to be sent
// now.
func (l *loop) fill(c *conn) {
	if c.session.open == 0 {
		c.state = idle
	}
	room := l.room(c)
	if l.schedule != nil && !l.isSpent {
		if room > 0 {
			l.idle.push(c)
		}
		room = 0
	}
	if room > 0 && !l.isSpent {
		n := l.begin(room)
		l.isSpent = n < room
		l.rec.Sent += int64(n)
		for range n {
			c.due = append(c.due, l.now)
		}
	}
	switch {
	case len(c.due) > 0:
		l.sendStreams(c)
	case l.isSpent && c.session.open == 0:
		l.finish(c)
	}
}

// sendStreams begins the requests that wait, as far as there is room.
func (l *loop) sendStreams(c *conn) {
	s := c.session
	if c.state != busy {
		c.state, c.since = busy, l.now
	}
	n := min(len(c.due), s.room())
	for _, due := range c.due[:n] {
		s.begin(due, l.now)
	}
	c.due = c.due[:copy(c.due, c.due[n:])]
	l.transmit(c)
}

// takeFrames acts on what was received.
func (l *loop) takeFrames(c *conn, in []byte) {
	s, generation, isFirst := c.session, c.generation, true
	for len(in) > 0 {
		used, n, err := s.feed(in)
		in = in[used:]
		switch {
		case err != nil && c.state == greeting:
			l.notConnected(c, err)
			return
		case err != nil:
			l.fail(c, Invalid, err)
			return
		case n.kind == greeted:
			l.established(c)
		case n.kind == leaving && n.err != nil:
			if c.hasRequests() {
				l.fail(c, GoAway, n.err)
				return
			}
		case n.kind == leaving:
			c.due = s.unprocessed(c.due, n.last)
		case n.kind == failed:
			l.rec.failed(n.fault, n.err, 1)
			s.drop(n.x)
		case n.kind == answered:
			if isFirst {
				isFirst = false
				l.now = l.clock.now()
			}
			l.rec.answered(n.x.status, n.x.due, n.x.sent, l.now)
			s.drop(n.x)
			c.responses++
			c.failures = 0
			if l.OncePerConn {
				l.part(c)
				return
			}
		}
		if c.generation != generation {
			return
		}
	}
	c.since = l.now
	l.proceed(c)
}

// proceed sends what follows from what was received.
func (l *loop) proceed(c *conn) {
	s := c.session
	isBetween := s.open == 0 && (c.state == busy || c.state == idle)
	switch {
	case isBetween && s.isLeaving && len(c.due) > 0:
		l.part(c)
		return
	case isBetween && s.isLeaving:
		c.state, c.since = parting, l.now
	case len(c.due) > 0 && c.state != greeting:
		l.sendStreams(c)
	case isBetween && c.toWarm >= 0 && l.toWarm > 0:
		l.warmNext(c)
	case c.state != greeting && c.state != parting && c.toWarm == 0 && l.toWarm == 0:
		l.fill(c)
	}
	if c.fd >= 0 {
		l.transmit(c)
	}
}

// overdue ends the requests that have waited for their responses for too long, and the
// connection if nothing at all comes.
func (l *loop) overdue(c *conn) {
	s, limit := c.session, l.now-int64(l.Timeout)
	if c.since < limit {
		for _, due := range c.underWay(nil) {
			record(l.rec.now.total, l.now-due)
		}
		l.fail(c, Timeout, errResponseTimeout)
		return
	}
	before := s.open
	for i := range s.slots {
		if x := &s.slots[i]; x.id != 0 && x.sent < limit {
			record(l.rec.now.total, l.now-x.due)
			l.rec.failed(Timeout, errResponseTimeout, 1)
			s.cancel(x)
		}
	}
	if s.open < before {
		l.proceed(c)
	}
}
