package engine

import (
	"errors"
	"net"
)

// WithUnread returns a connection whose reads return rest first, and then what ahead
// returns, until that is nothing and no error; ahead may be nil. If there is neither, this
// is nc itself. Otherwise the connection has the methods of a net.Conn, NetConn, which
// returns nc, and CloseWrite. It retains rest.
func WithUnread(nc net.Conn, rest []byte, ahead func(p []byte) (int, error)) net.Conn {
	if len(rest) == 0 && ahead == nil {
		return nc
	}
	return &unreadConn{Conn: nc, rest: rest, ahead: ahead}
}

// An unreadConn is a connection of which too much was read.
type unreadConn struct {
	net.Conn
	rest  []byte
	ahead func(p []byte) (int, error)
}

// Read implements net.Conn.
func (c *unreadConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(c.rest) == 0 {
		if c.ahead != nil {
			if n, err := c.ahead(p); n > 0 || err != nil {
				return n, err
			}
			c.ahead = nil
		}
		return c.Conn.Read(p)
	}
	n := copy(p, c.rest)
	if c.rest = c.rest[n:]; len(c.rest) == 0 {
		c.rest = nil // frees its memory
	}
	return n, nil
}

// NetConn returns the connection underneath.
func (c *unreadConn) NetConn() net.Conn { return c.Conn }

// CloseWrite closes the sending side. Its error is errors.ErrUnsupported if the connection
// underneath cannot do it.
func (c *unreadConn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(nc net.Conn) error {
	if half, ok := nc.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
