package netconn

import (
	"net"
	"os"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
)

// A deadline costs two words per request. The timer behind it is only set when
// the connection is about to wait and the timer that is set would be too late,
// or early by more than this fraction of the time-out (as a shift). When it goes
// off early it is set again, to the point.
const slackShift = 3

// hotTime is how long a connection waits with a buffer in its hands, at least.
const hotTime = int64(time.Second)

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
	c.armed, c.isTimed = want, want != 0
	if setReadDeadline(c.nc, t) != nil {
		c.isTimed, c.noDeadlines = false, true
	}
}

// setReadDeadline sets nc's read deadline. A net.Conn whose maker has left the
// method out panics; it has no deadlines.
func setReadDeadline(nc net.Conn, t time.Time) (err error) {
	defer func() {
		if recover() != nil {
			err = os.ErrNoDeadline
		}
	}()
	return nc.SetReadDeadline(t)
}

// mayTime tells whether deadlines may be set on nc that no time-out asks for. Its
// maker may have set one of its own, which would be lost.
func (c *conn) mayTime() bool {
	return c.deadline != 0 || c.isOurs || !c.driver.options.SparesDeadlines
}

// prepareToCool sees to it that the connection does not hold a buffer for long
// while it waits. Without a deadline it holds none from the beginning, which
// costs a read, or goes on to hold one.
func (c *conn) prepareToCool() {
	switch {
	case c.cold:
	case c.mayTime():
		if c.hotUntil == 0 {
			c.hotUntil = clock.Nanos() + hotTime
		}
	case c.driver.options.ReduceMemory:
		c.cold = true
		c.releaseBuffers()
	}
}

// armWait arms for a wait between activations.
func (c *conn) armWait() {
	want, slack := c.deadline, c.timeout>>slackShift
	if c.hotUntil != 0 && c.mayTime() && (want == 0 || c.hotUntil < want) {
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
		c.Fail(err)
		return engine.Abort
	}
	now := clock.Nanos()
	if c.isLate(now) {
		if next := c.timedOut(); next != engine.Read {
			return next
		}
		c.cool(now)
		c.armExactly(0)
		return engine.Read
	}
	isArmed := c.isTimed && now >= c.armed
	if !isArmed && !c.isPrompted() && !c.poked.Swap(false) && !c.isOurs {
		return c.timedOut() // nc has a deadline of its own
	}
	c.cool(now)
	c.armExactly(0)
	return engine.Read
}

// isLate tells whether the protocol's deadline has passed.
func (c *conn) isLate(now int64) bool { return c.deadline != 0 && now >= c.deadline }

// timedOut tells the protocol that its deadline has passed. Read means to wait
// on.
func (c *conn) timedOut() engine.Next {
	c.deadline, c.timeout = 0, 0
	return c.TimedOut()
}

// cool looks after a wait whose end hotUntil was: without
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
	if c.isOurs || c.isTimed || c.writeArmed != 0 || c.poked.Load() {
		_ = c.nc.SetDeadline(time.Time{})
	}
	c.armed, c.isTimed, c.writeArmed = 0, false, 0
}
