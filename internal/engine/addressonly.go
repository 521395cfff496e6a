package engine

import (
	"net"
	"time"
)

// AddressOnly is a connection of which callers may use the addresses only. Its other
// methods return Err.
type AddressOnly struct {
	net.Conn
	Err error
}

// Read implements net.Conn; it reads nothing.
func (c AddressOnly) Read([]byte) (int, error) { return 0, c.Err }

// Write implements net.Conn; it writes nothing.
func (c AddressOnly) Write([]byte) (int, error) { return 0, c.Err }

// Close implements net.Conn without effect.
func (c AddressOnly) Close() error { return c.Err }

// SetDeadline implements net.Conn without effect.
func (c AddressOnly) SetDeadline(time.Time) error { return c.Err }

// SetReadDeadline implements net.Conn without effect.
func (c AddressOnly) SetReadDeadline(time.Time) error { return c.Err }

// SetWriteDeadline implements net.Conn without effect.
func (c AddressOnly) SetWriteDeadline(time.Time) error { return c.Err }
