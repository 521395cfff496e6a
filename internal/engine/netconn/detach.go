package netconn

import (
	"net"

	"github.com/sluicehttp/sluice/internal/engine"
)

// prepareDetach takes the connection out of the engine; its worker then gives
// it to the protocol.
func (c *conn) prepareDetach() {
	rest := append([]byte(nil), c.Unread...)
	c.leave()
	c.detached = withUnread(c.nc, rest, c.reader)
}

// leave makes nc independent of the engine.
func (c *conn) leave() {
	c.Unread = nil
	c.releaseBuffers()
	c.unregister()
	c.clearDeadlines() // now that nobody is left who interrupts
}

// giveToProtocol gives a detached connection away.
func (c *conn) giveToProtocol() {
	c.Protocol.Detached(c.detached)
	c.conclude()
}

// withUnread returns a connection whose reads return rest first, and then what
// a background reader got or is still going to get.
func withUnread(nc net.Conn, rest []byte, reader *backgroundReader) net.Conn {
	if reader == nil {
		return engine.WithUnread(nc, rest)
	}
	return &readAheadConn{Conn: nc, rest: rest, reader: reader}
}

// A readAheadConn is a connection that a background reader has read from.
type readAheadConn struct {
	net.Conn
	rest   []byte            // comes first
	reader *backgroundReader // nil: it has nothing more to tell
}

// Read implements net.Conn.
func (c *readAheadConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(c.rest) > 0 {
		n := copy(p, c.rest)
		c.rest = c.rest[n:]
		return n, nil
	}
	if c.reader != nil {
		n, err := c.reader.read(p, 0)
		if n > 0 {
			return n, nil
		}
		c.reader = nil
		if err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(p)
}

// NetConn returns the connection underneath.
func (c *readAheadConn) NetConn() net.Conn { return c.Conn }

// CloseWrite closes the sending side where the connection underneath can.
func (c *readAheadConn) CloseWrite() error {
	if half, ok := c.Conn.(halfCloser); ok {
		return half.CloseWrite()
	}
	return net.ErrWriteToConnected
}
