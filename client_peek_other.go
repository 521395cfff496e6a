//go:build !unix

package sluice

import "net"

// peeker checks whether a connection has unread bytes. On this system it cannot
// check a socket: the client notices that the server has closed a connection
// only when it uses the connection.
type peeker struct{ quiet quietConn }

// init sets the connection to check: c, or the connection that c wraps.
func (p *peeker) init(c net.Conn) { p.quiet, _ = innermost(c).(quietConn) }

// isQuiet reports whether the connection is open and has no unread bytes. It
// returns true if it cannot check that.
func (p *peeker) isQuiet() bool { return p.quiet == nil || p.quiet.IsQuiet() }
