package http3

import (
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// sweepPeriod is how often all connections are looked at. There are no timers of requests.
const sweepPeriod = time.Second

// sweepUntil sweeps until ended is closed.
func (s *serving) sweepUntil(ended <-chan struct{}) {
	t := time.NewTicker(sweepPeriod)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			s.sweep(clock.Nanos())
		case <-ended:
			return
		}
	}
}

// sweep ends what is late at the time now.
func (s *serving) sweep(now int64) {
	for _, c := range s.all() {
		if c.sweep(now) {
			c.endAfterRequests()
		}
	}
}

// sweepUniLocked lets the client's unidirectional streams rest while there are no requests and nothing
// arrives.
func (c *conn) sweepUniLocked() {
	packets := c.quic.ConnectionStats().PacketsReceived
	if c.open == 0 && packets == c.packets {
		c.uni.rest()
	} else {
		c.uni.resume()
		c.uni.acceptArrived()
	}
	c.packets = packets
}

// sweep ends the waits of c's streams that are late, and reports whether c has had no request
// for too long.
func (c *conn) sweep(now int64) (isIdle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.giveCreditLocked(len(c.spent)); c.open == 0 {
		c.spent = nil
	}
	c.sweepUniLocked()
	for x := c.streams; x != nil; x = x.next {
		if x.isLate(now) {
			x.expire()
		}
	}
	return c.open == 0 && now-c.idle >= int64(c.serving.config.IdleTimeout)
}
