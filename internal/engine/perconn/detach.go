package perconn

import (
	"net"
)

// prepareDetach takes the connection out of the engine; its worker then gives
// it to the protocol, on a stack that may grow.
func (c *conn) prepareDetach() {
	rest := append([]byte(nil), c.unread...)
	c.leave()
	c.detached = withUnread(c.nc, rest, c.reader)
}

// leave makes nc independent of the engine.
func (c *conn) leave() {
	c.unread = nil
	c.releaseBuffers()
	c.raw.forget(c.driver)
	c.clearDeadlines()
	c.unregister()
}

// giveToProtocol gives a detached connection away.
func (c *conn) giveToProtocol() {
	c.protocol.Detached(c.detached)
	c.conclude()
}

// withUnread returns a connection whose reads return rest first, and then what
// a background reader got or is still going to get.
func withUnread(nc net.Conn, rest []byte, reader *backgroundReader) net.Conn {
	if len(rest) == 0 && reader == nil {
		return nc
	}
	return &unreadConn{Conn: nc, rest: rest, reader: reader}
}

// An unreadConn is a connection of which too much was read.
type unreadConn struct {
	net.Conn
	rest   []byte
	reader *backgroundReader
}

// Read implements net.Conn.
func (c *unreadConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(c.rest) == 0 && c.reader != nil {
		n, err := c.reader.read(p, 0)
		if n > 0 {
			return n, nil
		}
		c.reader = nil
		if err != nil {
			return 0, err
		}
	}
	if len(c.rest) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.rest)
	if c.rest = c.rest[n:]; len(c.rest) == 0 {
		c.rest = nil
	}
	return n, nil
}

// NetConn returns the connection underneath.
func (c *unreadConn) NetConn() net.Conn { return c.Conn }

// CloseWrite closes the sending side where the connection underneath can.
func (c *unreadConn) CloseWrite() error {
	if half, ok := c.Conn.(halfCloser); ok {
		return half.CloseWrite()
	}
	return net.ErrWriteToConnected
}
