package http2

import (
	"time"

	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// health is the part of a Conn that tests with a PING whether the peer is still there.
type health struct {
	lastRead int64 // when the last byte came, in Nanos
	// pingAfter is for how long nothing may come while a request waits, before a PING tests
	// the connection.
	pingAfter time.Duration
	pingDue   int64 // when the next byte must have come; 0: never
}

// checkHealth sends a PING if nothing has come for too long, and returns when to call it
// again, at the latest; 0: never.
func (c *Conn) checkHealth(now int64) int64 {
	switch {
	case c.pingDue != 0:
		return c.pingDue
	case c.pingAfter <= 0:
		return 0
	case now-c.lastRead < int64(c.pingAfter):
		return c.lastRead + int64(c.pingAfter)
	}
	c.out = h2.AppendPing(c.out, healthPing, false)
	c.pingDue = now + int64(c.cfg.PingTimeout)
	return c.pingDue
}

// pingAnswered makes the next PING later.
func (c *Conn) pingAnswered() { c.pingAfter = min(4*c.pingAfter, maxPingAfter) }

// endIfSilent closes the connection if nothing has come in time after a PING, and reports
// whether that is so.
func (c *Conn) endIfSilent(now int64) bool {
	switch {
	case c.pingDue == 0 || c.pingDue > now:
		return false
	case c.phase == phaseBroken:
		c.closeNow(c.failure)
	default:
		c.closeNow(ErrNoPing)
	}
	return true
}

// endIfSilentUnread is endIfSilent at the beginning of a request, after a PING that has
// got no answer: catchUp has found none.
func (c *Conn) endIfSilentUnread(now int64) {
	switch {
	case c.leader != nil: // who reads
	case !c.peek.CanLook(): // the answer to the PING may have come unread
		c.pingDue = 0
	case c.pingDue <= now:
		c.closeNow(ErrNoPing)
	}
}

// healthPing is the data of the PING that tests the connection.
var healthPing = [8]byte{'s', 'l', 'u', 'i', 'c', 'e', 'o', 'k'}

// maxPingAfter is what pingAfter grows to while the peer only answers PINGs. Servers of gRPC
// end connections with more than two PINGs within five minutes.
const maxPingAfter = 320 * time.Second
