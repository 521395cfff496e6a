package sluice

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/listen"
)

// Serve serves HTTP on connections from ln with handler; see Server.Serve.
func Serve(ln net.Listener, handler RequestHandler) error {
	return (&Server{Handler: handler}).Serve(ln)
}

// ServeTLS is Serve over TLS; see Server.ServeTLS.
func ServeTLS(ln net.Listener, certFile, keyFile string, handler RequestHandler) error {
	return (&Server{Handler: handler}).ServeTLS(ln, certFile, keyFile)
}

// ServeTLSEmbed is Serve over TLS; see Server.ServeTLSEmbed.
func ServeTLSEmbed(ln net.Listener, certData, keyData []byte, handler RequestHandler) error {
	return (&Server{Handler: handler}).ServeTLSEmbed(ln, certData, keyData)
}

// ServeConn serves HTTP on one connection with handler; see Server.ServeConn.
func ServeConn(c net.Conn, handler RequestHandler) error {
	return (&Server{Handler: handler}).ServeConn(c)
}

// ListenAndServe serves HTTP on the TCP address addr with handler.
func ListenAndServe(addr string, handler RequestHandler) error {
	return (&Server{Handler: handler}).ListenAndServe(addr)
}

// ListenAndServeUNIX serves HTTP on the unix socket at path addr with handler;
// see Server.ListenAndServeUNIX.
func ListenAndServeUNIX(addr string, mode fs.FileMode, handler RequestHandler) error {
	return (&Server{Handler: handler}).ListenAndServeUNIX(addr, mode)
}

// ListenAndServeTLS serves HTTPS on the TCP address addr with handler.
func ListenAndServeTLS(addr, certFile, keyFile string, handler RequestHandler) error {
	return (&Server{Handler: handler}).ListenAndServeTLS(addr, certFile, keyFile)
}

// ListenAndServeTLSEmbed serves HTTPS on the TCP address addr with handler.
func ListenAndServeTLSEmbed(addr string, certData, keyData []byte, handler RequestHandler) error {
	return (&Server{Handler: handler}).ListenAndServeTLSEmbed(addr, certData, keyData)
}

// ListenAndServe serves HTTP on the TCP address addr ("host:port"; without a
// host, on all addresses, IPv4 and IPv6). It returns when the listener fails,
// or nil after Shutdown.
func (s *Server) ListenAndServe(addr string) error {
	ln, err := s.listen(addr)
	if err != nil {
		return err
	}
	return s.serveOwn(ln)
}

// ListenAndServeUNIX serves HTTP on a unix socket at path addr, with the given
// permissions. It replaces an existing socket. If another kind of file exists
// at addr, it returns an error. At the end it removes the socket, unless another
// process has replaced it.
func (s *Server) ListenAndServeUNIX(addr string, mode fs.FileMode) error {
	if info, err := os.Lstat(addr); err == nil {
		if info.Mode()&fs.ModeSocket == 0 {
			return fmt.Errorf("sluice: %q exists and is not a socket", addr)
		}
		if err := os.Remove(addr); err != nil {
			return fmt.Errorf("sluice: cannot remove the old socket: %w", err)
		}
	}
	ln, err := net.Listen("unix", addr)
	if err != nil {
		return err
	}
	if err := os.Chmod(addr, mode); err != nil {
		ln.Close()
		return fmt.Errorf("sluice: cannot set the mode of the socket: %w", err)
	}
	return s.serveOwn(listen.Unix(ln.(*net.UnixListener), addr))
}

// listen opens a TCP listener with the keep-alive settings of the server.
func (s *Server) listen(addr string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAlive: -1}
	lc.SetMultipathTCP(false) // plain TCP sockets inherit more options from their listener
	if s.TCPKeepalive {
		lc.KeepAlive = s.TCPKeepalivePeriod
	}
	return lc.Listen(context.Background(), "tcp", addr)
}

// serveOwn serves a listener that the server made and therefore closes.
func (s *Server) serveOwn(ln net.Listener) error {
	defer ln.Close()
	return s.Serve(ln)
}

// serverState is the serving state of a Server, with the mutex that guards it.
type serverState struct {
	engine.Serving
	noEpoll  error     // why Engine is not EngineEpoll; nil if it is, or was not wanted
	adopting *acceptor // used by AdoptConn and AdoptSocket; nil: none yet
	attached []*attachment
	leaving  []*attachment // their protocols are shutting down
	// isShutDown is set by Shutdown, until the server serves again.
	isShutDown bool
}

// engine returns the engine in use, and creates one if there is none. It ends
// the effect of an earlier Shutdown.
func (s *Server) engine() engine.Engine {
	s.state.Lock()
	defer s.state.Unlock()
	s.state.isShutDown = false
	return s.engineLocked()
}

// engineLocked returns the engine in use, and creates one if there is none; the
// mutex is held.
func (s *Server) engineLocked() engine.Engine {
	if s.state.Engine == nil {
		s.state.Engine, s.state.noEpoll = s.newEngine()
		s.done.Open()
		s.gauges.isClosing.Store(false)
	}
	return s.state.Engine
}

// Serve serves HTTP on connections from ln until ln fails or Shutdown is
// called. It returns ln's error, or nil after Shutdown or when ln was closed.
// One Server may run several Serves at once. Only Shutdown and StopAccepting
// close ln.
//
// A listener that wraps its connections, such as that of tls.NewListener, is
// served by EnginePerConn. ServeTLS serves TLS with every engine.
//
// On Linux, net.Listen makes a listener for Multipath TCP, on which each new
// connection costs half as much CPU time again; Serve logs one line about it.
// tcplisten.Config.NewListener, reuseport.Listen and ListenAndServe listen for
// plain TCP.
func (s *Server) Serve(ln net.Listener) error {
	if s.Handler == nil {
		return errNoHandler
	}
	cfg := s.config()
	if cfg.proxy != nil && len(cfg.proxy.Trusted) == 0 && ln.Addr().Network() != "unix" {
		return errNoTrusted
	}
	s.logListener(ln, cfg.logger)
	e := s.beginServe(&ln)
	defer s.state.End(&ln)
	return engine.ServeError(e.Serve(listen.Bare(ln), newAcceptor(s, cfg)))
}

var errNoHandler = errors.New("sluice: Server.Handler is nil")

// beginServe returns the engine that serves ln.
func (s *Server) beginServe(ln *net.Listener) engine.Engine {
	s.state.Lock()
	defer s.state.Unlock()
	s.state.isShutDown = false
	s.state.BeginLocked(ln)
	return s.engineLocked()
}

// ServeConn serves HTTP on one connection. It returns when the connection is
// closed and its handlers have returned, or when the last response is written and a
// HijackHandler has taken the connection over, on its own goroutine. The error is nil after an orderly
// end, and ErrConcurrencyLimit or ErrPerIPConnLimit if the server refused the
// connection. Otherwise it is the error of the connection, or the error that
// ErrorHandler receives.
func (s *Server) ServeConn(c net.Conn) error { return s.serveConnFrom(c, nil) }

// serveConnFrom is ServeConn for a connection from which leftover was already
// read.
func (s *Server) serveConnFrom(c net.Conn, leftover []byte) error {
	if s.Handler == nil {
		return errNoHandler
	}
	one := acquireSingle(s)
	err := s.engine().ServeConn(c, leftover, &one.acceptor)
	one.streams.Wait()
	if one.failure != nil {
		err = one.failure
	}
	releaseSingle(one)
	return err
}
