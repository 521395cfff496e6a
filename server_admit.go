package sluice

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/server/http1"
	"github.com/sluicehttp/sluice/internal/server/http2"
	"github.com/sluicehttp/sluice/internal/wire/proxy"
)

// serverGauges are the counters of a Server that change without its mutex.
type serverGauges struct {
	isClosing atomic.Bool            // connections are closed after their next response
	altSvc    atomic.Pointer[[]byte] // of responses over TLS; nil: none. The bytes do not change
	// Each request reads what is above, and each connection writes what is below. A
	// cache line apart, writing does not take the line from all other processors.
	_ [64]byte

	connID     atomic.Uint64
	arrived    atomic.Int64 // connections that engines own, and hijacked ones
	admitted   atomic.Int64 // of these, the ones that count against limits
	hijacked   atomic.Int64 // connections that hijack handlers own
	rejected   atomic.Uint32
	unproxied  atomic.Uint64        // connections that ProxyProtocol has refused
	bodyMemory atomic.Int64         // bytes of request bodies held
	timed      atomic.Int64         // handlers running under TimeoutHandler
	hasWarned  [misuses]atomic.Bool // this misuse is logged
	http2      http2.Gauges         // unless there is a Meter
	http3      http3Gauges          // the same
	forms      message.FormCollector
}

// open returns the number of connections that engines own, from the moment at
// which they are accepted or adopted.
func (g *serverGauges) open() int64 { return max(g.arrived.Load()-g.hijacked.Load(), 0) }

// served returns the number of connections that count against limits.
func (g *serverGauges) served() int64 { return max(g.admitted.Load()-g.hijacked.Load(), 0) }

// acceptor is the engine.Acceptor of one Serve or ServeConn, or of all adopted
// connections.
type acceptor struct {
	server *Server
	cfg    *serverConfig
	hooks  engine.Hooks // empty for ServeConn but for Proxy: Admit counts its connections
}

// newAcceptor returns an acceptor for many connections.
func newAcceptor(s *Server, cfg *serverConfig) *acceptor {
	a := &acceptor{server: s, cfg: cfg}
	a.hooks = engine.Hooks{Arrived: a.arrived, Departed: a.departed, Divert: s.control.Divert, Proxy: cfg.proxy}
	return a
}

// A single is the state of one ServeConn.
type single struct {
	acceptor acceptor
	config   serverConfig
	name     []byte         // memory of config.name
	streams  sync.WaitGroup // requests of HTTP/2 that have not ended

	mu      sync.Mutex // requests of HTTP/2 run at the same time
	failure error      // why the connection or a request was refused; nil: neither
	// isRetained is set when other goroutines may use config after ServeConn has
	// returned.
	isRetained bool
}

// fail stores err for ServeConn. The first one counts.
func (c *serverConfig) fail(err error) {
	if one := c.single; one != nil {
		one.mu.Lock()
		defer one.mu.Unlock()
		if one.failure == nil {
			one.failure = err
		}
	}
}

// retain prevents c from being reused for another ServeConn.
func (c *serverConfig) retain() {
	if one := c.single; one != nil {
		one.mu.Lock()
		defer one.mu.Unlock()
		if !one.isRetained { // otherwise ServeConn may have returned, and be looking at it
			one.isRetained = true
		}
	}
}

// tellState calls Server.ConnState.
func (c *serverConfig) tellState(conn engine.Conn, state ConnState) {
	if c.connState != nil {
		c.connState(conn.NetConn(), state)
	}
}

// addressed is an engine.Conn or a net.Conn.
type addressed interface {
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
}

// logConnError logs an error of conn. Without LogAllErrors it skips errors that
// the client causes.
func (c *serverConfig) logConnError(conn addressed, err error) {
	if !c.LogsAll {
		var netErr net.Error
		if errors.As(err, &netErr) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
			return
		}
	}
	c.logger.Printf("error when serving connection %q<->%q: %v", conn.LocalAddr(), conn.RemoteAddr(), err)
}

// Admit counts a connection against the limits; see engine.Acceptor.
func (a *acceptor) Admit(c net.Conn) (ok bool, refusal []byte) {
	switch err := a.admit(c); err {
	case nil:
	case ErrConcurrencyLimit:
		a.cfg.fail(err)
		return false, refusalText(StatusServiceUnavailable, "The connection cannot be served: the server's concurrency limit is reached")
	default:
		a.cfg.fail(err)
		return false, refusalText(StatusTooManyRequests, "The number of connections from your address is limited")
	}
	if a.cfg.single != nil {
		a.server.gauges.arrived.Add(1)
	}
	return true, nil
}

// admit counts a connection against the limits. The error is ErrConcurrencyLimit or
// ErrPerIPConnLimit.
func (a *acceptor) admit(c net.Conn) error {
	s := a.server
	if s.gauges.admitted.Add(1)-s.gauges.hijacked.Load() > a.cfg.concurrency {
		s.gauges.admitted.Add(-1)
		s.gauges.rejected.Add(1)
		a.cfg.meter.refused()
		a.cfg.logger.Printf("connection from %s refused: Server.Concurrency=%d is reached", c.RemoteAddr(), a.cfg.concurrency)
		time.Sleep(a.cfg.refusalPause)
		return ErrConcurrencyLimit
	}
	if !s.perIP.Add(c, a.cfg.perIP) {
		s.gauges.admitted.Add(-1)
		a.cfg.meter.refused()
		return ErrPerIPConnLimit
	}
	return nil
}

// RefusePlain implements engine.PlainRefuser: a client that sends HTTP without TLS is told
// so, as one that speaks HTTP/2 is, in the form that people can read.
func (a *acceptor) RefusePlain(first []byte) (refusal []byte) {
	method, _, _ := bytes.Cut(first, []byte(" "))
	isUpper := func(c rune) bool { return 'A' <= c && c <= 'Z' || c == '-' }
	if len(method) < len("GET") || len(bytes.TrimLeftFunc(method, isUpper)) > 0 {
		return nil
	}
	return refusalText(StatusBadRequest, "This port speaks HTTPS, and the request came in plain HTTP: use https://")
}

// Hooks makes the engine count connections and call ServerControl.Divert; see
// engine.Hooker.
func (a *acceptor) Hooks() engine.Hooks {
	if m := a.cfg.meter; m != nil && a.cfg.single != nil {
		return engine.Hooks{Arrived: m.arrived, Departed: m.departed, Proxy: a.cfg.proxy}
	}
	return a.hooks
}

// arrived counts a connection that the engine has got; departed counts it when
// it ends.
func (a *acceptor) arrived() {
	a.server.gauges.arrived.Add(1)
	a.cfg.meter.arrived()
}

func (a *acceptor) departed() {
	a.server.gauges.arrived.Add(-1)
	a.cfg.meter.departed()
}

// Release undoes the counting of Admit; see engine.Acceptor.
func (a *acceptor) Release(c net.Conn) {
	if a.cfg.single != nil {
		a.server.gauges.arrived.Add(-1)
	}
	a.server.gauges.admitted.Add(-1)
	a.server.perIP.Remove(c, a.cfg.perIP)
}

// AcceptError logs a failed Accept, which the engine retries; see
// engine.Acceptor.
func (a *acceptor) AcceptError(err error) {
	a.cfg.logger.Printf("cannot accept a connection, trying again: %v", err)
}

// Open creates the state of a new connection; see engine.Acceptor.
func (a *acceptor) Open(conn engine.Conn) (engine.Protocol, []byte) {
	s := a.server
	facts := server.Facts{ID: s.gauges.connID.Add(1), Opened: clock.Nanos()}
	a.cfg.tellState(conn, StateNew)
	if !conn.IsSocket() {
		if stater, ok := conn.NetConn().(tlsStater); ok {
			facts.IsTLS = true
			state := stater.ConnectionState()
			protocol := state.NegotiatedProtocol
			if handler := s.nextProto(protocol); handler != nil {
				return &alpnConn{conn: conn, cfg: a.cfg, handler: handler}, nil
			}
			if protocol == engine.ProtocolHTTP2 && state.Version >= tls.VersionTLS12 && a.cfg.speaksHTTP2(s) {
				return a.openHTTP2(conn, facts, nil), nil
			}
		}
	}
	if a.cfg.IdleTimeout > 0 {
		conn.SetReadDeadline(facts.Opened, a.cfg.IdleTimeout)
	}
	if a.cfg.WriteTimeout > 0 {
		conn.SetWriteTimeout(a.cfg.WriteTimeout)
	}
	return http1.Open(conn, a, &a.cfg.Config, facts), nil
}

// A ProxyProtocol says which connections begin with a header of the PROXY protocol, see
// Server.ProxyProtocol.
type ProxyProtocol uint8

const (
	// ProxyProtocolOff expects no header. One that comes is a malformed request.
	ProxyProtocolOff ProxyProtocol = iota
	// ProxyProtocolAccept takes a header from the peers in Server.ProxyTrusted, which may also
	// send none. For other peers it is ProxyProtocolOff.
	ProxyProtocolAccept
	// ProxyProtocolRequire closes connections that do not begin with a header, and those of
	// other peers than in Server.ProxyTrusted. EngineStats.ProxyRefused counts them.
	ProxyProtocolRequire
)

// proxyProtocolNames are the names of the values, indexed by ProxyProtocol.
var proxyProtocolNames = [...]string{ProxyProtocolOff: "off", ProxyProtocolAccept: "accept", ProxyProtocolRequire: "require"}

// String returns the name that ParseProxyProtocol accepts: "off", "accept" or "require".
func (p ProxyProtocol) String() string {
	if int(p) < len(proxyProtocolNames) {
		return proxyProtocolNames[p]
	}
	return fmt.Sprintf("ProxyProtocol(%d)", uint8(p))
}

// ParseProxyProtocol returns the value with the given name: "off", "accept" or "require". Any
// other name is an error.
func ParseProxyProtocol(name string) (ProxyProtocol, error) {
	for p, known := range proxyProtocolNames {
		if name == known {
			return ProxyProtocol(p), nil
		}
	}
	return ProxyProtocolOff, fmt.Errorf("sluice: there is no setting %q of the PROXY protocol: it must be off, accept or require", name)
}

// MarshalText implements encoding.TextMarshaler.
func (p ProxyProtocol) MarshalText() ([]byte, error) {
	if int(p) >= len(proxyProtocolNames) {
		return nil, fmt.Errorf("sluice: there is no setting of the PROXY protocol with the number %d", uint8(p))
	}
	return []byte(proxyProtocolNames[p]), nil
}

// UnmarshalText implements encoding.TextUnmarshaler. It accepts what ParseProxyProtocol accepts.
func (p *ProxyProtocol) UnmarshalText(text []byte) (err error) {
	*p, err = ParseProxyProtocol(string(text))
	return err
}

var errNoTrusted = errors.New("sluice: ProxyProtocol is set, and ProxyTrusted is empty: name the networks of the proxies")

// proxyRule returns what the engine does for ProxyProtocol.
func (s *Server) proxyRule(c *serverConfig) *engine.ProxyRule {
	return &engine.ProxyRule{
		Requires: s.ProxyProtocol == ProxyProtocolRequire,
		Trusted:  s.ProxyTrusted,
		Refused: func(remote net.Addr, err error) {
			s.gauges.unproxied.Add(1)
			c.meter.refused()
			c.fail(err)
			if c.LogsAll {
				c.logger.Printf("connection from %s refused: %s", remote, textOf(err))
			}
		},
	}
}

// A ProxyInfo is what a proxy has said of a connection by the PROXY protocol, beside its
// addresses, which are RequestCtx.RemoteAddr and LocalAddr. A field is zero if the proxy did not
// say it. The slices must not be changed, and stay valid.
type ProxyInfo struct {
	// Proxy is the address of the proxy: the peer of the server's socket.
	Proxy net.Addr
	// Version of the protocol: 1, which has addresses only, or 2.
	Version int
	// ServerName is the name that the client has asked for (PP2_TYPE_AUTHORITY), as by the
	// server name of TLS.
	ServerName string
	// ALPN is the protocol that the client and the proxy have agreed on (RFC 7301).
	ALPN string
	// UniqueID is the proxy's name for the connection, of at most 128 bytes.
	UniqueID []byte
	// TLS is what the proxy knows of the TLS between the client and itself; nil if there is none.
	TLS *ProxyTLS

	tlvs proxy.TLVs
}

// A ProxyTLS is what a proxy has said of the TLS connection of its client.
type ProxyTLS struct {
	// Version and Cipher are names such as "TLSv1.3" and "TLS_AES_128_GCM_SHA256".
	Version, Cipher string
	// HasCertificate is set if the client has shown a certificate, on this connection or on the
	// one whose session it has resumed; IsVerified, if the proxy has verified it.
	HasCertificate, IsVerified bool
	// CommonName is that of the client's certificate. It proves nothing without IsVerified.
	CommonName string
}

// Value returns the first value of the given type that the proxy has sent (a TLV of version 2),
// nil if there is none: 0xEA is that of AWS.
func (i ProxyInfo) Value(kind byte) []byte { return i.tlvs.Get(kind) }

// ProxyInfoOf returns what RequestCtx.ProxyInfo returns, of a connection of a Server or of
// tcp.Server: that of ConnState or of a HijackHandler.
func ProxyInfoOf(c net.Conn) (i ProxyInfo, ok bool) {
	said, by := engine.ProxiedBy(c)
	if said == nil {
		return i, false
	}
	h := said.Header()
	i = ProxyInfo{
		Proxy: by, Version: h.Version, tlvs: h.TLVs,
		ServerName: string(h.TLVs.Get(proxy.TypeAuthority)),
		ALPN:       string(h.TLVs.Get(proxy.TypeALPN)),
		UniqueID:   h.TLVs.Get(proxy.TypeUniqueID),
	}
	if t, ok := proxy.ParseTLS(h.TLVs.Get(proxy.TypeTLS)); ok && t.IsUsed {
		i.TLS = &ProxyTLS{
			Version: string(t.TLVs.Get(proxy.TypeTLSVersion)), Cipher: string(t.TLVs.Get(proxy.TypeTLSCipher)),
			HasCertificate: t.HasCertificate, IsVerified: t.IsVerified,
			CommonName: string(t.TLVs.Get(proxy.TypeTLSName)),
		}
	}
	return i, true
}
