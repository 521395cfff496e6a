package tcp

import (
	"net"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/choose"
)

// AdoptConn serves c like an accepted connection, and returns at once. Use it for
// connections from other sources, for example for dialled ones: with OnOpen, which
// may send first, a Server can then be a client with many connections. The Server
// owns c from now on, even if AdoptConn returns an error. Limits, callbacks and
// Shutdown apply as to other connections.
//
// AdoptConn works without Serve. After Shutdown, it starts the Server again. With
// TLSConfig, c becomes the server side of a TLS connection. To adopt a client's
// *tls.Conn, leave TLSConfig nil.
//
// EngineEpoll serves a *net.TCPConn or *net.UnixConn through a duplicate of its
// descriptor, and closes c. AdoptSocket avoids the duplicate.
func (s *Server) AdoptConn(c net.Conn) error {
	e, a, err := s.adopting()
	if err != nil {
		_ = c.Close()
		return err
	}
	if s.TLSConfig != nil {
		c = engine.Secure(c, s.TLSConfig, s.ProxyProtocol != sluice.ProxyProtocolOff)
	}
	return e.AdoptConn(c, engine.Parcel{}, a)
}

// AdoptSocket is AdoptConn for the descriptor of a connected stream socket, TCP
// or unix. The Server owns fd from now on, even if AdoptSocket returns an error.
func (s *Server) AdoptSocket(fd int) error {
	if s.TLSConfig == nil {
		if e, a, err := s.adopting(); err == nil {
			return choose.AdoptSocket(e, fd, engine.Parcel{}, a)
		}
	}
	c, err := choose.SocketConn(fd)
	if err != nil {
		return err
	}
	return s.AdoptConn(c)
}

// adopting returns the engine and the acceptor of adopted connections. They share
// one acceptor, because an engine keeps an entry for each acceptor.
func (s *Server) adopting() (engine.Engine, *acceptor, error) {
	if s.Handler == nil {
		return nil, nil, errNoHandler
	}
	s.serving.Lock()
	defer s.serving.Unlock()
	if s.adopter == nil || s.adopter.engine != s.serving.Engine {
		cfg := s.config()
		s.adopter = &acceptor{server: s, cfg: cfg, engine: s.startLocked(cfg)}
	}
	return s.adopter.engine, s.adopter, nil
}
