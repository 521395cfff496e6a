//go:build !unix

package pool

import "net"

// Peeker checks whether a connection has unread bytes. On this system it cannot
// check a socket: the client notices that the server has closed a connection
// only when it uses the connection.
type Peeker struct{ quiet quietConn }

// Init sets the connection to check: c, or the connection that c wraps.
func (p *Peeker) Init(c net.Conn) { p.quiet, _ = innermost(c).(quietConn) }

// CanLook reports whether IsQuiet can check the connection.
func (p *Peeker) CanLook() bool { return p.quiet != nil }

// IsQuiet reports whether the connection is open and has no unread bytes. It
// returns true if it cannot check that.
func (p *Peeker) IsQuiet() bool { return p.quiet == nil || p.quiet.IsQuiet() }
