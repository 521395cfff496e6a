//go:build !unix

package sluice

import "net"

// peeker looks whether there is something to be read. Here it cannot look at a
// socket: a connection that the server has closed is noticed when it is used.
type peeker struct{ quiet quietConn }

// init makes p look at c, or at what it is a layer on.
func (p *peeker) init(c net.Conn) { p.quiet, _ = innermost(c).(quietConn) }

// isQuiet tells whether the connection is open and has nothing to be read. It is
// true where there is nothing to look at.
func (p *peeker) isQuiet() bool { return p.quiet == nil || p.quiet.IsQuiet() }
