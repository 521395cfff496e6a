package sluice

import (
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/h2"
	"github.com/sluicehttp/sluice/internal/http2"
)

// http2Host is the server of one HTTP/2 connection, as package http2 sees it.
type http2Host struct {
	server  *Server
	cfg     *serverConfig
	facts   connFacts
	netConn net.Conn
	served  uint64 // requests begun; with the connection's mutex
}

var _ http2.Host = (*http2Host)(nil)

// openHTTP2 returns the Protocol of a connection that speaks HTTP/2. begun is input that
// the engine does not have any more.
func (a *acceptor) openHTTP2(conn engine.Conn, facts connFacts, begun []byte) *http2.Conn {
	host := &http2Host{server: a.server, cfg: a.cfg, facts: facts, netConn: conn.NetConn()}
	return http2.NewConn(conn, host, a.cfg.http2, begun)
}

// The defaults of HTTP/2.
const (
	http2Streams       = 250
	http2StreamWindow  = 64 << 10
	http2ConnWindow    = 1 << 20
	http2MaxStream     = 1 << 20
	http2MaxConnWindow = 16 << 20
	http2ReadTimeout   = 10 * time.Second
	http2StallTimeout  = 30 * time.Second
)

// newHTTP2Config derives what the HTTP/2 connections of a server share.
func newHTTP2Config(cfg *serverConfig) *http2.Config {
	settings := h2.DefaultSettings()
	settings.MaxConcurrentStreams = http2Streams
	settings.InitialWindowSize = http2StreamWindow
	settings.MaxHeaderListSize = uint32(cfg.limits.MaxHead)
	settings.NoRFC7540Priorities = true
	config := &http2.Config{
		Settings:        settings,
		Limits:          cfg.limits,
		Pairs:           &h2.Pairs{},
		ConnWindow:      http2ConnWindow,
		MaxConnWindow:   http2MaxConnWindow,
		MaxStreamWindow: http2MaxStream,
		ReadTimeout:     http2ReadTimeout,
		StallTimeout:    http2StallTimeout,
		IdleTimeout:     cfg.idleTimeout,
	}
	if cfg.readTimeout > 0 {
		config.ReadTimeout = cfg.readTimeout
	}
	return config
}

// NewStream implements http2.Host.
func (h *http2Host) NewStream() *http2.Stream {
	x := http2ExchangePool.Get().(*http2Exchange)
	x.host = h
	x.ctx.attach(h.server, h.cfg, h.facts)
	h.served++
	x.ctx.begin(h.served)
	return &x.stream
}

// IsClosing implements http2.Host.
func (h *http2Host) IsClosing() bool { return h.server.closeRequested() }

// Closed implements http2.Host.
func (h *http2Host) Closed(err error) {
	if h.cfg.connState != nil {
		h.cfg.connState(h.netConn, StateClosed)
	}
	if err != nil && h.cfg.logsAllErrors {
		h.cfg.logger.Printf("error when serving connection %q<->%q: %v", h.netConn.LocalAddr(), h.netConn.RemoteAddr(), err)
	}
}
