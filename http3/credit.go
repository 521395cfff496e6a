package http3

import "github.com/quic-go/quic-go"

// The credit of a request is given back after its handler has returned. That takes a packet, because
// the response has gone by then. So credits are kept until they are a quarter of all, or
// until the next sweep.

// spentLocked keeps the credit of a stream that has ended.
func (c *conn) spentLocked(s *quic.Stream) {
	c.spent = append(c.spent, s)
	if 4*len(c.spent) >= c.serving.config.MaxConcurrentStreams {
		c.giveCreditLocked()
	}
}

// giveCreditLocked gives the client the credit that was kept.
func (c *conn) giveCreditLocked() {
	for _, s := range c.spent {
		s.ReleaseStreamCredit()
	}
	clear(c.spent)
	c.spent = c.spent[:0]
}
