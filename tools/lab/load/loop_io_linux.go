//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package load

import (
	"net"
	"os"
	"strconv"
	"syscall"

	"github.com/sluicehttp/sluice/internal/engine/sock"
)

// zoneIndex returns the number of an IPv6 zone, which is an interface's name or
// number.
func zoneIndex(zone string) (uint32, error) {
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	i, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, err
	}
	return uint32(i.Index), nil
}

// send sends the requests under way.
func (l *loop) send(c *conn) {
	if c.session != nil {
		l.sendStreams(c)
		return
	}
	c.state, c.since = busy, l.now
	c.written, c.toWrite = 0, len(c.due)*len(l.Request)
	l.transmit(c)
}

// transmit writes what is left of the requests, as much as goes without waiting.
func (l *loop) transmit(c *conn) {
	for {
		rest := l.unwritten(c)
		if len(rest) == 0 {
			return
		}
		n, errno := sock.Send(c.fd, rest)
		l.rec.BytesWritten += int64(n)
		c.written += n
		switch errno {
		case 0:
		case syscall.EAGAIN:
			return // an event will come
		default:
			// There may be a response that says why.
			c.writeErr = errno
			l.readAgain(c)
			return
		}
	}
}

// unwritten returns what is to be written.
func (l *loop) unwritten(c *conn) []byte {
	s := c.session
	switch {
	case s == nil && c.state == greeting:
		return l.handshake.request[c.written:c.toWrite]
	case s == nil:
		return l.batch[c.written:c.toWrite]
	}
	if c.written == len(s.out) {
		c.written = 0
		s.sent()
	}
	return s.out[c.written:]
}

// readAgain reads from c once more in the next pass.
func (l *loop) readAgain(c *conn) {
	if !c.isAgain {
		c.isAgain = true
		l.again = append(l.again, c)
	}
}

// maxReads bounds how often one connection is read from while others wait.
const maxReads = 8

// receive reads what is there.
func (l *loop) receive(c *conn) {
	for range maxReads {
		n, errno := sock.Recv(c.fd, l.buf)
		switch {
		case errno == syscall.EAGAIN:
			if c.writeErr != 0 {
				l.fail(c, Write, os.NewSyscallError("send", c.writeErr))
			}
			return
		case errno != 0:
			l.broken(c, os.NewSyscallError("recv", errno))
			return
		case n == 0:
			c.hasEnded = true
			l.ended(c)
			return
		}
		l.rec.BytesRead += int64(n)
		generation := c.generation
		switch {
		case c.session != nil:
			l.takeFrames(c, l.buf[:n])
		case c.state == greeting:
			l.takeHandshake(c, l.buf[:n])
		default:
			l.take(c, l.buf[:n])
		}
		if c.generation != generation {
			return
		}
		if n < len(l.buf) && !c.hasEnded && c.writeErr == 0 {
			return // what comes now is another event
		}
	}
	l.readAgain(c)
}

// take finds responses in what was received. When all have come, the next
// requests follow.
func (l *loop) take(c *conn, in []byte) {
	isFirst := true
	for len(in) > 0 {
		if c.answered == len(c.due) && l.handshake == nil {
			l.fail(c, Invalid, errSurplus)
			return
		}
		used, isDone, err := c.framer.feed(in)
		if err != nil {
			l.fail(c, kindOf(err), err)
			return
		}
		if !isDone {
			l.pong(c)
			return
		}
		in = in[used:]
		if c.answered == len(c.due) {
			l.fail(c, Invalid, errUnwanted)
			return
		}
		if isFirst {
			isFirst = false
			l.now = l.clock.now()
		}
		l.complete(c)
		if c.framer.outcome.closes && !c.hasEnded && len(in) == 0 && c.answered == len(c.due) {
			c.state, c.since = parting, l.now // a client that reset it now would cost the server more
			return
		}
		if c.framer.outcome.closes || l.OncePerConn {
			l.part(c)
			return
		}
	}
	if c.answered < len(c.due) {
		return
	}
	c.clear()
	if c.written < c.toWrite {
		l.part(c) // the rest of the request has no use any more
		return
	}
	l.available(c)
}

// takeHandshake takes the answer to WebSocket's handshake.
func (l *loop) takeHandshake(c *conn, in []byte) {
	for len(in) > 0 {
		used, isDone, err := c.framer.feed(in)
		in = in[used:]
		switch {
		case err != nil:
			l.notConnected(c, err)
			return
		case isDone:
			generation := c.generation
			l.established(c)
			if len(in) > 0 && c.generation == generation {
				l.take(c, in)
			}
			return
		}
	}
}

// pong answers a ping, if nothing else is being written: a frame must not be cut.
func (l *loop) pong(c *conn) {
	if s := c.framer.socket; s != nil && len(s.pong) > 0 && c.written == c.toWrite {
		n, _ := sock.Send(c.fd, s.pong) // a full socket has more than a pong to be read
		l.rec.BytesWritten += int64(n)
		s.pong = s.pong[:0]
	}
}

// noGreeting is why a connection is of no use that ends before the server's greeting.
func (l *loop) noGreeting() error {
	if l.handshake != nil {
		return errNoUpgrade
	}
	return errNoSettings
}

// complete counts a response.
func (l *loop) complete(c *conn) {
	l.rec.answered(c.framer.outcome.status, c.due[c.answered], c.since, l.now)
	c.answered++
	c.responses++
	c.failures = 0
}

// ended handles the end of what the server sends.
func (l *loop) ended(c *conn) {
	switch {
	case c.state == greeting:
		l.notConnected(c, l.noGreeting())
	case c.framer.end() && c.answered < len(c.due):
		l.now = l.clock.now()
		l.complete(c)
		l.part(c)
	case !c.hasRequests():
		l.idleEnded(c)
	default:
		l.broken(c, errTruncated)
	}
}

// broken handles a connection that has ended too early.
func (l *loop) broken(c *conn, err error) {
	switch {
	case c.state == greeting:
		l.notConnected(c, err)
	case !c.hasRequests():
		l.idleEnded(c)
	case c.writeErr != 0:
		l.fail(c, Write, os.NewSyscallError("send", c.writeErr))
	default:
		l.fail(c, Read, err)
	}
}

// idleEnded handles the end of a connection without requests. A server that ends
// all of them is not asked again at once.
func (l *loop) idleEnded(c *conn) {
	c.clear()
	isNew := c.responses == 0
	l.shut(c)
	if isNew {
		c.failures++
		l.rest(c, pause(c.failures))
		return
	}
	l.renew(c)
}
