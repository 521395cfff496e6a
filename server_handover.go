package sluice

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"

	"github.com/sluicehttp/sluice/internal/engine"
)

// ErrServerClosed says that a connection was not taken because the server is shut
// down.
var ErrServerClosed = errors.New("sluice: server is shut down")

// HandOver takes up to limit connections that are between requests, or in the
// middle of a request's header, away from the server, all of them if limit is
// negative. It calls take for each, one after the other, on the caller's goroutine. It returns their number. What take gets
// is take's: another server's AdoptConn, in this process or in another one that
// the socket is sent to, serves it on, and the client does not notice. What the
// client has sent meanwhile is in the socket, or else in leftover, a part of a
// header for instance, which must be handed on, too.
//
// Only bare TCP and unix sockets are given, and of those the ones that the server
// has accepted or adopted: TLS connections, those of ServeConn, and whatever else
// listeners yield, stay. Connections with a request in hand stay until the next
// call. For this server, a connection that is given away has ended: ConnState is
// told StateClosed, and limits count it no longer. Its next server counts
// MaxRequestsPerConn and MaxKeepaliveDuration from the beginning. take must not
// call HandOver.
func (s *Server) HandOver(limit int, take func(c net.Conn, leftover []byte)) int {
	e := s.currentEngine()
	if e == nil {
		return 0
	}
	return e.DetachIdle(limit, take)
}

// AdoptConn serves c as if it had been accepted, and returns at once. leftover is
// input that was read from it before, and is served first; it is copied. c is the
// server's from now on, also when AdoptConn returns an error. Limits, hooks,
// IdleTimeout and Shutdown apply as to other connections.
//
// It works without any Serve. After Shutdown it closes c and returns
// ErrServerClosed, until the server serves again.
//
// EngineEpoll serves a *net.TCPConn or *net.UnixConn by a descriptor of its own,
// and closes c; AdoptSocket spares the detour.
func (s *Server) AdoptConn(c net.Conn, leftover []byte) error {
	e, a, err := s.adopting()
	if err == nil {
		return closedError(e.AdoptConn(c, leftover, a))
	}
	c.Close()
	return err
}

// AdoptSocket is AdoptConn for the descriptor of a connected stream socket, TCP
// or unix. fd is the server's from now on, also when AdoptSocket returns an
// error.
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

// Probe returns nil when every part of the server that waits for connections has
// turned once, and ctx's error if they do not in time. EnginePerConn has no such
// parts; nor has a server that does not serve. Handlers are not waited for.
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

// adopting returns what adopted connections are served with. They share an
// acceptor, because engines want to see few.
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

// closedError returns err in the words of this package.
func closedError(err error) error {
	if err == engine.ErrShutdown {
		return ErrServerClosed
	}
	return err
}
