package tcp

import (
	"crypto/tls"
	"net"
	"os"

	"github.com/sluicehttp/sluice/internal/engine"
)

// AdoptConn serves c as if it had been accepted, and returns at once: for
// connections from elsewhere, such as those that the program has dialled. With
// OnOpen, which may speak first, a Server is then a client of many connections.
// c is the Server's from now on, also when AdoptConn returns an error. Limits,
// callbacks and Shutdown apply as to other connections.
//
// It works without any Serve, and after Shutdown begins anew. With TLSConfig c
// is the server's side of TLS; a *tls.Conn of a client is adopted without it.
//
// EngineEpoll serves a *net.TCPConn or *net.UnixConn by a descriptor of its own,
// and closes c; AdoptSocket spares the detour.
func (s *Server) AdoptConn(c net.Conn) error {
	e, a, err := s.adopting()
	if err != nil {
		_ = c.Close()
		return err
	}
	if s.TLSConfig != nil {
		c = tls.Server(c, s.TLSConfig)
	}
	return e.AdoptConn(c, nil, a)
}

// AdoptSocket is AdoptConn for the descriptor of a connected stream socket, TCP
// or unix. fd is the Server's from now on, also when AdoptSocket returns an
// error.
func (s *Server) AdoptSocket(fd int) error {
	if s.TLSConfig == nil {
		e, a, err := s.adopting()
		if adopter, ok := e.(engine.Adopter); ok && err == nil {
			return adopter.Adopt(fd, nil, a)
		}
	}
	file := os.NewFile(uintptr(fd), "socket")
	if file == nil {
		return os.ErrInvalid
	}
	c, err := net.FileConn(file)
	_ = file.Close()
	if err != nil {
		return err
	}
	return s.AdoptConn(c)
}

// adopting returns what adopted connections are served with. They share an
// acceptor, because engines want to see few.
func (s *Server) adopting() (engine.Engine, *acceptor, error) {
	if s.Handler == nil {
		return nil, nil, errNoHandler
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.adopter == nil {
		s.adopter = &acceptor{server: s, cfg: s.config()}
	}
	return s.startLocked(s.adopter.cfg), s.adopter, nil
}
