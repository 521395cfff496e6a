//go:build unix

package pool

import (
	"net"
	"syscall"
)

// Peeker checks whether a connection has unread bytes.
type Peeker struct {
	raw   syscall.RawConn // nil: no socket
	quiet quietConn       // used if there is no socket; nil: none
	look  func(fd uintptr)
	err   error
}

// Init sets the connection to check: c, or the connection that c wraps.
func (p *Peeker) Init(c net.Conn) {
	c = innermost(c)
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			p.raw, p.look = raw, p.peek
		}
		return
	}
	p.quiet, _ = c.(quietConn)
}

// peek is the function for Control.
func (p *Peeker) peek(fd uintptr) {
	var one [1]byte
	_, _, p.err = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
}

// CanLook reports whether IsQuiet can check the connection.
func (p *Peeker) CanLook() bool { return p.quiet != nil || p.raw != nil }

// IsQuiet reports whether the connection is open and has no unread bytes. It
// returns true if it cannot check that.
func (p *Peeker) IsQuiet() bool {
	switch {
	case p.quiet != nil:
		return p.quiet.IsQuiet()
	case p.raw == nil:
		return true
	}
	for {
		if err := p.raw.Control(p.look); err != nil {
			return false
		}
		if p.err != syscall.EINTR {
			return p.err == syscall.EAGAIN
		}
	}
}
