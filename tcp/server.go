package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine"
)

// A Handler is given the input that has come from a connection and not been
// used yet. It returns how many bytes of in it has used, from the beginning,
// and writes its reply to c.
//
// A handler that uses a part is called again for the rest at once. If it uses
// nothing, it is called again when there is more, with the same bytes in front;
// so it may handle one message at a time, and return 0 for half of one.
// Server.MaxBuffer bounds what is kept for it.
//
// An error closes the connection after the reply was sent, and is what OnClose
// gets; io.EOF stands for a regular end, where OnClose gets nil. A panic is
// logged and closes the connection.
//
// in and c are the handler's until it returns. It may block: other connections
// go on.
type Handler func(c *Conn, in []byte) (used int, err error)

// A Server serves connections with a Handler. Its fields must not be changed
// once it serves; it must not be copied. All fields but Handler may be zero.
type Server struct {
	// Handler is called with what connections send.
	Handler Handler
	// OnOpen is called first on each connection, after the TLS handshake where
	// there is one, and may write a greeting. It may block. An error closes
	// the connection, as Handler's does.
	OnOpen func(c *Conn) error
	// OnClose is called when a connection has ended, if OnOpen was called on
	// it. err is what the peer, the network or a callback did wrong; nil for a
	// regular end: the peer closed between messages, a callback returned
	// io.EOF, Sender.Close, Shutdown. It is os.ErrDeadlineExceeded after a
	// time-out and io.ErrUnexpectedEOF when the peer ended within a message.
	// c has its state and addresses, and cannot be written to any more.
	OnClose func(c *Conn, err error)

	// Engine moves the bytes; the zero value is EngineAuto.
	Engine Engine
	// TLSConfig, where it is not nil, has every connection speak TLS. It needs
	// a certificate.
	TLSConfig *tls.Config

	// IdleTimeout bounds every wait for input, from the last input or reply
	// on; 0: none. What Senders send does not count.
	IdleTimeout time.Duration
	// ReadTimeout bounds how long a message may take, from the time when the
	// handler got its first bytes and did not use them; 0: only IdleTimeout.
	ReadTimeout time.Duration
	// WriteTimeout bounds how long the peer may let a write wait; 0: for ever.
	WriteTimeout time.Duration
	// HandshakeTimeout bounds the TLS handshake; 0: 10 s, negative: none.
	HandshakeTimeout time.Duration
	// KeepAlivePeriod is that of TCP keep-alive probes, which find peers that
	// have vanished. 0: none, or what a listener given to Serve has; negative:
	// none.
	KeepAlivePeriod time.Duration

	// MaxConns bounds the connections served at the same time; more are closed
	// at once. 0: no limit.
	MaxConns int
	// MaxConnsPerIP is MaxConns for each client: an IPv4 address, or an IPv6
	// network (see IPv6ClientPrefix); 0: no limit.
	MaxConnsPerIP int
	// IPv6ClientPrefix is how many leading bits of an IPv6 address MaxConnsPerIP
	// takes for one client. 0: 64. 128 counts each address for itself. An
	// IPv4-mapped address counts as the IPv4 address.
	IPv6ClientPrefix int
	// MaxBuffer is how many bytes may be kept for the handler, which bounds the
	// messages that come in pieces. A connection on which so many bytes are
	// there and none is used ends with ErrTooLarge. 0: 64 KiB.
	MaxBuffer int
	// MaxPending is how many bytes may wait in a connection's Sender; 0:
	// 64 KiB.
	MaxPending int
	// ReadBufferSize is how much is read at a time, with buffers that idle
	// connections do not hold; 0: 16 KiB.
	ReadBufferSize int
	// MaxWorkers bounds the goroutines that run handlers on each loop of
	// EngineEpoll; 0: no limit. Input waits for them. EnginePerConn has no such
	// limit.
	MaxWorkers int
	// Loops is the number of event loops of EngineEpoll; 0: one for every two
	// processors. EnginePerConn has none.
	Loops int

	// Logger gets panics and failures to accept; nil: package log's.
	Logger sluice.Logger

	mu        sync.Mutex
	engine    engine.Engine   // nil: not serving
	draining  []engine.Engine // that were shut down and have not ended
	listeners map[net.Listener]struct{}
	adopter   *acceptor // of AdoptConn; nil: none yet

	gauges   gauges
	perIP    engine.AddressCounter
	sleepers sleepers
}

// gauges are the counters of a Server.
type gauges struct {
	admitted atomic.Int64 // connections that engines know
	accepted atomic.Uint64
	refused  atomic.Uint64
}

// ListenAndServe serves the TCP address addr ("host:port") with handler.
func ListenAndServe(addr string, handler Handler) error {
	s := &Server{Handler: handler}
	return s.ListenAndServe(addr)
}

// Serve serves connections from ln with handler; see Server.Serve.
func Serve(ln net.Listener, handler Handler) error {
	s := &Server{Handler: handler}
	return s.Serve(ln)
}

// ListenAndServe serves the TCP address addr ("host:port"; without host on all
// addresses). It returns when the listener fails, or nil after Shutdown.
func (s *Server) ListenAndServe(addr string) error {
	lc := net.ListenConfig{KeepAlive: -1} // the engine sets it
	lc.SetMultipathTCP(false)             // sockets of plain TCP inherit more from their listener
	ln, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	return s.Serve(ln)
}

// Serve serves connections from ln until ln fails or Shutdown is called, then
// it returns ln's error, or nil after Shutdown and when ln was closed. Several
// Serves of one Server may run at once. ln is closed by Shutdown only.
func (s *Server) Serve(ln net.Listener) error {
	if s.Handler == nil {
		return errNoHandler
	}
	cfg := s.config()
	e := s.start(cfg)
	s.trackListener(ln, true)
	defer s.trackListener(ln, false)
	source := ln
	if s.TLSConfig != nil {
		source = &engine.TLSListener{Listener: ln, Config: s.TLSConfig}
	}
	err := e.Serve(source, &acceptor{server: s, cfg: cfg})
	if isOrderlyEnd(err) {
		return nil
	}
	return err
}

// ServeConn serves one connection and returns when it is closed or detached:
// nil after a regular end, else what OnClose gets; ErrRefused if there were too
// many connections.
func (s *Server) ServeConn(c net.Conn) error {
	if s.Handler == nil {
		return errNoHandler
	}
	if s.TLSConfig != nil {
		c = tls.Server(c, s.TLSConfig)
	}
	a := &acceptor{server: s, cfg: s.config(), isSingle: true}
	err := s.start(a.cfg).ServeConn(c, nil, a)
	if a.failure != nil {
		return a.failure
	}
	return err
}

// Shutdown closes the listeners and the connections between two messages at
// once, waits for the others to get there, and closes whatever is left when
// ctx ends; then it returns ctx's error. What Senders have accepted and not
// written by then may be lost. Detached connections are not waited for.
// Several calls wait for the same end, each as long as its own ctx; the first
// ctx to end closes what is left. Afterwards the Server may serve again.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if s.engine != nil {
		s.draining = append(s.draining, s.engine)
	}
	s.engine = nil
	draining := slices.Clone(s.draining)
	listeners := s.listeners
	s.listeners = nil
	s.mu.Unlock()
	var firstErr error
	for ln := range listeners {
		if err := ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) && firstErr == nil {
			firstErr = err
		}
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

// forgetEngine is called when e has ended.
func (s *Server) forgetEngine(e engine.Engine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = slices.DeleteFunc(s.draining, func(other engine.Engine) bool { return other == e })
}

// trackListener keeps the listeners that Shutdown must close.
func (s *Server) trackListener(ln net.Listener, add bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !add {
		delete(s.listeners, ln)
		return
	}
	if s.listeners == nil {
		s.listeners = make(map[net.Listener]struct{})
	}
	s.listeners[ln] = struct{}{}
}

// isOrderlyEnd tells whether err is how serving ends: somebody closed the
// listener, or Shutdown came before the engine looked at it.
func isOrderlyEnd(err error) bool {
	return errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || err == engine.ErrShutdown
}
