package sluice

import (
	"errors"
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/server/http2"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// http2Host is the server of one HTTP/2 connection, as package http2 sees it.
type http2Host struct {
	*acceptor
	server  *Server // of acceptor, which another ServeConn may have when Wake is called
	conn    engine.Conn
	netConn net.Conn
}

var _ http2.Host = (*http2Host)(nil)

// http2Conn is the engine.Protocol of one HTTP/2 connection. It counts and reports what
// its http2.Conn does.
type http2Conn struct {
	*http2.Conn
	host     http2Host
	isActive bool // what ConnState was told last
}

var (
	_ engine.Sleeper  = (*http2Conn)(nil)
	_ engine.Packer   = (*http2Conn)(nil)
	_ engine.Unpacker = (*acceptor)(nil)
)

// openHTTP2 returns the Protocol of a connection that speaks HTTP/2. begun is input that
// the engine does not have any more.
func (a *acceptor) openHTTP2(conn engine.Conn, facts server.Facts, begun []byte) *http2Conn {
	c := a.newHTTP2Conn(conn)
	c.Conn = http2.NewConn(conn, &c.host, a.cfg.http2, facts, begun)
	return c
}

func (a *acceptor) newHTTP2Conn(conn engine.Conn) *http2Conn {
	return &http2Conn{host: http2Host{acceptor: a, server: a.server, conn: conn, netConn: conn.NetConn()}}
}

// Capabilities implements engine.Protocol.
func (c *http2Conn) Capabilities() engine.Capabilities {
	return c.Conn.Capabilities() | engine.CanSleep
}

// Sleep implements engine.Sleeper. Handlers that have timed out may still use c.host.
func (c *http2Conn) Sleep() (engine.Memo, bool) {
	facts := *c.Facts()
	record, ok := c.Conn.Sleep()
	if !ok {
		return engine.Memo{}, false
	}
	m := engine.Memo{ID: facts.ID, Served: uint64(record)<<memoShift | memoHTTP2, Opened: facts.Opened}
	if facts.IsTLS {
		m.Served |= memoTLS
	}
	return m, true
}

// wakeHTTP2 restores what Sleep has returned.
func (a *acceptor) wakeHTTP2(conn engine.Conn, facts server.Facts, record http2.Record) *http2Conn {
	c := a.newHTTP2Conn(conn)
	c.Conn = http2.Wake(conn, &c.host, a.cfg.http2, facts, record)
	return c
}

// Unpack returns the Protocol of a connection that was handed over with its state; see
// engine.Unpacker.
func (a *acceptor) Unpack(conn engine.Conn, state []byte) (engine.Protocol, []byte) {
	if s, ok := upgrade.ParseState(state); ok {
		return a.unpackUpgraded(conn, s)
	}
	if !a.cfg.speaksHTTP2(a.server) {
		a.cfg.logger.Printf("connection from %s closed: it speaks HTTP/2, which is off", conn.RemoteAddr())
		return nil, nil
	}
	c := a.newHTTP2Conn(conn)
	facts := server.Facts{ID: a.server.gauges.connID.Add(1), Opened: clock.Nanos()}
	if c.Conn = http2.Unpack(conn, &c.host, a.cfg.http2, facts, state); c.Conn == nil {
		a.cfg.logger.Printf("connection from %s closed: its state of HTTP/2 is damaged, or of another version", conn.RemoteAddr())
		return nil, nil
	}
	a.cfg.tellState(conn, StateNew)
	return c, nil
}

// Feed implements engine.Protocol.
func (c *http2Conn) Feed(in []byte) (used int, next engine.Next) {
	before := c.Facts().Served
	used, next = c.Conn.Feed(in)
	c.host.cfg.meter.transferred(used, 0)
	if c.host.cfg.connState != nil {
		c.tellState(c.Facts().Served != before)
	}
	return used, next
}

// Run implements engine.Protocol.
func (c *http2Conn) Run(out []byte) ([]byte, engine.Next) { return c.Prompted(out) }

// Prompted implements engine.Prompted.
func (c *http2Conn) Prompted(out []byte) ([]byte, engine.Next) {
	before := len(out)
	out, next := c.Conn.Prompted(out)
	c.wrote(len(out) - before)
	return out, next
}

// TimedOut implements engine.Protocol.
func (c *http2Conn) TimedOut(out []byte) ([]byte, engine.Next) {
	before := len(out)
	out, next := c.Conn.TimedOut(out)
	c.wrote(len(out) - before)
	return out, next
}

// wrote counts n bytes that the engine has got.
func (c *http2Conn) wrote(n int) {
	c.host.cfg.meter.transferred(0, n)
	if c.host.cfg.connState != nil {
		c.tellState(false)
	}
}

// tellState calls Server.ConnState if streams were opened, or none is open any more. A
// connection that fails, by an invalid preface as well, is not idle before it is closed.
func (c *http2Conn) tellState(hasOpened bool) {
	h := &c.host
	if hasOpened && !c.isActive {
		c.isActive = true
		h.cfg.connState(h.netConn, StateActive)
	}
	if c.isActive && c.IsQuiet() {
		c.isActive = false
		h.cfg.connState(h.netConn, StateIdle)
	}
}

// speaksHTTP2 reports whether HTTP/2 is spoken. A ServeConn gets its configuration here,
// because few need it.
func (c *serverConfig) speaksHTTP2(s *Server) bool {
	if c.http2 == nil && c.single != nil && !s.HTTP2.Disable {
		c.http2 = newHTTP2Config(s, c)
	}
	return c.http2 != nil
}

// newHTTP2Config derives what the HTTP/2 connections of a server share.
func newHTTP2Config(s *Server, cfg *serverConfig) *http2.Config {
	own := http2.Config{
		Limits:         cfg.Limits,
		Gauges:         s.http2Gauges(),
		ReadTimeout:    cfg.ReadTimeout,
		StallTimeout:   cfg.WriteTimeout,
		IdleTimeout:    cfg.IdleTimeout,
		MaxRequests:    cfg.MaxRequests,
		AsksUser:       cfg.AsksUser,
		StreamsBodies:  cfg.streamBody,
		LogsAll:        cfg.LogsAll,
		ClosesHijacked: cfg.ClosesHijacked,
		Meter:          cfg.Meter,
		TasksMayWait:   s.MaxWorkers > 0,
	}
	if cfg.single != nil {
		own.Requests = &cfg.single.streams
	}
	return http2.NewConfig(http2.Options(s.HTTP2), own)
}

// Wake implements http2.Host.
func (h *http2Host) Wake(conn engine.Conn, m engine.Memo) engine.Protocol {
	return h.server.wakeUpgraded(conn, m)
}

// IsClosing implements http2.Host.
func (h *http2Host) IsClosing(f *server.Facts) bool { return h.cfg.isClosing(h.server, f) }

// isClosing reports whether a connection with streams is to end after its present requests.
func (c *serverConfig) isClosing(s *Server, f *server.Facts) bool {
	switch {
	case s.closeRequested():
		return true
	case f.Served == 0:
		return false
	}
	return !c.KeepAlive || c.MaxLife > 0 && clock.Nanos()-f.Opened > int64(c.MaxLife)
}

// Stage implements http2.Host.
func (h *http2Host) Stage() server.Stage { return h.server.stage() }

// stage tells how far the server's life is. Shutdown does not wait for what was hijacked.
func (s *Server) stage() server.Stage {
	switch {
	case s.done.IsClosed():
		return server.StageShutDown
	case s.closeRequested():
		return server.StageEnding
	}
	return server.StageServing
}

// Closed implements http2.Host.
func (h *http2Host) Closed(err error) {
	if h.cfg.connState != nil {
		h.cfg.connState(h.netConn, StateClosed)
	}
	if err == nil {
		return
	}
	h.cfg.fail(err)
	var violation *h2.Error
	if h.cfg.LogsAll || !errors.As(err, &violation) {
		h.cfg.logConnError(h.conn, err)
	}
}

// ErrNotSupportedHTTP2 is returned by the methods of RequestCtx.Conn that HTTP/2 and HTTP/3 do
// not support, because a connection carries several requests, and by clients with
// HTTP2Only for the method CONNECT.
var ErrNotSupportedHTTP2 = http2.ErrNotSupported

// HTTP2Config configures HTTP/2 (RFC 9113) of a Server. The zero value is HTTP/2 with the
// limits below.
//
// Limits of requests are those of HTTP/1.1: ReadBufferSize, MaxRequestBodySize,
// MaxBodyMemory, ReadTimeout, MinBodyRate. MaxRequestsPerConn, MaxKeepaliveDuration,
// DisableKeepalive and IdleTimeout end a connection with GOAWAY. Requests that the client
// sends before it has received that are still served.
type HTTP2Config struct {
	// Disable makes the Server speak HTTP/1.1 only. Without it, clients that send the
	// preface of HTTP/2 get HTTP/2 (prior knowledge, RFC 9113 section 3.3), and over TLS
	// those that choose "h2" by ALPN. ServeTLS offers "h2" unless TLSConfig.NextProtos is
	// set and lacks it. A NextProto("h2", ...) takes precedence.
	Disable bool

	// DisableWebSocket switches WebSocket over HTTP/2 (RFC 8441) off. Browsers then open a
	// connection of HTTP/1.1 for each WebSocket.
	//
	// Handlers see a WebSocket as the upgrade of HTTP/1.1 that it stands for: the method is
	// GET, and there are Connection, Upgrade and Sec-WebSocket-Key. A status of 101 with
	// RequestCtx.Hijack becomes 200, and the HijackHandler gets a net.Conn over the stream.
	// A 2xx status without Hijack, which would promise a tunnel, becomes 501.
	//
	// Requests for other protocols have the method CONNECT, a path, and
	// RequestHeader.ConnectProtocol; Hijack works with a 2xx status. With
	// DisableWebSocket, all of them are reset with PROTOCOL_ERROR.
	//
	// Such a stream counts against MaxConcurrentStreams until its connection is closed.
	// Browsers open all WebSockets of a site on one connection.
	DisableWebSocket bool

	// MaxConcurrentStreams limits the open requests of a connection; 250 if 0. A
	// request beyond it is refused with REFUSED_STREAM. A request that the client has
	// reset counts until its handler returns.
	MaxConcurrentStreams int

	// HeaderTableSize limits the memory, in bytes, in which a connection keeps fields
	// of earlier requests (RFC 7541 section 4.2); 4,096 if 0, and at most 65,536.
	HeaderTableSize int

	// StreamWindow limits how many bytes of a body a client may send beyond those that the
	// handler has read; 1 MiB if 0. The window of a request begins with 64 KiB. It grows to
	// what Content-Length declares when the body is read and has not arrived, else with the
	// speed of the client, as that of the connection does. ConnWindow limits the latter, and
	// what all of them grow by together; 16 MiB if 0. It does not limit how many requests
	// have 64 KiB: a handler that reads nothing must not stop the others. So the bodies of a
	// connection that are not read are at most ConnWindow, and 64 KiB for each of
	// MaxConcurrentStreams.
	StreamWindow, ConnWindow int

	// StallTimeout limits how long a client may take nothing of a response that waits
	// for it; then the stream is reset. 0 means WriteTimeout, or 30 seconds if that is
	// 0 too.
	StallTimeout time.Duration
}
