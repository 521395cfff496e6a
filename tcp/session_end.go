package tcp

import (
	"errors"
	"net"
	"runtime/debug"

	"github.com/sluicehttp/sluice/internal/buf"
)

// Detached passes the connection to the function of Conn.Detach; see
// engine.Protocol.
func (s *session) Detached(conn net.Conn) {
	detach := s.detach
	if s.rest != nil {
		conn = &restConn{Conn: conn, rest: s.rest}
		s.rest = nil
	}
	defer func() {
		if v := recover(); v != nil {
			s.acceptor.cfg.logger.Printf("panic in a function given to Detach: %v\n%s", v, debug.Stack())
			_ = conn.Close()
		}
	}()
	detach(conn)
}

// Closed handles the end of the connection; see engine.Protocol.
func (s *session) Closed(err error) {
	if s.err == nil {
		s.err = err
	}
	if s.phase < phaseEnded {
		s.phase = phaseEnded
	}
	a := s.acceptor
	if s.phase != phaseDetached { // else ServeConn has returned
		a.fail(s.err)
	}
	if s.sender != nil {
		s.sender.end(nil)
	}
	if s.id != 0 {
		a.server.sleepers.remove(s.id)
	}
	s.releaseRest()
	if s.isOpened && a.cfg.onClose != nil {
		s.tellClosed()
	}
	releaseSession(s)
}

// tellClosed calls OnClose.
func (s *session) tellClosed() {
	defer func() {
		if v := recover(); v != nil {
			s.acceptor.cfg.logger.Printf("panic in OnClose: %v\n%s", v, debug.Stack())
		}
	}()
	s.acceptor.cfg.onClose((*Conn)(s), s.err)
}

// A restConn is a net.Conn whose reads first return the session's kept input. The
// engine's unread input follows from the wrapped Conn.
type restConn struct {
	net.Conn
	rest *buf.Buffer // nil: all was read
	used int
}

// Read implements net.Conn.
func (c *restConn) Read(p []byte) (int, error) {
	if c.rest == nil || len(p) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.rest.B[c.used:])
	if c.used += n; c.used == len(c.rest.B) {
		c.rest.ReleaseHeld()
		c.rest = nil
	}
	return n, nil
}

// NetConn returns the connection underneath.
func (c *restConn) NetConn() net.Conn { return c.Conn }

// CloseWrite closes the sending side. Its error is errors.ErrUnsupported if the connection
// underneath cannot do it.
func (c *restConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
