package tcp

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/choose"
)

// A Handler receives the input of a connection that has not been used yet. It
// returns how many bytes of in it has used, from the beginning, and writes its
// reply to c.
//
// If the handler uses a part of in, it is called again at once with the rest. If
// it uses nothing, it is called again when more has arrived, with the same bytes
// first. It may therefore handle one message in each call, and return 0 for an
// incomplete message. Server.MaxBuffer bounds the unused input.
//
// An error closes the connection after the reply was sent, and is passed to
// OnClose. io.EOF means a regular end; OnClose then gets nil. A panic is logged and
// closes the connection.
//
// A handler must not retain in or c after it returns. It may block without delaying
// other connections.
type Handler func(c *Conn, in []byte) (used int, err error)

// A Server serves connections with a Handler. Do not change its fields after
// serving has begun, and do not copy it. All fields except Handler may be zero.
type Server struct {
	// Handler is called with the input of connections.
	Handler Handler
	// OnOpen is called first on each connection, after the TLS handshake if there
	// is one. It may write a greeting, and may block. An error closes the
	// connection, like an error of Handler.
	OnOpen func(c *Conn) error
	// OnClose is called after a connection has ended, if OnOpen was called on it
	// or is nil. err is an error of the peer, the network or a callback. It is
	// os.ErrDeadlineExceeded after a time-out, and io.ErrUnexpectedEOF if the
	// peer ended within a message. It is nil after a regular end: the peer closed
	// between messages, a callback returned io.EOF, Sender.Close, Shutdown. c
	// still has its state and addresses; writes to it fail.
	OnClose func(c *Conn, err error)

	// Engine reads and writes the bytes; the zero value is EngineAuto.
	Engine Engine
	// TLSConfig, if it is not nil, makes every connection use TLS. It needs a
	// certificate.
	TLSConfig *tls.Config

	// IdleTimeout bounds every wait for input, from the last input or reply
	// on; 0: none. Data that a Sender sends does not restart it.
	IdleTimeout time.Duration
	// ReadTimeout bounds the time for the rest of a message, from the time when
	// the handler got its first bytes and did not use them; 0: only IdleTimeout.
	ReadTimeout time.Duration
	// WriteTimeout bounds how long a write waits for the peer; 0: no limit.
	WriteTimeout time.Duration
	// HandshakeTimeout bounds the TLS handshake; 0: 10 s, negative: no limit.
	HandshakeTimeout time.Duration
	// KeepAlivePeriod is the period of TCP keep-alive probes, which detect peers
	// that have vanished. 0: none, or the setting of a listener given to Serve;
	// negative: none.
	KeepAlivePeriod time.Duration

	// MaxConns bounds the connections served at the same time; further ones are
	// closed at once. 0: no limit.
	MaxConns int
	// MaxConnsPerIP is MaxConns for each client: an IPv4 address, or an IPv6
	// network (see IPv6ClientPrefix); 0: no limit. Unix sockets have none.
	MaxConnsPerIP int
	// IPv6ClientPrefix is how many leading bits of an IPv6 address identify a
	// client for MaxConnsPerIP. 0: 64. With 128, each address is a client. An
	// IPv4-mapped address counts as the IPv4 address.
	IPv6ClientPrefix int
	// MaxBuffer is how many bytes of unused input are kept for the handler, which
	// bounds the size of a message that arrives in pieces. A connection on which
	// so many bytes have arrived and none is used ends with ErrTooLarge. 0:
	// 64 KiB.
	MaxBuffer int
	// MaxPending is how many bytes may wait in a connection's Sender; 0:
	// 64 KiB.
	MaxPending int
	// ReadBufferSize is how many bytes are read at a time. Idle connections hold
	// no read buffer. 0: 16 KiB.
	ReadBufferSize int
	// MaxWorkers bounds the goroutines that run handlers on each loop of
	// EngineEpoll; further input waits. 0: no limit. EnginePerConn has no such
	// limit.
	MaxWorkers int
	// Loops is the number of event loops of EngineEpoll; 0: one for every two
	// processors. EnginePerConn has no loops.
	Loops int

	// ProxyProtocol and ProxyTrusted are the fields of sluice.Server: a proxy's header may or must
	// come first, within HandshakeTimeout. Conn.RemoteAddr, Conn.LocalAddr and MaxConnsPerIP then
	// have the client's address. With sluice.ProxyProtocolAccept, OnOpen is called when the peer
	// has sent something. Refused connections count in Stats.Refused.
	ProxyProtocol sluice.ProxyProtocol
	ProxyTrusted  []netip.Prefix

	// Logger receives panics and failures to accept; nil: the standard logger of
	// package log.
	Logger sluice.Logger

	serving engine.Serving
	adopter *acceptor // of AdoptConn; nil: none yet; guarded by serving

	gauges   gauges
	perIP    engine.AddressCounter
	sleepers sleepers
}

// gauges are the counters of a Server.
type gauges struct {
	admitted atomic.Int64 // connections admitted and not released
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

// ListenAndServe serves the TCP address addr, "host:port"; without host, it listens
// on all addresses. It returns an error if listening or accepting fails, and nil
// after Shutdown.
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

// Serve serves connections from ln until ln fails or Shutdown is called. It returns
// ln's error, or nil after Shutdown and when ln was closed. Several calls of Serve
// may run concurrently. Of the Server's methods, only Shutdown closes ln. As
// sluice.Server.Serve does, it logs one line if ln is for Multipath TCP.
func (s *Server) Serve(ln net.Listener) error {
	if s.Handler == nil {
		return errNoHandler
	}
	if s.ProxyProtocol != sluice.ProxyProtocolOff && len(s.ProxyTrusted) == 0 && ln.Addr().Network() != "unix" {
		return errNoTrusted
	}
	cfg := s.config()
	choose.LogMultipath(ln, cfg.logger.Printf)
	e := s.beginServe(&ln, cfg)
	defer s.serving.End(&ln)
	source := ln
	if s.TLSConfig != nil {
		source = &engine.TLSListener{Listener: ln, Config: s.TLSConfig}
	}
	return engine.ServeError(e.Serve(source, &acceptor{server: s, cfg: cfg, engine: e}))
}

// ServeConn serves one connection and returns when it is closed or detached. It
// returns nil after a regular end, otherwise the error that OnClose gets, and
// ErrRefused if there are too many connections.
func (s *Server) ServeConn(c net.Conn) error {
	if s.Handler == nil {
		return errNoHandler
	}
	if s.TLSConfig != nil {
		c = engine.Secure(c, s.TLSConfig, s.ProxyProtocol != sluice.ProxyProtocolOff)
	}
	a := &acceptor{server: s, cfg: s.config(), isSingle: true}
	a.engine = s.start(a.cfg)
	err := a.engine.ServeConn(c, nil, a)
	if a.failure != nil {
		return a.failure
	}
	return err
}

// Shutdown closes the listeners and all connections that are between messages. It
// waits until the other connections have finished their messages, and closes them
// too. If ctx ends first, it closes the remaining connections and returns ctx's
// error. Data that Senders have accepted and not written yet may be lost. Shutdown
// does not wait for detached connections. Concurrent calls wait for the same end,
// each as long as its own ctx; the first ctx to end closes the remaining
// connections. After Shutdown, the Server may serve again.
func (s *Server) Shutdown(ctx context.Context) error {
	nothing := func(engine.Engine) {}
	return s.serving.Shutdown(ctx, nothing, nothing)
}

// beginServe returns the engine that serves ln.
func (s *Server) beginServe(ln *net.Listener, cfg *config) engine.Engine {
	s.serving.Lock()
	defer s.serving.Unlock()
	s.serving.BeginLocked(ln)
	return s.startLocked(cfg)
}
