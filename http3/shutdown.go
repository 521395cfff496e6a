package http3

import (
	"context"
	"time"

	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/h3"
)

// everyID is the id of the GOAWAY that comes first: the largest one of a request (RFC 9114
// section 5.2).
const everyID = h3.MaxVarint - 3

// Bounds of the time between the two GOAWAYs, and of the time that a client has to take what
// it was sent last.
const (
	leastLeaving = 100 * time.Millisecond
	mostLeaving  = time.Second
	leastWaiting = 100 * time.Millisecond
	// replacedWaiting is leastWaiting of a server that another one replaces, until Shutdown:
	// clients that have read GOAWAY end their connections, and a request of one that has not is
	// lost when its connection is closed. Busy clients may need seconds.
	replacedWaiting = 5 * time.Second
	maxAckDelay     = 25 * time.Millisecond
)

// leave tells the client to use another connection. Requests that it has sent before it knows
// are served.
func (c *conn) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != phaseOpen { // the server may have been shut down since
		c.cutTunnelsLocked()
		if c.phase == phaseWaiting && c.serving.attachment.Stage() == server.StageShutDown {
			c.waiting.Stop()
			c.waitForClientLocked()
		}
		return
	}
	c.phase = phaseLeaving
	c.sendControlLocked(h3.AppendGoAway(nil, everyID))
	pause := 3 * c.quic.ConnectionStats().SmoothedRTT
	c.waiting = time.AfterFunc(min(max(pause, leastLeaving), mostLeaving), c.endAfterRequests)
}

// endAfterRequests makes the present requests the last ones. Later ones are rejected, which a
// client may repeat elsewhere.
func (c *conn) endAfterRequests() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase > phaseLeaving {
		return
	}
	c.phase = phaseEnding
	c.sendControlLocked(h3.AppendGoAway(nil, c.next))
	if c.open == 0 {
		c.waitForClientLocked()
	}
	c.cutTunnelsLocked()
}

// outlived counts a tunnel that a hijack handler has.
func (c *conn) outlived(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x.outlived = true
	c.tunnels++
	c.cutTunnelsLocked()
}

// cutTunnelsLocked resets the tunnels of a connection that ends, when nothing else is left and
// the server is shut down.
func (c *conn) cutTunnelsLocked() {
	if c.phase != phaseEnding || c.tunnels == 0 || c.open > c.tunnels || c.serving.attachment.Stage() != server.StageShutDown {
		return
	}
	for x := c.streams; x != nil; x = x.next {
		x.reset(h3.RequestCancelled)
	}
}

// waitForClientLocked closes the connection when the client had time to take what was sent:
// CONNECTION_CLOSE would end what is under way, and QUIC does not tell when all has arrived.
func (c *conn) waitForClientLocked() {
	c.phase = phaseWaiting
	stats := c.quic.ConnectionStats()
	pto := stats.SmoothedRTT + max(4*stats.MeanDeviation, time.Millisecond) + maxAckDelay
	least := leastWaiting
	if c.serving.attachment.Stage() == server.StageEnding {
		least = replacedWaiting
	}
	c.waiting = time.AfterFunc(max(3*pto, least), c.close)
}

// close ends the connection in order.
func (c *conn) close() {
	_ = c.net.Close()
}

// CloseOnNextResponse implements server.Attached.
func (s *serving) CloseOnNextResponse() {
	for _, c := range s.all() {
		c.leave()
	}
}

// Shutdown implements server.Attached.
func (s *serving) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.isEnding = true
	listeners := s.listeners
	s.mu.Unlock()
	for _, l := range listeners {
		_ = l.Close()
	}
	s.CloseOnNextResponse()
	err := s.waitEmpty(ctx)
	if err != nil {
		s.mu.Lock()
		s.isCut = true
		s.mu.Unlock()
		for _, c := range s.all() {
			c.close()
		}
	}
	close(s.ended)
	return err
}

// waitEmpty waits until no connection is open, or ctx ends.
func (s *serving) waitEmpty(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})
	defer stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.conns)+s.arriving > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.changed.Wait()
	}
	return nil
}
