package netconn

import (
	"net"
	"time"
)

// halfCloser is a connection whose sending side can be closed alone.
type halfCloser interface {
	CloseWrite() error
}

// linger tells the peer that no more is coming, and reads what it is still
// sending for as long as patience: a socket that is closed with unread input resets the connection,
// and the peer may lose the last answer to that (RFC 9112 section 9.6).
//
// Connections that cannot be half-closed are not reset by a close either.
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
	if _, secret := under.(handshaker); secret {
		// The closing alert is sent. What the peer sends need not be
		// decrypted; its sender must see the FIN, too.
		wrapper, ok := under.(interface{ NetConn() net.Conn })
		if !ok {
			return
		}
		under = wrapper.NetConn()
		if half, ok = under.(halfCloser); ok && half.CloseWrite() != nil {
			return
		}
	}
	// The deadline may be one that is ignored.
	defer time.AfterFunc(patience, func() { _ = under.Close() }).Stop()
	if c.In == nil {
		c.attachBuffers()
	}
	for left := lingerDiscardLimit; left > 0; {
		n, err := under.Read(c.In)
		if err != nil {
			return
		}
		left -= n
	}
}
