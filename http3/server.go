package http3

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/h3"
)

// ListenAndServe serves HTTP/1.1 and HTTP/2 over TLS on the TCP address addr, and HTTP/3 on
// the same port of UDP, until Shutdown of s. certFile and keyFile are PEM files; they may be
// empty if s.TLSConfig has a certificate. It returns nil after Shutdown, or else why it could
// not listen or serve; then neither is served any more.
func ListenAndServe(s *sluice.Server, addr, certFile, keyFile string) error {
	return (&Server{Server: s}).ListenAndServe(addr, certFile, keyFile)
}

// A Server serves HTTP/3 for a sluice.Server. It must not change after its first use.
type Server struct {
	// Server has the handler, the limits and the metrics; it ends what a Server serves, with
	// Shutdown. It is needed.
	Server *sluice.Server
	// TLSConfig is for HTTP/3; nil: that of Server. A copy is used, with TLS 1.3 and the
	// protocol "h3".
	TLSConfig *tls.Config

	Config

	began func(*serving) // called before it serves; nil: nothing
}

// ListenAndServe is the function ListenAndServe with the options of s.
func (s *Server) ListenAndServe(addr, certFile, keyFile string) error {
	ln, sockets, err := listenBoth(addr, s.Sockets)
	if err != nil {
		return err
	}
	return s.serveTLS(ln, sockets, certFile, keyFile)
}

// ServeTLS serves HTTP/1.1 and HTTP/2 over TLS on the connections of ln, and HTTP/3 on c, as
// ListenAndServe does. It closes both.
func (s *Server) ServeTLS(ln net.Listener, c net.PacketConn, certFile, keyFile string) error {
	return s.serveTLS(ln, []socket{{conn: c}}, certFile, keyFile)
}

// serveTLS is ServeTLS with several sockets.
func (s *Server) serveTLS(ln net.Listener, sockets []socket, certFile, keyFile string) error {
	defer ln.Close()
	if certFile != "" || keyFile != "" {
		if err := s.Server.AppendCert(certFile, keyFile); err != nil {
			closeAll(sockets)
			return err
		}
	}
	ended := make(chan error, 1)
	go func() {
		ended <- s.serve(sockets)
		_ = ln.Close()
	}()
	err := s.Server.ServeTLS(ln, "", "")
	select {
	case of := <-ended:
		return errors.Join(err, of)
	default:
	}
	if err != nil { // TCP has failed, and UDP is served
		closeAll(sockets)
	}
	return errors.Join(err, <-ended)
}

// Serve serves HTTP/3 on c, which it closes at its end. It returns nil after Shutdown of
// s.Server, or else why it could not serve.
func (s *Server) Serve(c net.PacketConn) error { return s.serve([]socket{{conn: c}}) }

// A socket is a UDP socket of a Server.
type socket struct {
	conn     net.PacketConn
	ids      quic.ConnectionIDGenerator // nil: they are random
	resetKey *quic.StatelessResetKey    // nil: it is random
	tokenKey *quic.TokenGeneratorKey    // nil: it is random
}

func closeAll(sockets []socket) {
	for _, s := range sockets {
		_ = s.conn.Close()
	}
}

// A serving is a Server that serves: what is attached to its sluice.Server.
type serving struct {
	config      Config // with defaults
	attachment  server.Attachment
	cfg         *server.AttachedConfig
	readTimeout time.Duration
	settings    []byte // the beginning of our control streams
	stats       stats
	handshakes  atomic.Int64  // in progress
	ended       chan struct{} // closed at the end of Shutdown

	mu        sync.Mutex
	listeners []listener
	conns     map[*conn]struct{}
	arriving  int  // connections that were accepted, and are neither in conns nor refused
	isEnding  bool // Shutdown was called
	isCut     bool // and has not waited until the end
	changed   sync.Cond

	windowMu sync.Mutex
	windows  map[*quic.Conn]uint64 // by how much the windows of connections have grown
	window   uint64                // the sum
}

var _ server.Attached = (*serving)(nil)

// serve serves HTTP/3 on sockets, and closes them.
func (s *Server) serve(sockets []socket) error {
	defer closeAll(sockets)
	v, err := s.attach()
	if err != nil {
		return err
	}
	defer v.attachment.Detach()
	config, err := tlsConfig(s.TLSConfig, v.cfg.TLS)
	if err != nil {
		return err
	}
	if s.began != nil {
		s.began(v)
	}
	return v.run(sockets, config)
}

// attach makes HTTP/3 a protocol of s.Server.
func (s *Server) attach() (*serving, error) {
	attacher, ok := s.Server.Control().Value(server.AttachKey{}).(server.Attacher)
	if !ok {
		return nil, errors.New("sluice: http3: this version of the server has no HTTP/3")
	}
	v := &serving{conns: make(map[*conn]struct{}), windows: make(map[*quic.Conn]uint64), ended: make(chan struct{})}
	v.changed.L = &v.mu
	attachment, err := attacher.Attach(v)
	if err != nil {
		return nil, err
	}
	v.begin(attachment, s.Config)
	return v, nil
}

// begin prepares v.
func (v *serving) begin(attachment server.Attachment, config Config) {
	v.attachment, v.cfg = attachment, attachment.Config()
	v.config = config.withDefaults(v.cfg.IdleTimeout, v.cfg.WriteTimeout)
	if v.readTimeout = v.cfg.ReadTimeout; v.readTimeout <= 0 {
		v.readTimeout = defaultHeadTimeout
	}
	settings := h3.Settings{MaxSectionSize: uint64(v.cfg.Limits.MaxHead), ExtendedConnect: !v.config.DisableWebSocket}
	v.settings = h3.AppendSettings([]byte{streamControl}, settings)
}

// admit admits a connection whose handshake is complete.
func (v *serving) admit(n *netConn) (server.Facts, error) {
	v.mu.Lock()
	count, isEnding := len(v.conns), v.isEnding
	v.mu.Unlock()
	switch {
	case isEnding:
		return server.Facts{}, errEnding
	case v.config.MaxConns > 0 && count >= v.config.MaxConns:
		return server.Facts{}, errRefused
	}
	return v.attachment.Admit(n)
}

// Why a connection is refused.
var (
	errRefused = errors.New("sluice: http3: too many connections")
	errEnding  = errors.New("sluice: http3: the server is shut down")
)

// add adds a connection.
func (v *serving) add(c *conn) {
	v.mu.Lock()
	v.conns[c] = struct{}{}
	v.arriving--
	isEnding, isCut := v.isEnding, v.isCut
	v.mu.Unlock()
	switch { // it was admitted before
	case isCut:
		c.close()
	case isEnding:
		c.leave()
	}
}

// refuse ends a connection that is not added.
func (v *serving) refuse(q *quic.Conn, code h3.Code, why string) {
	_ = q.CloseWithError(quic.ApplicationErrorCode(code), why)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.arriving--
	v.changed.Broadcast()
}

// remove removes a connection, which has ended with err; nil: in order.
func (v *serving) remove(c *conn, err error) {
	v.attachment.Release(c.net, err)
	v.windowMu.Lock()
	v.window -= v.windows[c.quic]
	delete(v.windows, c.quic)
	v.windowMu.Unlock()
	v.mu.Lock()
	delete(v.conns, c)
	v.changed.Broadcast()
	v.mu.Unlock()
}

// all returns the open connections.
func (v *serving) all() []*conn {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make([]*conn, 0, len(v.conns))
	for c := range v.conns {
		all = append(all, c)
	}
	return all
}
