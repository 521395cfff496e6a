package netconn

import (
	"net"
	"time"
)

// halfCloser is a connection whose sending side can be closed alone.
type halfCloser interface {
	CloseWrite() error
}

// linger half-closes the connection, and discards what the peer is still sending for up
// to patience. Closing a socket with unread input would reset the connection, and the peer
// could lose the last answer (RFC 9112 section 9.6). Connections that cannot be
// half-closed are not reset by a close.
func (c *conn) linger(patience time.Duration) {
	half, ok := c.nc.(halfCloser)
	if !ok {
		return
	}
	c.ignorePrompt()
	_ = c.nc.SetDeadline(time.Now().Add(patience))
	if half.CloseWrite() != nil {
		return
	}
	under := c.nc
	if _, isTLS := under.(handshaker); isTLS {
		// The closing alert is sent; the peer must see the FIN, too. What it sends is
		// not decrypted.
		if under = underneath(c.nc); under == c.nc {
			return
		}
		if half, ok = under.(halfCloser); ok && half.CloseWrite() != nil {
			return
		}
	}
	c.discardFrom(under, patience)
}

// discard half-closes a connection without TLS, and discards what its peer is still sending.
func (c *conn) discard(under net.Conn, patience time.Duration) {
	if half, ok := under.(halfCloser); ok && half.CloseWrite() == nil {
		c.discardFrom(under, patience)
	}
}

// discardFrom discards the input of a connection that is half-closed.
func (c *conn) discardFrom(under net.Conn, patience time.Duration) {
	// It may ignore the deadline.
	defer time.AfterFunc(patience, func() { _ = under.Close() }).Stop()
	room := c.In
	if room == nil {
		room = c.one[:] // most peers send nothing, and at the end all connections linger at once
	}
	for left := lingerDiscardLimit; left > 0; {
		n, err := under.Read(room)
		if err != nil {
			return
		}
		left -= n
		c.attachBuffers()
		room = c.In
	}
}
