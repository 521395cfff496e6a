package websocket

import (
	"errors"
	"net"
	"runtime/debug"
	"strings"

	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// call calls a callback.
func (s *session) call(f func(*Conn) error) {
	defer s.recoverCallback()
	s.called(f(s.conn))
}

// callMessage is call for OnMessage, without a closure.
func (s *session) callMessage(f func(*Conn, Message) error, m Message) {
	defer s.recoverCallback()
	s.called(f(s.conn, m))
}

// called handles the error of a callback.
func (s *session) called(err error) {
	if err != nil {
		s.conn.closeFor(err)
	}
}

// recoverCallback closes the connection of a callback that panicked.
func (s *session) recoverCallback() {
	if v := recover(); v != nil {
		s.conn.panicked(v)
	}
}

// panicked logs a panic of the program and closes c.
func (c *Conn) panicked(v any) {
	c.host.server.Printf("panic while serving a WebSocket: %v\n%s", v, debug.Stack())
	c.closeFor(&CloseError{Code: CodeInternal})
}

// closeFor closes c because the program has returned err.
func (c *Conn) closeFor(err error) {
	c.lock().Lock()
	defer c.lock().Unlock()
	if c.phase != phaseOpen {
		return
	}
	frame := &CloseError{Code: CodeInternal}
	var wanted *CloseError
	if errors.As(err, &wanted) && (wanted.Code == CodeNone || ws.Code(wanted.Code).MaySend()) {
		frame.Code, frame.Reason = wanted.Code, strings.ToValidUTF8(wanted.Reason, "\uFFFD")
	}
	if s := c.more.session; s != nil && wanted == nil {
		s.note(err) // OnClose gets it
	}
	c.close(frame)
}

// Closed handles the end of the connection; see engine.Protocol.
func (s *session) Closed(err error) {
	c := s.conn
	c.lock().Lock()
	isMoved := c.phase == phaseMoved
	c.phase = max(c.phase, phaseClosed)
	if err == nil {
		err = net.ErrClosed // by Shutdown, unless there is another reason
	}
	s.note(err)
	s.run = running // the addresses are known
	m := c.more
	m.makeRoom()
	r := m.rare()
	if r == nil {
		r = &rare{}
	}
	r.endPings(len(r.pings))
	m.dropOutbox()
	m.dropBehind()
	err = s.err
	c.lock().closed++
	c.lock().Unlock()
	if !isMoved {
		s.host.closes.count(err)
	}
	if r.cancel != nil {
		r.cancel(err)
	}
	c.leaveGroups()
	switch f := s.host.Endpoint.OnClose; {
	case s.loop != nil:
		s.loop.end(err)
	case f != nil && !isMoved:
		s.callClose(f, err)
	}
	if s.partial != nil {
		s.partial.ReleaseHeld()
	}
	c.lock().Lock()
	c.more = nil // m is not used again: other goroutines may know its channels
	if s.loop != nil {
		c.more = &extra{apart: &apart{number: m.apart.number, loop: s.loop}} // Read returns its error
	}
	c.lock().Unlock()
	s.host.conns.remove(c.index)
	releaseSession(s)
}

// callClose calls OnClose.
func (s *session) callClose(f func(*Conn, error), err error) {
	defer func() {
		if v := recover(); v != nil {
			s.host.server.Printf("panic in OnClose of a WebSocket: %v\n%s", v, debug.Stack())
		}
	}()
	f(s.conn, err)
}
