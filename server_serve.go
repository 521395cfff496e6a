package sluice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// Serve serves HTTP on connections from ln with handler; see Server.Serve.
func Serve(ln net.Listener, handler RequestHandler) error {
	s := &Server{Handler: handler}
	return s.Serve(ln)
}

// ServeTLS is Serve over TLS; see Server.ServeTLS.
func ServeTLS(ln net.Listener, certFile, keyFile string, handler RequestHandler) error {
	s := &Server{Handler: handler}
	return s.ServeTLS(ln, certFile, keyFile)
}

// ServeTLSEmbed is Serve over TLS; see Server.ServeTLSEmbed.
func ServeTLSEmbed(ln net.Listener, certData, keyData []byte, handler RequestHandler) error {
	s := &Server{Handler: handler}
	return s.ServeTLSEmbed(ln, certData, keyData)
}

// ServeConn serves HTTP on one connection with handler; see Server.ServeConn.
func ServeConn(c net.Conn, handler RequestHandler) error {
	s := &Server{Handler: handler}
	return s.ServeConn(c)
}

// ListenAndServe serves HTTP on the TCP address addr with handler.
func ListenAndServe(addr string, handler RequestHandler) error {
	s := &Server{Handler: handler}
	return s.ListenAndServe(addr)
}

// ListenAndServeUNIX serves HTTP on the unix socket at path addr with handler;
// see Server.ListenAndServeUNIX.
func ListenAndServeUNIX(addr string, mode fs.FileMode, handler RequestHandler) error {
	s := &Server{Handler: handler}
	return s.ListenAndServeUNIX(addr, mode)
}

// ListenAndServeTLS serves HTTPS on the TCP address addr with handler.
func ListenAndServeTLS(addr, certFile, keyFile string, handler RequestHandler) error {
	s := &Server{Handler: handler}
	return s.ListenAndServeTLS(addr, certFile, keyFile)
}

// ListenAndServeTLSEmbed serves HTTPS on the TCP address addr with handler.
func ListenAndServeTLSEmbed(addr string, certData, keyData []byte, handler RequestHandler) error {
	s := &Server{Handler: handler}
	return s.ListenAndServeTLSEmbed(addr, certData, keyData)
}

// ListenAndServe serves HTTP on the TCP address addr ("host:port"; without
// host on all addresses, IPv4 and IPv6). It returns when the listener fails,
// or nil after Shutdown.
func (s *Server) ListenAndServe(addr string) error {
	ln, err := s.listen(addr)
	if err != nil {
		return err
	}
	return s.serveOwn(ln)
}

// ListenAndServeUNIX serves HTTP on a unix socket at path addr, with the given
// permissions. A socket that is there already is replaced, any other file is
// an error.
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
	return s.serveOwn(ln)
}

// listen opens a TCP listener with the keep-alive that the server wants.
func (s *Server) listen(addr string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAlive: -1}
	lc.SetMultipathTCP(false) // sockets of plain TCP inherit more from their listener
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

// serverState is what a Server knows about its serving, guarded by Server.mu.
type serverState struct {
	engine    engine.Engine
	noEpoll   error                      // why engine is not EngineEpoll, where that might be
	listeners map[*net.Listener]struct{} // by place: their types need not be comparable
	draining  []engine.Engine            // that were shut down and have not ended
	adopting  *acceptor                  // of AdoptConn; nil: none yet
	// isShutDown is set by Shutdown, until the server serves again.
	isShutDown bool
}

// engine returns the engine in use and makes one if there is none.
func (s *Server) engine() engine.Engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.isShutDown = false
	return s.engineLocked()
}

// engineLocked returns the engine in use and makes one if there is none; mu is
// held.
func (s *Server) engineLocked() engine.Engine {
	if s.state.engine == nil {
		s.state.engine, s.state.noEpoll = s.newEngine()
		s.done.open()
		s.gauges.isClosing.Store(false)
	}
	return s.state.engine
}

// Serve serves HTTP on connections from ln until ln fails or Shutdown is
// called, then it returns ln's error, or nil after Shutdown and when ln was
// closed. Several Serves of one Server may run at once. ln is closed by
// Shutdown only.
//
// A listener that makes something of its connections, as that of tls.NewListener
// does, is served by EnginePerConn; ServeTLS serves TLS with every engine.
func (s *Server) Serve(ln net.Listener) error {
	if s.Handler == nil {
		return errNoHandler
	}
	cfg := s.config()
	s.logFallback(ln, cfg.logger)
	e := s.engine()
	s.trackListener(&ln, true)
	defer s.trackListener(&ln, false)
	err := e.Serve(ln, newAcceptor(s, cfg))
	if isOrderlyEnd(err) {
		return nil
	}
	return err
}

var errNoHandler = errors.New("sluice: Server.Handler is nil")

// trackListener keeps the listeners that Shutdown must close.
func (s *Server) trackListener(ln *net.Listener, add bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !add {
		delete(s.state.listeners, ln)
		return
	}
	if s.state.listeners == nil {
		s.state.listeners = make(map[*net.Listener]struct{})
	}
	s.state.listeners[ln] = struct{}{}
}

// isOrderlyEnd tells whether err is how serving ends: somebody closed the
// listener, or Shutdown came before the engine looked at it.
func isOrderlyEnd(err error) bool {
	return errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || err == engine.ErrShutdown
}

// ServeConn serves HTTP on one connection and returns when that is closed, or
// when the last response is written and a HijackHandler has the connection, on
// a goroutine of its own. The error is nil after an orderly end, and
// ErrConcurrencyLimit or ErrPerIPConnLimit if the connection was refused.
// Otherwise it is the connection's own error, or what ErrorHandler gets.
func (s *Server) ServeConn(c net.Conn) error { return s.ServeConnFrom(c, nil) }

// ServeConnFrom is ServeConn for a connection from which leftover was read
// already; it is served first. Live hand-over between processes is built on
// it.
func (s *Server) ServeConnFrom(c net.Conn, leftover []byte) error {
	if s.Handler == nil {
		return errNoHandler
	}
	one := acquireSingle(s)
	err := s.engine().ServeConn(c, leftover, &one.acceptor)
	if one.failure != nil {
		err = one.failure
	}
	releaseSingle(one)
	return err
}

// StopAccepting ends the Serve of ln, or the ServeTLS, and closes ln.
// Connections that were accepted are served on. It is for listeners whose socket
// other processes have too, as those of package prefork: it lives on there.
func (s *Server) StopAccepting(ln net.Listener) error {
	s.mu.Lock()
	e := s.state.engine
	s.mu.Unlock()
	if accepting, ok := e.(engine.Accepting); ok {
		accepting.StopAccepting(ln)
	}
	return ln.Close()
}

// Shutdown is ShutdownWithContext without a bound.
func (s *Server) Shutdown() error { return s.ShutdownWithContext(context.Background()) }

// ShutdownWithContext closes the listeners and the idle connections at once,
// closes the Done channels of running requests, waits for these requests to be
// answered, with "Connection: close", and closes whatever is left when ctx
// ends; then it returns ctx's error. Hijacked connections are not waited for.
// Several calls wait for the same end, each as long as its own ctx; the first
// ctx to end closes what is left. Afterwards the Server may serve again.
func (s *Server) ShutdownWithContext(ctx context.Context) error {
	s.mu.Lock()
	e := s.state.engine
	s.state.engine = nil
	if e != nil {
		s.state.draining = append(s.state.draining, e)
	}
	draining := slices.Clone(s.state.draining)
	listeners := s.state.listeners
	s.state.listeners = nil
	s.state.adopting = nil
	s.state.isShutDown = true
	s.mu.Unlock()
	var firstErr error
	if e != nil {
		s.gauges.isClosing.Store(true)
		e.CloseOnNextResponse()
		firstErr = closeListeners(listeners)
		s.done.close()
	}
	var timeout error
	for _, e := range slices.Backward(draining) { // the latest first: the others are at it already
		if err := e.Shutdown(ctx); err != nil {
			timeout = err
			continue
		}
		s.forgetEngine(e)
	}
	if timeout != nil {
		return timeout
	}
	return firstErr
}

// closeListeners closes listeners and returns the first error.
func closeListeners(listeners map[*net.Listener]struct{}) (first error) {
	for ln := range listeners {
		if err := (*ln).Close(); err != nil && !errors.Is(err, net.ErrClosed) && first == nil {
			first = err
		}
	}
	return first
}

// forgetEngine is called when e has ended.
func (s *Server) forgetEngine(e engine.Engine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.draining = slices.DeleteFunc(s.state.draining, func(other engine.Engine) bool { return other == e })
}

// CloseOnNextResponse answers every further request with "Connection: close".
// Idle connections are left alone; their next request is their last one. It is
// how clients are moved elsewhere without an error.
func (s *Server) CloseOnNextResponse() {
	s.mu.Lock()
	e := s.engineLocked()
	s.mu.Unlock()
	s.gauges.isClosing.Store(true)
	e.CloseOnNextResponse()
}

// closeRequested tells whether connections are to be closed after their next
// response.
func (s *Server) closeRequested() bool { return s.gauges.isClosing.Load() }

// refusalPause sleeps after a refused connection, if configured.
func refusalPause(d time.Duration) {
	if d > 0 {
		time.Sleep(d)
	}
}
