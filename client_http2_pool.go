package sluice

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/client/dial"
	http2client "github.com/sluicehttp/sluice/internal/client/http2"
	"github.com/sluicehttp/sluice/internal/client/pool"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

const (
	// defaultHTTP2Conns is the default of MaxHTTP2Conns.
	defaultHTTP2Conns = 4
	// assumedStreams is how many streams a server is assumed to admit before its
	// SETTINGS have come. RFC 9113 section 6.5.2 recommends at least as many.
	assumedStreams = 100
)

// http2Pool is the part of a HostClient for connections of HTTP/2.
type http2Pool struct {
	pool.Shared[*http2Peer]
	// isHTTP1: the last connection that was opened speaks HTTP/1.1. Requests then do not
	// wait for each other's connections.
	isHTTP1 atomic.Bool
	// maxStreams bounds the streams of a connection; 0: only the server does.
	maxStreams int
	// passHTTP1 gets connections whose server has chosen HTTP/1.1; the request then fails
	// with errChoseHTTP1. nil: the HostClient uses them itself.
	passHTTP1 func(cc *clientConn)
}

// http2Member is a connection in the pool. A request owns a place for a stream on it
// from take until releaseHTTP2.
type http2Member = pool.Member[*http2Peer]

// mayUseHTTP2 reports whether the mode admits HTTP/2 for this host.
func (c *HostClient) mayUseHTTP2() bool {
	return c.HTTP2 == HTTP2Only || c.HTTP2 == HTTP2Auto && c.IsTLS
}

// http2Settings returns the settings that concern the pool of HTTP/2.
func (c *HostClient) http2Settings() pool.SharedSettings[*http2Peer] {
	return pool.SharedSettings[*http2Peer]{
		MaxConns: positiveOr(c.MaxHTTP2Conns, defaultHTTP2Conns),
		MaxIdle:  c.maxIdle(),
		MaxAge:   c.MaxConnDuration,
		Close:    (*http2Peer).close,
		Look:     (*http2Peer).look,
	}
}

// http2Peer is a connection of HTTP/2 of a HostClient.
type http2Peer struct {
	conn      *http2client.Conn
	nc        net.Conn // what was dialed
	addr      string
	c         *HostClient
	member    *http2Member // of which it is the Conn
	wasUsed   atomic.Bool
	isSettled atomic.Bool // the server has sent SETTINGS
}

var _ http2client.Watcher = (*http2Peer)(nil)

// newHTTP2Peer returns the connection nc to addr, for the pool.
func (c *HostClient) newHTTP2Peer(nc net.Conn, addr string) *http2Member {
	p := &http2Peer{nc: nc, addr: addr, c: c}
	p.member = pool.NewMember(p, c.http2.clamp(assumedStreams))
	p.conn = http2client.NewConn(nc, c.prepared().http2, p)
	return p.member
}

// clamp returns how many of limit streams are used.
func (p *http2Pool) clamp(limit int) int {
	if p.maxStreams > 0 {
		return min(limit, p.maxStreams)
	}
	return limit
}

// LimitChanged implements http2client.Watcher.
func (p *http2Peer) LimitChanged(limit int) {
	p.isSettled.Store(true)
	p.c.http2.SetLimit(p.c.http2Settings(), p.member, p.c.http2.clamp(limit))
}

// Ended implements http2client.Watcher.
func (p *http2Peer) Ended(error) {
	p.c.http2.Drain(p.c.http2Settings(), p.member)
}

func (p *http2Peer) look() { p.conn.Look() }

func (p *http2Peer) close() { _ = p.conn.Close() } // the client cannot do anything about the error

// HTTP2Mode says when a client speaks HTTP/2 (RFC 9113).
//
// A TLSConfig with NextProtos is offered unchanged: then they decide whether HTTP/2 is
// negotiated. HTTP2Off takes "h2" out of a copy. A RoundTripper that does not call DefaultTransport gets connections of
// HTTP/1.1 from AcquireConn, whatever the mode is.
type HTTP2Mode uint8

const (
	// HTTP2Off speaks HTTP/1.1 only.
	HTTP2Off HTTP2Mode = iota
	// HTTP2Auto offers HTTP/2 and HTTP/1.1 over TLS (ALPN, RFC 7301), and speaks what
	// the server chooses. In plain text it speaks HTTP/1.1. A request with the method
	// CONNECT uses HTTP/1.1.
	HTTP2Auto
	// HTTP2Only speaks HTTP/2: over TLS if the server chooses it, and in plain text
	// without asking (prior knowledge, RFC 9113 section 3.3). Connecting to another
	// server fails with ErrNoHTTP2. A request with the method CONNECT fails with
	// ErrNotSupportedHTTP2.
	HTTP2Only
)

// String returns "off", "auto" or "only".
func (m HTTP2Mode) String() string {
	if m > HTTP2Only {
		return fmt.Sprintf("HTTP2Mode(%d)", uint8(m))
	}
	return [...]string{"off", "auto", "only"}[m]
}

// ErrNoHTTP2 is matched by the errors of clients with HTTP2Only for a server that has not
// chosen HTTP/2 or, in plain text, answers with something else. Over TLS it is wrapped in
// an *ErrDialWithUpstream. Use HTTP2Auto or HTTP2Off for such servers.
var ErrNoHTTP2 = errors.New("sluice: the server does not speak HTTP/2")

// prepareHTTP2 derives from the fields what connections of HTTP/2 need.
func (c *HostClient) prepareHTTP2() {
	s := &c.setup
	s.http2 = &http2client.Config{Limits: c.headLimits(), Pairs: &h2.Pairs{}, IsTLS: c.IsTLS}
	if s.tls != nil {
		s.tls, s.alpn = dial.OfferHTTP2(s.tls)
	}
}
