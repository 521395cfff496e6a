package http2

import (
	"time"

	"github.com/sluicehttp/sluice/internal/wire/h2"
)

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

// healthPing is the data of the PING that tests the connection.
var healthPing = [8]byte{'s', 'l', 'u', 'i', 'c', 'e', 'o', 'k'}

// maxPingAfter is what pingAfter grows to while the peer only answers PINGs. Servers of gRPC
// end connections with more than two PINGs within five minutes.
const maxPingAfter = 320 * time.Second
