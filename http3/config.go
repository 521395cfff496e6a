package http3

import (
	"cmp"
	"time"
)

// A Config has the limits of HTTP/3 connections. The zero value has the defaults.
type Config struct {
	// MaxConcurrentStreams is how many requests a connection may have at once, until their
	// handlers have returned; 0: 250. Up to half of them may be requests that have ended, for a
	// second at most: the client gets their credit together.
	MaxConcurrentStreams int
	// StreamWindow and ConnWindow are how many bytes of bodies a client may send beyond what
	// was read, for one request and for one connection; 0: 1 MiB and 16 MiB. Connections begin
	// with a sixteenth and a sixty-fourth of the defaults.
	StreamWindow, ConnWindow int
	// MaxConns is how many connections may be open; 0: as many as Server.Concurrency admits
	// together with those of TCP.
	MaxConns int
	// IdleTimeout closes connections without requests; 0: Server.IdleTimeout, but at most 30
	// seconds, because an idle connection costs about 66 KB.
	IdleTimeout time.Duration
	// StallTimeout is how long a client may take nothing of a response; 0:
	// Server.WriteTimeout, or else 30 seconds.
	StallTimeout time.Duration
	// DisableWebSocket refuses extended CONNECT (RFC 9220), by which clients open WebSockets.
	DisableWebSocket bool
	// EarlyData accepts requests in the first flight of a client that was here before (RFC
	// 8470). Those with GET, HEAD or OPTIONS and without content are served at once, and
	// RequestCtx.IsEarly reports it; all others wait for the end of the handshake.
	EarlyData bool
	// RetryAbove is the number of handshakes in progress above which new clients have to
	// prove their address, which costs them a round trip; 0: 1000; negative: they always do.
	RetryAbove int
	// AltSvc is the value of the Alt-Svc field (RFC 7838) of responses over TCP; "": h3 on
	// the port of the socket, for a day; "-": there is none.
	AltSvc string
	// Sockets is how many UDP sockets ListenAndServe opens, on Linux; 0: 1, at most 256. Each
	// has connections of its own, so several processors can read packets.
	Sockets int
}

const (
	defaultStreams      = 250
	defaultStreamWindow = 1 << 20
	defaultConnWindow   = 16 << 20
	firstStreamWindow   = 64 << 10
	firstConnWindow     = 256 << 10
	maxUniStreams       = 8 // three are needed; the credit is never given back
	defaultIdle         = 30 * time.Second
	defaultStall        = 30 * time.Second
	defaultHeadTimeout  = 10 * time.Second
	defaultRetryAbove   = 1000
	maxHandshakes       = 4000
	handshakeTimeout    = 5 * time.Second
	quicIdle            = 60 * time.Second
	quicKeepAlive       = 20 * time.Second
	// firstPacketSize is what every path takes (RFC 9000 section 14): IPv6's smallest MTU of
	// 1,280 has no room for quic-go's 1,280 bytes. Packets grow as the path lets them.
	firstPacketSize = 1200
)

// withDefaults returns c without zero values.
func (c Config) withDefaults(idle, write time.Duration) Config {
	c.MaxConcurrentStreams = cmp.Or(c.MaxConcurrentStreams, defaultStreams)
	c.StreamWindow = cmp.Or(c.StreamWindow, defaultStreamWindow)
	c.ConnWindow = cmp.Or(c.ConnWindow, defaultConnWindow)
	c.RetryAbove = cmp.Or(c.RetryAbove, defaultRetryAbove)
	if c.IdleTimeout <= 0 {
		c.IdleTimeout = defaultIdle
		if idle > 0 {
			c.IdleTimeout = min(idle, defaultIdle)
		}
	}
	if c.StallTimeout <= 0 {
		c.StallTimeout = defaultStall
		if write > 0 {
			c.StallTimeout = write
		}
	}
	return c
}
