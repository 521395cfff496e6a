package perconn

import (
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// A deadline costs two words per request. The timer behind it is only set when
// the connection is about to wait and the timer that is set would be too late,
// or early by more than this fraction of the time-out (as a shift). When it goes
// off early it is set again, to the point.
const slackShift = 3

// hotTime is how long the plain path waits with a buffer in its hands, at least.
const hotTime = int64(time.Second)

// maxSpurious is how many timeouts without a deadline a connection may report
// in a row.
const maxSpurious = 10

// SetReadDeadline implements engine.Conn.
func (c *conn) SetReadDeadline(now int64, timeout time.Duration) {
	if timeout <= 0 {
		c.deadline, c.timeout = 0, 0
		return
	}
	c.deadline, c.timeout = now+int64(timeout), int64(timeout)
}

// arm sees to it that a wait for input ends at want, or not more than slack
// before.
func (c *conn) arm(want, slack int64) {
	if want == 0 {
		return // one that is still set goes off once, and is cleared then
	}
	if c.armed != 0 && c.armed <= want && want-c.armed <= slack {
		return
	}
	c.armExactly(want)
}

// armExactly sets nc's read deadline; 0 clears it.
func (c *conn) armExactly(want int64) {
	if c.noDeadlines {
		return
	}
	var t time.Time
	if want != 0 {
		t = clock.Deadline(want)
	}
	c.armed = want
	if c.nc.SetReadDeadline(t) != nil && !c.raw.enabled() {
		c.noDeadlines = true
	}
}

// armWait arms for a wait between activations, on either path.
func (c *conn) armWait() {
	want, slack := c.deadline, c.timeout>>slackShift
	if c.hotUntil != 0 && (want == 0 || c.hotUntil < want) {
		want, slack = c.hotUntil, hotTime>>slackShift
	}
	c.arm(want, slack)
}

// stopped handles a wait for input that ended with err instead of input. Read
// means to wait again, after a look at whether that may be.
func (c *conn) stopped(err error) engine.Next {
	if !c.wake() {
		return engine.Close
	}
	if c.killed.Load() || !isTimeout(err) {
		c.fail(err)
		return engine.Abort
	}
	now := clock.Nanos()
	if next := c.expire(now); next != engine.Read {
		return next
	}
	if (c.armed == 0 || now < c.armed) && !c.isPrompted() {
		// Nobody set a deadline that has passed. DetachIdle may have changed
		// its mind; a connection that keeps saying so is broken.
		if c.spurious++; c.spurious > maxSpurious {
			c.fail(err)
			return engine.Abort
		}
	}
	c.cool(now)
	c.armExactly(0)
	return engine.Read
}

// expire tells the protocol if its deadline has passed. Read means that it has
// not.
func (c *conn) expire(now int64) engine.Next {
	if c.deadline == 0 || now < c.deadline {
		return engine.Read
	}
	var next engine.Next
	c.out, next = c.protocol.TimedOut(c.out)
	return c.settle(next)
}

// cool looks after a wait on the plain path whose end hotUntil was: without
// input for so long, the connection need not hold a buffer.
func (c *conn) cool(now int64) {
	if c.hotUntil == 0 || now < c.hotUntil {
		return
	}
	if c.busySince {
		c.busySince = false
		c.hotUntil = now + hotTime
		return
	}
	c.hotUntil, c.cold = 0, true
	c.releaseBuffers()
}

// clearDeadlines leaves nc as if it had never been served.
func (c *conn) clearDeadlines() {
	c.armed, c.writeArmed = 0, 0
	_ = c.nc.SetDeadline(time.Time{})
}
