package netconn

import (
	"net"
	"os"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

const (
	// slackShift says how early a read deadline may be: by this fraction of the
	// time-out, as a shift. Setting a deadline on every request would cost more than
	// the rare wait that ends early and is continued with the exact deadline.
	slackShift = 3
	// hotTime is the least time for which a connection keeps its buffers while it waits.
	hotTime = int64(time.Second)
	// unknown is conn.armed when another goroutine may have set another deadline. It is
	// before every time, so that arm does not rely on it.
	unknown = int64(-1 << 62)
	// longestWait is the longest time-out. Sums of it with a time do not overflow.
	longestWait = time.Duration(1 << 61)
)

// SetReadDeadline implements engine.Conn. It stores two words; arm does the rest when
// the connection is about to wait.
func (c *conn) SetReadDeadline(now int64, timeout time.Duration) {
	if timeout <= 0 {
		c.deadline, c.timeout = 0, 0
		return
	}
	timeout = min(timeout, longestWait)
	c.deadline, c.timeout = now+int64(timeout), int64(timeout)
}

// arm makes a wait for input end at want, or not more than slack before.
func (c *conn) arm(want, slack int64) {
	if want == 0 {
		return // a deadline that is still set passes once, and is then cleared
	}
	if c.armed != 0 && c.armed <= want && want-c.armed <= slack {
		return
	}
	c.armExactly(want)
}

// armExactly sets nc's read deadline; 0 clears it.
func (c *conn) armExactly(want int64) {
	if c.timing == untimed {
		return
	}
	t := noTime()
	if want != 0 {
		t = clock.Deadline(want)
	}
	c.armed = want
	if setReadDeadline(c.nc, t) != nil {
		c.armed, c.timing = 0, untimed
	}
}

// setReadDeadline sets nc's read deadline. A net.Conn whose author has left the method
// out panics; it has no deadlines.
func setReadDeadline(nc net.Conn, t time.Time) (err error) {
	defer func() {
		if recover() != nil {
			err = os.ErrNoDeadline
		}
	}()
	return nc.SetReadDeadline(t)
}

// mayTime reports whether deadlines may be set on nc that no time-out requires. They
// would replace one of nc's owner.
func (c *conn) mayTime() bool {
	return c.deadline != 0 || c.isOurs || !c.driver.options.SparesDeadlines
}

// prepareToCool arranges that the connection releases its buffers if it waits for long, and
// rests. One that is about to rest needs no deadline for that.
// If that requires a deadline which may not be set, the connection is cold at once, which
// costs a read for each request, or keeps its buffers, and its protocol what Cool releases.
func (c *conn) prepareToCool() {
	switch {
	case c.hotUntil != 0 || c.In == nil && (c.activity == cold || c.kind == kindAny):
	case c.mayTime():
		c.hotUntil = clock.Nanos() + hotTime
	case c.driver.options.ReduceMemory:
		c.releaseBuffers()
	}
}

// armWait arms for a wait between calls of the protocol.
func (c *conn) armWait() {
	want, slack := c.deadline, c.timeout>>slackShift
	if c.hotUntil != 0 && c.mayTime() && (want == 0 || c.hotUntil < want) {
		want, slack = c.hotUntil, hotTime>>slackShift
	}
	if want != c.armed { // otherwise, which is most often, arm would do nothing
		c.arm(want, slack)
	}
}

// cool releases the buffers if there was no input for hotTime, and lets the connection rest.
func (c *conn) cool(now int64) {
	switch {
	case c.hotUntil == 0 || now < c.hotUntil:
	case c.activity == active:
		c.idled()
		c.hotUntil = now + hotTime
	default:
		c.idled()
		c.hotUntil = 0
		c.releaseBuffers()
	}
}

// clearDeadlines leaves nc as if it had never been served.
func (c *conn) clearDeadlines() {
	if c.isOurs || c.wasInterrupted || c.armed != 0 || c.writeArmed != 0 {
		_ = c.nc.SetDeadline(noTime())
	}
	c.armed, c.writeArmed = 0, 0
}
