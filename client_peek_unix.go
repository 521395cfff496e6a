//go:build unix

package sluice

import (
	"net"
	"syscall"
)

// peeker looks whether there is something to be read.
type peeker struct {
	raw   syscall.RawConn // nil: there is no socket
	quiet quietConn       // in its place; nil: there is none, either
	look  func(fd uintptr)
	err   error
}

// init makes p look at c, or at what it is a layer on.
func (p *peeker) init(c net.Conn) {
	c = innermost(c)
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			p.raw, p.look = raw, p.peek
		}
		return
	}
	p.quiet, _ = c.(quietConn)
}

// peek is what Control calls.
func (p *peeker) peek(fd uintptr) {
	var one [1]byte
	_, _, p.err = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
}

// isQuiet tells whether the connection is open and has nothing to be read. It is
// true where there is nothing to look at.
func (p *peeker) isQuiet() bool {
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
