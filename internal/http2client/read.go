package http2client

import (
	"errors"
	"net"
	"os"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
)

const (
	// inputSize is how many bytes are read at once.
	inputSize = 32 << 10
	// catchUpTime is how long the rest of a TLS record may take whose beginning has come.
	catchUpTime = int64(2 * time.Millisecond)
	// maxCatchUps bounds the reads before a request.
	maxCatchUps = 64
)

// await waits until s is signalled. Meanwhile s leads, unless another stream does.
func (c *Conn) await(s *Stream) {
	for !s.isSignalled {
		switch c.leader {
		case nil:
			c.leader = s
		case s:
			c.lead(s, c.due)
		default:
			c.follow(s)
		}
	}
	s.isSignalled = false
	if c.leader == s {
		c.passLead()
	}
}

// lead reads once, until due, and handles what has come. It tells whether anything has.
func (c *Conn) lead(s *Stream, due int64) (hasRead bool) {
	if c.in == nil {
		c.in = buf.Get(inputSize)
	}
	in := c.in.B[:inputSize]
	c.limitRead(due)
	c.isReading = true
	c.unlock()
	n, err := c.conn.Read(in)
	c.mu.Lock()
	c.isReading = false
	if c.phase < phaseFailed {
		c.received(in[:n], err)
	}
	c.flush(s)
	return n > 0
}

// received handles the result of a read.
func (c *Conn) received(in []byte, err error) {
	now := clock.Nanos()
	if len(in) > 0 {
		c.heard = now
		if c.phase != phaseBroken {
			c.pingDue = 0
		}
		c.parse(in, now)
	}
	switch {
	case err == nil:
	case isTimeout(err):
		c.readLimit = passed
		c.expire(now)
	default:
		c.die(err)
	}
}

// isTimeout reports whether a deadline has ended a read or write.
func isTimeout(err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}

// follow waits until s is signalled or becomes the leader.
func (c *Conn) follow(s *Stream) {
	if s.wake == nil {
		s.wake = make(chan struct{}, 1)
	}
	s.isWaiting = true
	s.older = c.waiting
	if s.older != nil {
		s.older.newer = s
	}
	c.waiting = s
	c.unlock()
	<-s.wake
	c.mu.Lock()
}

// signal makes await return for s.
func (c *Conn) signal(s *Stream) {
	s.isSignalled = true
	if s.isWaiting {
		c.unlist(s)
	}
}

// unlist ends the waiting of s.
func (c *Conn) unlist(s *Stream) {
	if s.newer != nil {
		s.newer.older = s.older
	} else {
		c.waiting = s.older
	}
	if s.older != nil {
		s.older.newer = s.newer
	}
	s.older, s.newer, s.isWaiting = nil, nil, false
	s.wake <- struct{}{}
}

// passLead ends the lead of its caller. The newest stream that waits follows: its
// response probably comes last, so that the lead seldom passes on.
func (c *Conn) passLead() {
	if c.leader = c.waiting; c.leader != nil {
		c.unlist(c.leader)
		return
	}
	if c.in != nil {
		c.in.Release()
		c.in = nil
	}
}

// catchUp handles what has come while nobody read, without waiting for more.
func (c *Conn) catchUp(s *Stream) {
	for range maxCatchUps {
		if c.leader != nil || c.phase >= phaseFailed {
			return
		}
		isQuiet := c.peek.IsQuiet()
		if isQuiet && !c.cfg.IsTLS {
			return
		}
		due := clock.Nanos()
		if !isQuiet {
			due += catchUpTime
		}
		c.leader = s
		hasRead := c.lead(s, due)
		c.passLead()
		if !hasRead {
			return
		}
	}
}

// setDue notes that something is due at a time; 0: nothing is.
func (c *Conn) setDue(at int64) {
	if at == 0 || c.due != 0 && c.due <= at {
		return
	}
	c.due = at
	switch { // an interrupted leader does it itself
	case c.isReading && c.readLimit != passed:
		c.limitRead(at)
	case c.writer != nil && c.writer == c.leader && c.writeLimit != passed && !c.cfg.IsTLS:
		c.limitWrite(at, clock.Nanos())
	}
}

// limitRead makes reads end at due, or before; 0: they need not end. A deadline that is
// too early costs one read, a change of it costs the same: so it is changed seldom.
func (c *Conn) limitRead(due int64) {
	if c.readLimit == 0 && due == 0 || c.readLimit != 0 && c.readLimit != passed && (due == 0 || c.readLimit <= due) {
		return
	}
	c.readLimit = due
	_ = c.conn.SetReadDeadline(deadlineOf(due)) // a failure shows when reading
}

// deadlineOf returns the time of a deadline in Nanos; 0: there is none.
func deadlineOf(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return clock.Deadline(at)
}

// longAgo returns a deadline that has passed.
func longAgo() time.Time { return time.Unix(1, 0) }

// interrupt makes the goroutine of s return from a read or a write, if s has ended while
// it is there.
func (c *Conn) interrupt(s *Stream) {
	if c.leader == s && c.isReading {
		c.readLimit = passed
		_ = c.conn.SetReadDeadline(longAgo())
	}
	if c.writer == s && !c.cfg.IsTLS {
		c.writeLimit = passed
		_ = c.conn.SetWriteDeadline(longAgo())
	}
}

// expire ends what is due, and finds out what is due next.
func (c *Conn) expire(now int64) {
	switch {
	case c.pingDue == 0 || c.pingDue > now:
	case c.phase == phaseBroken:
		c.die(c.failure)
		return
	default:
		c.die(ErrNoPing)
		return
	}
	if c.due = c.pingDue; len(c.streams) > 0 {
		c.due = c.checkHealth(now)
	}
	for _, s := range c.streams {
		switch {
		case s.due == 0:
		case s.due <= now:
			c.cancel(s, os.ErrDeadlineExceeded)
		case c.due == 0 || s.due < c.due:
			c.due = s.due
		}
	}
}
