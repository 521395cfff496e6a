package sluice

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"

	"github.com/sluicehttp/sluice/internal/engine"
)

// ErrServerClosed says that the server did not take a connection because it is
// shut down.
var ErrServerClosed = errors.New("sluice: server is shut down")

// HandOver takes up to limit connections away from the server, all if limit is
// negative. It selects connections that are between requests, or in the middle
// of a request's header. It calls take for each, one after the other, on the
// caller's goroutine, and returns their number.
//
// take owns the connection that it receives. Pass it to another server's
// AdoptConn, in this process or in another one, to which the socket is sent:
// that server continues to serve it, and the client does not notice. Input that
// the server has already read, such as a part of a header, is in leftover; pass
// it on too. Later input is in the socket. take must not call HandOver.
//
// HandOver gives only bare TCP and unix sockets that the server has accepted or
// adopted. TLS connections, connections of ServeConn, and connections of any
// other type stay. A connection with a request in progress stays until the next
// call. For this server, a connection that is handed over has ended: ConnState
// receives StateClosed, and limits no longer count it. Its next server counts
// MaxRequestsPerConn and MaxKeepaliveDuration from the beginning.
func (s *Server) HandOver(limit int, take func(c net.Conn, leftover []byte)) int {
	e := s.currentEngine()
	if e == nil {
		return 0
	}
	return e.DetachIdle(limit, take)
}

// AdoptConn serves c as if the server had accepted it, and returns at once. The
// server owns c from the call on, even when AdoptConn returns an error.
// leftover is input that was already read from c; the server copies it and
// serves it first. Limits, hooks, IdleTimeout and Shutdown apply as to other
// connections.
//
// AdoptConn does not need a Serve. After Shutdown it closes c and returns
// ErrServerClosed, until the server serves again.
//
// EngineEpoll serves a *net.TCPConn or *net.UnixConn by its own descriptor, and
// closes c. AdoptSocket avoids this duplication.
func (s *Server) AdoptConn(c net.Conn, leftover []byte) error {
	e, a, err := s.adopting()
	if err == nil {
		return closedError(e.AdoptConn(c, leftover, a))
	}
	c.Close()
	return err
}

// AdoptSocket is AdoptConn for the descriptor of a connected stream socket, TCP
// or unix. The server owns fd from the call on, even when AdoptSocket returns
// an error.
func (s *Server) AdoptSocket(fd int, leftover []byte) error {
	if fd < 0 {
		return os.NewSyscallError("adopt", syscall.EBADF)
	}
	e, a, err := s.adopting()
	if err == nil {
		if adopter, ok := e.(engine.Adopter); ok {
			return closedError(adopter.Adopt(fd, leftover, a))
		}
	}
	file := os.NewFile(uintptr(fd), "socket")
	defer file.Close()
	if err != nil {
		return err
	}
	c, err := net.FileConn(file)
	if err != nil {
		return err
	}
	return closedError(e.AdoptConn(c, leftover, a))
}

// Probe returns nil when every event loop of the server has completed one turn,
// and ctx's error if ctx ends first. EnginePerConn has no event loops, nor has
// a server that does not serve; Probe then returns ctx.Err() at once. It does
// not wait for handlers.
func (s *Server) Probe(ctx context.Context) error {
	if prober, ok := s.currentEngine().(engine.Prober); ok {
		return prober.Probe(ctx)
	}
	return ctx.Err()
}

// currentEngine returns the engine in use, nil if there is none.
func (s *Server) currentEngine() engine.Engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.engine
}

// adopting returns the engine and the acceptor for adopted connections. All
// share one acceptor, because engines compare acceptors and expect few.
func (s *Server) adopting() (engine.Engine, *acceptor, error) {
	if s.Handler == nil {
		return nil, nil, errNoHandler
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.isShutDown {
		return nil, nil, ErrServerClosed
	}
	e := s.engineLocked()
	if s.state.adopting == nil {
		s.state.adopting = newAcceptor(s, s.config())
	}
	return e, s.state.adopting, nil
}

// closedError replaces engine.ErrShutdown with ErrServerClosed.
func closedError(err error) error {
	if err == engine.ErrShutdown {
		return ErrServerClosed
	}
	return err
}
