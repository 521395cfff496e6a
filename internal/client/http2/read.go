package http2

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

// A waiter is a goroutine that may wait for what the connection brings. The zero value is
// ready.
type waiter struct {
	// until is when it is signalled at the latest, in Nanos; 0: no time is set.
	until        int64
	isSignalled  bool
	isWaiting    bool // in Conn.waiting
	older, newer *waiter
	wake         chan struct{} // has room for the one message of unlist
}

// await waits until w is signalled. Meanwhile w leads, unless another one does.
func (c *Conn) await(w *waiter) {
	c.setDue(w.until)
	for !w.isSignalled {
		switch c.leader {
		case nil:
			c.leader = w
		case w:
			c.lead(w, c.due)
		default:
			c.follow(w)
		}
	}
	w.isSignalled = false
	if c.leader == w {
		c.passLead()
	}
}

// setUntil makes w wait until a time, which is 0 for no limit.
func (c *Conn) setUntil(w *waiter, at int64) {
	w.until = at
	if w.isWaiting || c.leader == w {
		c.setDue(at)
	}
}

// lead reads once, until due, and handles what has come. It reports whether anything has.
func (c *Conn) lead(w *waiter, due int64) (hasRead bool) {
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
	c.flush(w)
	return n > 0
}

// received handles the result of a read.
func (c *Conn) received(in []byte, err error) {
	now := clock.Nanos()
	if len(in) > 0 {
		c.lastRead = now
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
		c.closeNow(err)
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

// follow waits until w is signalled or becomes the leader.
func (c *Conn) follow(w *waiter) {
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
	}
	w.isWaiting = true
	w.older = c.waiting
	if w.older != nil {
		w.older.newer = w
	}
	c.waiting = w
	c.unlock()
	<-w.wake
	c.mu.Lock()
}

// signal makes await return for w, when a read or a write in which it is has ended.
func (c *Conn) signal(w *waiter) {
	w.isSignalled = true
	if w.isWaiting {
		c.unlist(w)
	}
}

// unlist ends the waiting of w.
func (c *Conn) unlist(w *waiter) {
	if w.newer != nil {
		w.newer.older = w.older
	} else {
		c.waiting = w.older
	}
	if w.older != nil {
		w.older.newer = w.newer
	}
	w.older, w.newer, w.isWaiting = nil, nil, false
	w.wake <- struct{}{}
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
func (c *Conn) catchUp(w *waiter) {
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
		c.leader = w
		hasRead := c.lead(w, due)
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
	_ = c.conn.SetReadDeadline(clock.DeadlineOrNone(due)) // a failure shows when reading
}

// wake signals w, and ends a read or a write in which it is.
func (c *Conn) wake(w *waiter) {
	c.signal(w)
	c.interrupt(w)
}

// interrupt makes the goroutine of w, which was signalled, return from a read or a write.
func (c *Conn) interrupt(w *waiter) {
	if c.leader == w && c.isReading {
		c.readLimit = passed
		_ = c.conn.SetReadDeadline(clock.Past())
	}
	if c.writer == w && !c.cfg.IsTLS {
		c.writeLimit = passed
		_ = c.conn.SetWriteDeadline(clock.Past())
	}
}

// expire ends what is due, and finds out what is due next.
func (c *Conn) expire(now int64) {
	if c.endIfSilent(now) {
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
		default:
			c.due = earlier(c.due, s.due)
		}
	}
	if w := c.leader; w != nil && !c.signalAt(w, now) {
		c.due = earlier(c.due, w.until)
	}
	for w := c.waiting; w != nil; {
		older := w.older
		if !c.signalAt(w, now) {
			c.due = earlier(c.due, w.until)
		}
		w = older
	}
}

// signalAt signals w if its time is over, and reports whether that is so.
func (c *Conn) signalAt(w *waiter, now int64) bool {
	if !isOver(w.until, now) {
		return false
	}
	c.signal(w)
	return true
}

// isOver reports whether a time, of which 0 is never, is over.
func isOver(at, now int64) bool { return at != 0 && at <= now }
