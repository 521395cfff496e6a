package load

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// errNoALPN: the server does not speak HTTP/2 over TLS.
var errNoALPN = errors.New("the server does not choose h2 by ALPN")

// A channel is what a stream has for HTTP/2. One goroutine reads; in an open loop a
// second one sends the requests that are due.
type channel struct {
	session *session
	mu      sync.Mutex // guards the session while there is a conn, and conn and requests of the stream
	ready   sync.Cond  // there may be room for requests
	phase   channelPhase
	scanned int64 // when late requests were last looked for
}

type channelPhase uint8

const (
	working channelPhase = iota
	warming              // only requests that are there are sent
	spent                // there are no more requests
	over                 // the run has ended
)

// use makes a connection that of c.
func (c *stream) use(conn net.Conn) {
	if c.channel == nil {
		c.conn = conn
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
	c.ready.Signal()
}

// greet exchanges SETTINGS on a new connection.
func (c *stream) greet(conn net.Conn) error {
	if c.handshake != nil {
		return c.upgrade(conn)
	}
	if secured, ok := conn.(*tls.Conn); ok && secured.ConnectionState().NegotiatedProtocol != "h2" {
		return errNoALPN
	}
	c.session.reset()
	if err := c.flush(conn); err != nil {
		return err
	}
	for !c.session.isGreeted {
		n, err := conn.Read(c.buf)
		if n == 0 && errors.Is(err, io.EOF) {
			return errNoSettings
		}
		if n == 0 {
			return err
		}
		for in := c.buf[:n]; len(in) > 0; {
			used, _, err := c.session.feed(in) // GOAWAY is noted, and there are no requests
			if err != nil {
				return err
			}
			in = in[used:]
		}
	}
	return nil
}

// flush writes the session's output.
func (c *stream) flush(conn net.Conn) error {
	for len(c.session.out) > 0 {
		n, err := conn.Write(c.session.out)
		c.rec.mu.Lock()
		c.rec.BytesWritten += int64(n)
		c.rec.mu.Unlock()
		if err != nil {
			return err
		}
		c.session.sent()
	}
	return nil
}

// warmStreams is warm over HTTP/2.
func (c *stream) warmStreams() {
	c.phase = warming
	for range warmUps {
		now := c.now()
		for range c.Depth {
			c.requests = append(c.requests, now)
		}
		for c.hasRequests() {
			if c.ctx.Err() != nil || c.rec.hasFailed() || !c.pass() {
				return
			}
		}
	}
	if c.conn != nil {
		c.forget()
	}
}

// multiplex is work over HTTP/2.
func (c *stream) multiplex() {
	defer c.drop()
	c.phase = working
	if conn := c.conn; conn != nil { // it has warmed up
		c.forget = context.AfterFunc(c.ctx, func() { conn.Close() })
	}
	if c.schedule != nil {
		pushed, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(pushed)
			c.push(ended)
		}()
		defer func() {
			close(ended)
			c.enter(over)
			<-pushed
		}()
	}
	for c.ctx.Err() == nil && c.pass() {
	}
	if c.ctx.Err() != nil {
		c.enter(over)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.leave()
	}
}

// enter changes the phase, and tells those who wait.
func (c *stream) enter(p channelPhase) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.phase = max(c.phase, p)
	if c.conn != nil && !c.hasRequests() {
		_ = c.conn.SetReadDeadline(time.Unix(1, 0)) // nothing is to be read
	}
	c.ready.Broadcast()
}

// hasRequests reports whether a request has no response.
func (c *stream) hasRequests() bool { return len(c.requests) > 0 || c.session.open > 0 }

// push sends requests when they are due.
func (c *stream) push(ended <-chan struct{}) {
	for c.awaitRoom() {
		select {
		case due, ok := <-c.due:
			if !ok {
				c.enter(spent)
				return
			}
			c.rec.mu.Lock()
			c.rec.Sent++
			c.rec.mu.Unlock()
			c.mu.Lock()
			c.requests = append(c.requests, due)
			if c.conn != nil {
				c.send()
			}
			c.mu.Unlock()
		case <-c.ctx.Done():
			return
		case <-ended:
			return
		}
	}
}

// awaitRoom waits for a stream that is free. It returns false when the run is over.
func (c *stream) awaitRoom() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.phase < spent && (c.conn == nil || c.session.room() <= len(c.requests)) {
		c.ready.Wait()
	}
	return c.phase < spent
}

// send begins the requests that wait, as far as there is room, and writes. If that
// fails, so does reading.
func (c *stream) send() {
	s, now := c.session, c.now()
	n := min(len(c.requests), s.room())
	for _, due := range c.requests[:n] {
		s.begin(due, now)
	}
	c.requests = c.requests[:copy(c.requests, c.requests[n:])]
	deadline := time.Now().Add(c.Timeout)
	_ = c.conn.SetWriteDeadline(deadline)
	if !c.hasRequests() {
		deadline = time.Time{}
	}
	_ = c.conn.SetReadDeadline(deadline)
	if c.flush(c.conn) != nil {
		_ = c.conn.SetReadDeadline(time.Now().Add(time.Second)) // there may be a GOAWAY that says why
	}
}

// pass sends what there is to send, and reads once. It returns false when there is
// nothing left to do.
func (c *stream) pass() (hasMore bool) {
	c.mu.Lock()
	if c.conn == nil {
		c.beginMore()
		isWanted := c.phase < spent || c.hasRequests()
		c.mu.Unlock()
		return isWanted && c.connect()
	}
	c.beginMore()
	if !c.hasRequests() && c.phase >= spent {
		c.mu.Unlock()
		return false
	}
	c.send()
	c.ready.Signal()
	conn := c.conn
	c.mu.Unlock()
	n, err := conn.Read(c.buf)
	c.mu.Lock()
	isRefused := false
	if n > 0 {
		c.framesReceived(c.buf[:n])
	} else {
		isRefused = c.broken(err)
	}
	c.mu.Unlock()
	if isRefused {
		c.idle(time.Duration(pause(c.failures)))
	}
	return true
}

// beginMore takes as many requests as there is room for, in a closed loop.
func (c *stream) beginMore() {
	n := c.session.room() - len(c.requests)
	if c.conn == nil {
		n = 0
		if c.OncePerConn && !c.hasRequests() {
			n = 1 // its latency counts from here
		}
	}
	if c.schedule != nil || c.phase != working || n <= 0 {
		return
	}
	begun, now := c.begin(n), c.now()
	if begun < n {
		c.phase = spent
	}
	for range begun {
		c.requests = append(c.requests, now)
	}
	c.rec.mu.Lock()
	c.rec.Sent += int64(begun)
	c.rec.mu.Unlock()
}

// framesReceived acts on what was received.
func (c *stream) framesReceived(in []byte) {
	s, now := c.session, c.now()
	c.rec.mu.Lock()
	c.rec.BytesRead += int64(len(in))
	fault, err := c.framesIn(in, now)
	c.rec.mu.Unlock()
	switch {
	case err != nil:
		c.failAll(fault, err)
	case c.OncePerConn && c.hasUse:
		c.reset()
	case s.isLeaving && s.open == 0:
		c.drop()
	default:
		c.cancelLate(now)
	}
}

// framesIn records what was received. The error ends the connection.
func (c *stream) framesIn(in []byte, now int64) (Kind, error) {
	s := c.session
	for len(in) > 0 {
		used, n, err := s.feed(in)
		in = in[used:]
		if err != nil {
			return Invalid, err
		}
		switch n.kind {
		case answered:
			c.rec.answered(n.x.status, n.x.due, n.x.sent, now)
			s.drop(n.x)
			c.hasUse = true
		case failed:
			c.rec.failed(n.fault, n.err, 1)
			s.drop(n.x)
		case leaving:
			if n.err != nil && c.hasRequests() {
				return GoAway, n.err
			}
			c.requests = s.unprocessed(c.requests, n.last)
		}
	}
	return 0, nil
}

// cancelLate gives requests up whose responses have not come in time.
func (c *stream) cancelLate(now int64) {
	if now-c.scanned < int64(c.Timeout/8) {
		return
	}
	c.scanned = now
	c.rec.mu.Lock()
	defer c.rec.mu.Unlock()
	for i := range c.session.slots {
		if x := &c.session.slots[i]; x.id != 0 && now-x.sent > int64(c.Timeout) {
			record(c.rec.now.total, now-x.due)
			c.rec.failed(Timeout, errResponseTimeout, 1)
			c.session.cancel(x)
		}
	}
}

// failAll counts the requests under way as failed, and closes the connection.
func (c *stream) failAll(kind Kind, err error) {
	left := c.session.underWay(c.requests)
	if kind == Timeout {
		c.rec.mu.Lock()
		for _, due := range left {
			record(c.rec.now.total, c.now()-due)
		}
		c.rec.mu.Unlock()
	}
	c.fail(kind, err, max(len(left), 1))
	c.session.clear()
	c.drop()
}

// broken handles a connection that cannot be read from. isRefused: it was of no use, and
// another one would probably be of none, too.
func (c *stream) broken(err error) (isRefused bool) {
	var timeout net.Error
	switch {
	case c.ctx.Err() != nil: // it was cut off
	case !c.hasRequests():
		c.drop()
		if !c.hasUse && c.phase < spent {
			c.failures++
			return true
		}
	case errors.As(err, &timeout) && timeout.Timeout():
		c.failAll(Timeout, errResponseTimeout)
	case errors.Is(err, io.EOF):
		c.failAll(Read, errTruncated)
	default:
		c.failAll(Read, err)
	}
	return false
}
