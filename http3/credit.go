package http3

import "github.com/quic-go/quic-go"

// The credit of a request is given back after its handler has returned. If the client has
// acknowledged the response by then, the credit is sent with the next response; if not, it takes a
// packet of its own when the acknowledgement comes. So credits are kept until other requests have
// come, or half of all are kept, or until the next sweep.

// keepCreditLocked keeps the credit of a stream that has ended.
func (c *conn) keepCreditLocked(s *quic.Stream) {
	c.spent = append(c.spent, s)
	switch most := c.serving.config.MaxConcurrentStreams; {
	case 2*len(c.spent) >= most:
		c.giveCreditLocked(len(c.spent))
	case 8*c.rested >= most:
		c.giveCreditLocked(c.rested)
	}
}

// giveCreditLocked gives the client the first n credits that were kept.
func (c *conn) giveCreditLocked(n int) {
	for _, s := range c.spent[:n] {
		s.ReleaseStreamCredit()
	}
	c.rested -= min(n, c.rested)
	left := copy(c.spent, c.spent[n:])
	clear(c.spent[left:])
	c.spent = c.spent[:left]
}
