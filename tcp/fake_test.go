package tcp

import (
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// fakeConn is an engine.Conn, with its engine, without a network.
type fakeConn struct {
	engine.Conn // other methods are not called
	unread      []byte
	out         []byte
	written     []byte // by Conn.Write
	prompts     int
	wait        time.Duration // until the read deadline
	writeWait   time.Duration // the write time-out
	writes      int           // calls of Conn.Write
	failure     error         // of Conn.Write
}

func (*fakeConn) Target() engine.Target { return engine.Target{} }

func (c *fakeConn) Buffered() []byte { return c.unread }
func (c *fakeConn) Discard(n int)    { c.unread = c.unread[n:] }
func (c *fakeConn) Prompt()          { c.prompts++ }

func (c *fakeConn) Prompter() engine.Prompter                      { return c }
func (c *fakeConn) SetReadDeadline(_ int64, timeout time.Duration) { c.wait = timeout }
func (c *fakeConn) SetWriteTimeout(timeout time.Duration)          { c.writeWait = timeout }
func (c *fakeConn) RemoteAddr() net.Addr                           { return &net.TCPAddr{} }
func (c *fakeConn) LocalAddr() net.Addr                            { return &net.TCPAddr{} }
func (c *fakeConn) Write(p []byte) (int, error) {
	c.written = append(c.written, p...)
	c.writes++
	return len(p), c.failure
}

// feed passes in to p as engines do, and returns what p wants next.
func (c *fakeConn) feed(p engine.Protocol, in []byte) engine.Next {
	c.unread = in
	for len(c.unread) > 0 {
		used, next := p.Feed(c.unread)
		c.unread = c.unread[used:]
		for next == engine.Run {
			c.out, next = p.Run(c.out)
			c.flush()
		}
		if next != engine.Read {
			return next
		}
	}
	return engine.Read
}

// flush discards the output, as an engine that writes it does.
func (c *fakeConn) flush() {
	c.written = append(c.written, c.out...)
	c.out = c.out[:0]
}
